"""The file as a whole: is it one, is it whole, and is it the target's."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.plugins import Finding, Target, finding, safe
from npudbg_elf.names import machine_name, segment_name
from npudbg_elf.records import Image
from npudbg_elf.subjects import SOURCE, file_subject, segment_subject


def not_elf(image: Image) -> Finding:
    """Say what the file is instead (E501); a linker script is only a note."""
    script = image.kind == "linker script"
    detail = f" ({safe(image.detail, 200)})" if image.detail else ""
    fix = "get the file again; check what the server or the copy really sent"
    if image.kind == "Git LFS pointer":
        fix = "run `git lfs pull` where it came from"
    if script:
        fix = "give the library that the script names"
    return finding(
        "E501",
        file_subject(image),
        f"{safe(image.path)} is not an ELF file: {image.kind}{detail}",
        evidence={"kind": image.kind, "bytes": image.nbytes},
        severity="info" if script else None,
        fix=fix,
        source=SOURCE,
    )


def header(image: Image, target: Target) -> Iterator[Finding]:
    """Report fields that the ELF format does not allow (E503)."""
    for problem in image.problems:
        yield finding(
            "E503",
            file_subject(image),
            f"the ELF header is damaged: {safe(problem, 200)}",
            evidence={"bytes": image.nbytes},
            fix="get or build the file again",
            source=SOURCE,
        )
    for segment in image.loads:
        if segment.filesz > segment.memsz:
            yield finding(
                "E503",
                segment_subject(image, segment),
                f"{segment_name(segment)} takes {segment.filesz} bytes from the file "
                f"into {segment.memsz} bytes of memory",
                evidence={"filesz": segment.filesz, "memsz": segment.memsz},
                fix="get or build the file again",
                source=SOURCE,
            )


def cut(image: Image, target: Target) -> Iterator[Finding]:
    """Report the part that reaches farthest past the end of the file (E502)."""
    parts = [(what, start + size, start) for what, start, size in image.tables]
    parts += [
        (f"segment {segment_name(s)}", s.offset + s.filesz, s.offset)
        for s in image.segments
        if s.filesz and s.type
    ]
    parts += [(f"section {s.label}", s.file_end, s.offset) for s in image.sections if s.size]
    beyond = [part for part in parts if part[1] > image.nbytes]
    if not beyond:
        return
    what, end, start = max(beyond, key=lambda part: part[1])
    loads_whole = bool(image.loads) and all(
        s.offset + s.filesz <= image.nbytes for s in image.loads
    )
    effect = "; its LOAD segments are whole: Linux loads it without an error" if loads_whole else ""
    yield finding(
        "E502",
        file_subject(image),
        f"the file is cut: {safe(what)} ends at byte {end}, the file has {image.nbytes}: "
        f"{end - image.nbytes} bytes are missing{effect}",
        evidence={
            "bytes": image.nbytes,
            "needed": end,
            "missing": end - image.nbytes,
            "part": what,
            "part_offset": start,
            "parts_cut": len(beyond),
            "load_segments_whole": loads_whole,
        },
        fix="copy the file again and compare its size and checksum",
        source=SOURCE,
    )


def machine(image: Image, target: Target) -> Iterator[Finding]:
    """Compare processor and word size with the target's (E504, E505)."""
    if not image.bits or image.nbytes < 52:
        return
    wanted = target.elf.machines
    if wanted and image.machine not in wanted:
        names = ", ".join(f"{machine_name(m)} ({m})" for m in wanted)
        yield finding(
            "E504",
            file_subject(image),
            f"built for {machine_name(image.machine)} (e_machine {image.machine}); "
            f"{target.name} takes {names}",
            evidence={"machine": image.machine, "target_machines": list(wanted)},
            fix="build it for the target; Linux says 'No such file or directory' of such a file",
            source=SOURCE,
        )
    if target.elf.elf_class and image.bits != target.elf.elf_class:
        yield finding(
            "E505",
            file_subject(image),
            f"a {image.bits}-bit file; {target.name} takes {target.elf.elf_class}-bit ones",
            evidence={"bits": image.bits, "target_bits": target.elf.elf_class},
            fix="build it for the target's word size",
            source=SOURCE,
        )
