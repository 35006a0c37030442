"""What a loader demands of a file's headers, against the target's profile.

Every demand beyond the ELF format's own stands in the profile: a file that is right
for one chip's loader breaks another's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from npudbg.plugins import Finding, Subject, Target, finding, safe
from npudbg_elf.names import flags_text, machine_name, segment_name
from npudbg_elf.records import ET_REL, PF_W, PF_X, Image, Section, Segment

MAX_PER_CODE = 20
_SOURCE = "elf"


def judge_image(image: Image, target: Target) -> list[Finding]:
    """Return what is wrong with a file for this target."""
    if image.kind != "elf":
        return [_not_elf(image)]
    judges: tuple[Callable[[Image, Target], Iterable[Finding]], ...] = (
        _header,
        _cut,
        _machine,
        _sections,
        _segments,
        _pages,
        _overlaps,
        _writable_code,
    )
    found: list[Finding] = []
    for judge in judges:
        found.extend(_capped(judge(image, target)))
    return found


def _not_elf(image: Image) -> Finding:
    script = image.kind == "linker script"
    detail = f" ({safe(image.detail, 200)})" if image.detail else ""
    fix = "get the file again; check what the server or the copy really sent"
    if image.kind == "Git LFS pointer":
        fix = "run `git lfs pull` where it came from"
    if script:
        fix = "give the library that the script names"
    return finding(
        "E501",
        _file(image),
        f"{safe(image.path)} is not an ELF file: {image.kind}{detail}",
        evidence={"kind": image.kind, "bytes": image.nbytes},
        severity="info" if script else None,
        fix=fix,
        source=_SOURCE,
    )


def _header(image: Image, target: Target) -> Iterator[Finding]:
    for problem in image.problems:
        yield finding(
            "E503",
            _file(image),
            f"the ELF header is damaged: {safe(problem, 200)}",
            evidence={"bytes": image.nbytes},
            fix="get or build the file again",
            source=_SOURCE,
        )
    for segment in image.loads:
        if segment.filesz > segment.memsz:
            yield finding(
                "E503",
                _segment(image, segment),
                f"{segment_name(segment)} takes {segment.filesz} bytes from the file "
                f"into {segment.memsz} bytes of memory",
                evidence={"filesz": segment.filesz, "memsz": segment.memsz},
                fix="get or build the file again",
                source=_SOURCE,
            )


def _cut(image: Image, target: Target) -> Iterator[Finding]:
    """One finding: the part that reaches farthest past the end."""
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
        _file(image),
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
        source=_SOURCE,
    )


def _machine(image: Image, target: Target) -> Iterator[Finding]:
    if not image.bits or image.nbytes < 52:
        return
    wanted = target.elf.machines
    if wanted and image.machine not in wanted:
        names = ", ".join(f"{machine_name(m)} ({m})" for m in wanted)
        yield finding(
            "E504",
            _file(image),
            f"built for {machine_name(image.machine)} (e_machine {image.machine}); "
            f"{target.name} takes {names}",
            evidence={"machine": image.machine, "target_machines": list(wanted)},
            fix="build it for the target; Linux says 'No such file or directory' of such a file",
            source=_SOURCE,
        )
    if target.elf.elf_class and image.bits != target.elf.elf_class:
        yield finding(
            "E505",
            _file(image),
            f"a {image.bits}-bit file; {target.name} takes {target.elf.elf_class}-bit ones",
            evidence={"bits": image.bits, "target_bits": target.elf.elf_class},
            fix="build it for the target's word size",
            source=_SOURCE,
        )


def _sections(image: Image, target: Target) -> Iterator[Finding]:
    for section in image.sections:
        if section.align > 1 and not _power_of_two(section.align):
            yield finding(
                "E507",
                _section(image, section),
                f"section {section.label}: sh_addralign {section.align} is not a power of two",
                evidence={"sh_addralign": section.align},
                fix="correct the linker script or the tool that wrote it",
                source=_SOURCE,
            )
        elif (
            image.type != ET_REL
            and section.allocated
            and section.align > 1
            and section.addr % section.align
        ):
            rest = section.addr % section.align
            yield finding(
                "E506",
                _section(image, section),
                f"section {section.label} at {section.addr:#x} is not aligned to its own "
                f"sh_addralign {section.align}: remainder {rest:#x}",
                evidence={
                    "addr": section.addr,
                    "sh_addralign": section.align,
                    "remainder": rest,
                },
                fix=f"place it at a multiple of {section.align} in the linker script",
                source=_SOURCE,
            )
        yield from _demanded(image, section, target)


def _demanded(image: Image, section: Section, target: Target) -> Iterator[Finding]:
    if not section.allocated or not section.size:
        return
    prefixes = [p for p in target.elf.sections if section.name.startswith(p.rstrip("*"))]
    if prefixes:
        prefix = max(prefixes, key=len)
        demand, where = target.elf.sections[prefix], f"elf.sections.{prefix}"
    elif target.elf.section_alignment:
        demand, where = target.elf.section_alignment, "elf.section_alignment"
    else:
        return
    # An object is placed by its sh_addralign; a linked file already has its address.
    has = max(section.align, 1) if image.type == ET_REL else section.addr
    rest = has % demand
    if not rest:
        return
    seen = (
        f"sh_addralign {section.align}"
        if image.type == ET_REL
        else f"address {section.addr:#x} (remainder {rest:#x})"
    )
    yield finding(
        "E508",
        _section(image, section),
        f"section {section.label}: {seen}; {target.name} demands {demand} bytes",
        evidence={
            "addr": section.addr,
            "sh_addralign": section.align,
            "demand": demand,
            "remainder": rest,
            "profile": where,
        },
        fix=f'align it: __attribute__((aligned({demand}), section("{section.label}")))',
        source=_SOURCE,
    )


def _segments(image: Image, target: Target) -> Iterator[Finding]:
    for segment in image.segments:
        name = segment_name(segment)
        if segment.align > 1 and not _power_of_two(segment.align):
            yield finding(
                "E509",
                _segment(image, segment),
                f"segment {name}: p_align {segment.align} is not a power of two",
                evidence={"p_align": segment.align},
                fix="relink; a file may load with it and fail on another loader",
                source=_SOURCE,
            )
            continue
        if segment not in image.loads:
            continue
        if segment.align > 1 and (segment.offset - segment.vaddr) % segment.align:
            yield finding(
                "E510",
                _segment(image, segment),
                f"segment {name}: p_offset {segment.offset:#x} and p_vaddr {segment.vaddr:#x} "
                f"differ modulo p_align {segment.align:#x} "
                f"({segment.offset % segment.align:#x} and {segment.vaddr % segment.align:#x})",
                evidence={
                    "p_offset": segment.offset,
                    "p_vaddr": segment.vaddr,
                    "p_align": segment.align,
                    "offset_remainder": segment.offset % segment.align,
                    "vaddr_remainder": segment.vaddr % segment.align,
                },
                fix="relink; tools that pad or edit an ELF file must keep the two congruent",
                source=_SOURCE,
            )
        demand = target.elf.segment_alignment
        if demand and segment.memsz and max(segment.align, 1) % demand:
            yield finding(
                "E512",
                _segment(image, segment),
                f"segment {name}: p_align {segment.align:#x}; {target.name} demands {demand:#x}",
                evidence={"p_align": segment.align, "demand": demand},
                fix=f"relink with -z max-page-size={demand}",
                source=_SOURCE,
            )


def _pages(image: Image, target: Target) -> Iterator[Finding]:
    page = target.elf.page_bytes
    if not page:
        return
    short = [
        s
        for s in image.loads
        if s.memsz and s.align < page and (s.align <= 1 or _power_of_two(s.align))
    ]
    if not short:
        return
    smallest = min(s.align for s in short)
    yield finding(
        "E511",
        _segment(image, short[0]),
        f"{len(short)} of {len(image.loads)} LOAD segments have p_align {smallest:#x}; "
        f"the page of {target.name} is {page:#x}",
        evidence={"p_align": smallest, "page_bytes": page, "segments": [s.index for s in short]},
        fix=f"relink with -z max-page-size={page}",
        source=_SOURCE,
    )


def _overlaps(image: Image, target: Target) -> Iterator[Finding]:
    loads = sorted((s for s in image.loads if s.memsz), key=lambda s: s.vaddr)
    reach: Segment | None = None
    for segment in loads:
        if reach is not None and segment.vaddr < reach.vaddr + reach.memsz:
            shared = min(reach.vaddr + reach.memsz, segment.vaddr + segment.memsz) - segment.vaddr
            yield finding(
                "E513",
                _segment(image, segment),
                f"segments {segment_name(reach)} and {segment_name(segment)} share {shared} "
                f"bytes of memory from {segment.vaddr:#x}",
                evidence={
                    "first": [reach.vaddr, reach.vaddr + reach.memsz],
                    "second": [segment.vaddr, segment.vaddr + segment.memsz],
                    "shared": shared,
                },
                related=(_segment(image, reach),),
                fix="move one of them in the linker script; the second overwrites the first",
                source=_SOURCE,
            )
        if reach is None or segment.vaddr + segment.memsz > reach.vaddr + reach.memsz:
            reach = segment


def _writable_code(image: Image, target: Target) -> Iterator[Finding]:
    for segment in image.loads:
        if segment.flags & PF_W and segment.flags & PF_X:
            yield finding(
                "E514",
                _segment(image, segment),
                f"segment {segment_name(segment)} is writable and executable "
                f"({flags_text(segment)})",
                evidence={"p_flags": segment.flags},
                fix="separate code and data; some loaders refuse such a segment",
                source=_SOURCE,
            )


def _capped(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the first findings of each code, and say in the last how many are left out."""
    kept: dict[str, list[Finding]] = {}
    left: dict[str, int] = {}
    for each in findings:
        same = kept.setdefault(each.code, [])
        if len(same) < MAX_PER_CODE:
            same.append(each)
        else:
            left[each.code] = left.get(each.code, 0) + 1
    for code, count in left.items():
        last = kept[code][-1]
        kept[code][-1] = finding(
            code,
            last.subject,
            f"{last.message} … and {count} more like this",
            evidence={**last.evidence, "more": count},
            fix=last.fix,
            severity=last.severity,
            related=last.related,
            source=_SOURCE,
        )
    return [each for same in kept.values() for each in same]


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _file(image: Image) -> Subject:
    return Subject(kind="file", name=image.path, file=image.path)


def _section(image: Image, section: Section) -> Subject:
    return Subject(kind="section", name=section.label, address=section.addr, file=image.path)


def _segment(image: Image, segment: Segment) -> Subject:
    return Subject(
        kind="section", name=segment_name(segment), address=segment.vaddr, file=image.path
    )
