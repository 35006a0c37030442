"""Version of a blob against the device's, and path lists of the environment."""

from __future__ import annotations

from collections.abc import Iterable

from npudbg.plugins import Finding, Subject, finding, safe
from npudbg_elf.image import Reader
from npudbg_elf.records import Image
from npudbg_elf.versions import Version, note_versions, version_text

_SOURCE = "elf"
SEMICOLON = frozenset({"ADSP_LIBRARY_PATH", "CDSP_LIBRARY_PATH", "DSP_LIBRARY_PATH"})
"""Path lists that FastRPC reads: their separator is ``;``."""
COLON = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH"})


def judge_abi(image: Image, wanted: Iterable[tuple[str, Version]]) -> list[Finding]:
    """Compare the versions that a blob states with the device's.

    Args:
        image: The file.
        wanted: ``(part of a section's name, version)``; an empty name means every one.
    """
    wanted = list(wanted)
    if image.kind != "elf" or not wanted:
        return []
    with Reader(image.path) as file:
        stated = note_versions(file, image)
    found = []
    for name, device in wanted:
        notes = [(s, v) for s, v in stated if name.lower() in s.lower()]
        if not notes:
            found.append(_no_note(image, name, device))
        found += [
            _mismatch(image, section, blob, device)
            for section, blob in notes
            if not _fits(blob, device)
        ]
    return found


def _fits(blob: Version, device: Version) -> bool:
    """Whether a device runs a blob: same major, and not older in the minor."""
    size = max(len(blob), len(device), 2)
    mine = (*blob, *(0,) * (size - len(blob)))
    theirs = (*device, *(0,) * (size - len(device)))
    return mine[0] == theirs[0] and mine[1] <= theirs[1]


def _mismatch(image: Image, section: str, blob: Version, device: Version) -> Finding:
    return finding(
        "E520",
        Subject(kind="section", name=section, file=image.path),
        f"blob ABI {version_text(blob)} ({section}), device {version_text(device)}: "
        + ("other major version" if blob[0] != device[0] else "blob is newer"),
        evidence={
            "section": section,
            "blob": version_text(blob),
            "device": version_text(device),
        },
        fix="compile with the compiler of the driver's release, or update driver and firmware",
        source=_SOURCE,
    )


def _no_note(image: Image, name: str, device: Version) -> Finding:
    which = f" named {safe(name)!r}" if name else ""
    return finding(
        "E521",
        Subject(kind="file", name=image.path, file=image.path),
        f"{safe(image.path)} has no version section{which} to compare with {version_text(device)}",
        evidence={"device": version_text(device), "sections": len(image.sections)},
        fix="ask the vendor's tool for the blob's version",
        source=_SOURCE,
    )


def judge_environment(name: str, value: str) -> list[Finding]:
    """Check the separators of a path list such as ``ADSP_LIBRARY_PATH``."""
    if name in SEMICOLON:
        right, wrong, reader = ";", ":", "FastRPC"
    elif name in COLON:
        right, wrong, reader = ":", ";", "the loader"
    else:
        return []
    # glibc's LD_LIBRARY_PATH takes both, as ld.so(8) says.
    if name == "LD_LIBRARY_PATH" or wrong not in value:
        return []
    parts = value.split(right)
    glued = [part for part in parts if wrong in part]
    return [
        finding(
            "E525",
            Subject(kind="run", name=name),
            f"{name}: path list uses '{wrong}', {reader} needs '{right}': "
            f"{safe(glued[0], 100)!r} is taken as one directory",
            evidence={
                "value": safe(value, 1000),
                "separator": right,
                "directories_read": len(parts),
                "directories_meant": sum(len(part.split(wrong)) for part in parts),
            },
            fix=f"{name}={safe(value.replace(wrong, right), 300)}; a later 'not found' or "
            "'outside ELF segment' message is secondary",
            source=_SOURCE,
        )
    ]
