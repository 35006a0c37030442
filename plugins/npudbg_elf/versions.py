"""Version texts that a library or an NPU blob carries."""

from __future__ import annotations

import re
import struct
from pathlib import PurePath

from npudbg_elf.image import Reader
from npudbg_elf.records import SHT_NOTE, Image, Section

_SECTION = re.compile(r"version|abi|\.ver$", re.IGNORECASE)
_NOT_OURS = (".gnu.", ".note.gnu.", ".note.ABI-tag", ".MIPS.abi", ".debug")
_TEXT = re.compile(rb"(?<![\d.])(\d{1,6}(?:\.\d{1,6}){1,3})(?![\d.])")
_IN_NAME = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
_IN_DATA = re.compile(
    rb"(?:version|release|build|lib[ _-]?id)[ :=_]{0,3}v?(\d{1,6}(?:\.\d{1,6}){1,3})"
    rb"|\x00v?(\d{1,6}(?:\.\d{1,6}){2,3})\x00",
    re.IGNORECASE,
)
_MAX_NOTE = 64 << 10
_MAX_DATA = 4 << 20
Version = tuple[int, ...]


def parse_version(text: str) -> Version | None:
    """Return ``7.0.1`` as numbers, or None if it is no version."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", text.strip()):
        return None
    return tuple(int(part) for part in text.strip().split("."))


def version_text(version: Version) -> str:
    """Return a version as it is written."""
    return ".".join(map(str, version))


def note_versions(file: Reader, image: Image) -> list[tuple[str, Version]]:
    """Return ``(section, version)`` of each section that states a version."""
    found: list[tuple[str, Version]] = []
    for section in image.sections:
        if not _SECTION.search(section.name) or section.name.startswith(_NOT_OURS):
            continue
        data = file.read(section.offset, min(section.size, _MAX_NOTE)) if section.file_end else b""
        version = _note(data, image) if section.type == SHT_NOTE else _plain(data)
        if version is not None:
            found.append((section.name, version))
    return found


def library_version(file: Reader, image: Image) -> tuple[str, str]:
    """Return a library's own version and where it stands; two empty texts if unknown.

    Looked for in version notes, then in the file's name, then in its constants.
    """
    for name, version in note_versions(file, image):
        return version_text(version), f"section {name}"
    match = _IN_NAME.search(PurePath(image.path).name)
    if match:
        return match.group(1), "file name"
    for section in image.sections:
        if section.name in (".rodata", ".rodata.str1.1", ".rodata.str1.8", ".rdata"):
            text = _in_data(file, section)
            if text:
                return text, f"section {section.name}"
    return "", ""


def _in_data(file: Reader, section: Section) -> str:
    data = b"\0" + file.read(section.offset, min(section.size, _MAX_DATA))
    match = _IN_DATA.search(data)
    return (match.group(1) or match.group(2)).decode() if match else ""


def _note(data: bytes, image: Image) -> Version | None:
    sign = "<" if image.order == "little" else ">"
    at = 0
    while at + 12 <= len(data):
        namesz, descsz, _kind = struct.unpack_from(sign + "3I", data, at)
        start = at + 12 + (namesz + 3) // 4 * 4
        desc = data[start : start + descsz]
        if len(desc) < descsz:
            break
        version = _plain(desc) or _words(desc, sign)
        if version is not None:
            return version
        at = start + (descsz + 3) // 4 * 4
    return _plain(data)


def _words(desc: bytes, sign: str) -> Version | None:
    """Return a version of two to four 32-bit words (major, minor, patch …)."""
    if len(desc) not in (8, 12, 16):
        return None
    words = struct.unpack(f"{sign}{len(desc) // 4}I", desc)
    return words if all(word < 100_000 for word in words) and any(words) else None


def _plain(data: bytes) -> Version | None:
    match = _TEXT.search(data)
    return None if match is None else parse_version(match.group(1).decode())
