"""What a file is that was taken for an ELF file and is none."""

from __future__ import annotations

import re

_LFS = b"version https://git-lfs.github.com/spec/"
_MAGIC = (
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip file"),
    (b"\x28\xb5\x2f\xfd", "zstd file"),
    (b"!<arch>\n", "ar archive (static library)"),
    (b"!<thin>\n", "ar archive (static library)"),
    (b"MZ", "Windows executable (PE)"),
    (b"\xcf\xfa\xed\xfe", "Mach-O file"),
    (b"\xca\xfe\xba\xbe", "Mach-O universal file"),
    (b"%PDF-", "PDF document"),
)
_LINKER_SCRIPT = re.compile(
    rb"\A\s*(?:/\*.*?\*/\s*)*(?:INPUT|GROUP|OUTPUT_FORMAT|SEARCH_DIR|AS_NEEDED)\s*\(", re.DOTALL
)


def sniff(head: bytes) -> tuple[str, str]:
    """Return what the first 4 KiB of a file show it to be, and a detail.

    Args:
        head: The file's first bytes, not starting with the ELF magic.
    """
    if not head:
        return "empty file", "0 bytes"
    if not head.strip(b"\0"):
        return "file of zero bytes", "all bytes read are 0: a download or copy that never filled"
    if head.startswith(_LFS):
        size = re.search(rb"^size (\d{1,20})$", head, re.MULTILINE)
        real = f"; the real file has {int(size.group(1))} bytes" if size else ""
        return "Git LFS pointer", f"a text of {len(head)} bytes that names the file{real}"
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what, ""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head")):
        title = re.search(rb"<title[^>]*>([^<]{1,200})", head, re.IGNORECASE)
        text = title.group(1).decode("utf-8", "replace").strip() if title else ""
        return "HTML page", f"titled {text!r}" if text else ""
    if start.startswith(b"<?xml"):
        return "XML document", ""
    if _LINKER_SCRIPT.match(head):
        return "linker script", "a text that the linker reads; the loader never opens it"
    if start.startswith((b"{", b"[")) and _is_text(head):
        return "JSON text", ""
    if _is_text(head):
        return "text file", ""
    return "unknown binary file", f"starts with {head[:4].hex(' ')}; ELF starts with 7f 45 4c 46"


def _is_text(head: bytes) -> bool:
    return b"\0" not in head and sum(b < 9 or 13 < b < 32 for b in head) == 0
