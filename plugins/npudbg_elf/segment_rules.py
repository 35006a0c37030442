"""Segments: alignment, congruence, pages, overlaps and rights."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.plugins import Finding, Target, finding
from npudbg_elf.names import flags_text, segment_name
from npudbg_elf.records import PF_W, PF_X, Image, Segment
from npudbg_elf.subjects import SOURCE, power_of_two, segment_subject


def segments(image: Image, target: Target) -> Iterator[Finding]:
    """Judge each segment's alignment and congruence (E509, E510, E512)."""
    for segment in image.segments:
        name = segment_name(segment)
        if segment.align > 1 and not power_of_two(segment.align):
            yield finding(
                "E509",
                segment_subject(image, segment),
                f"segment {name}: p_align {segment.align} is not a power of two",
                evidence={"p_align": segment.align},
                fix="relink; a file may load with it and fail on another loader",
                source=SOURCE,
            )
            continue
        if segment not in image.loads:
            continue
        if segment.align > 1 and (segment.offset - segment.vaddr) % segment.align:
            yield finding(
                "E510",
                segment_subject(image, segment),
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
                source=SOURCE,
            )
        demand = target.elf.segment_alignment
        if demand and segment.memsz and max(segment.align, 1) % demand:
            yield finding(
                "E512",
                segment_subject(image, segment),
                f"segment {name}: p_align {segment.align:#x}; {target.name} demands {demand:#x}",
                evidence={"p_align": segment.align, "demand": demand},
                fix=f"relink with -z max-page-size={demand}",
                source=SOURCE,
            )


def pages(image: Image, target: Target) -> Iterator[Finding]:
    """Compare the LOAD segments' alignment with the target's page (E511)."""
    page = target.elf.page_bytes
    if not page:
        return
    short = [
        s
        for s in image.loads
        if s.memsz and s.align < page and (s.align <= 1 or power_of_two(s.align))
    ]
    if not short:
        return
    smallest = min(s.align for s in short)
    yield finding(
        "E511",
        segment_subject(image, short[0]),
        f"{len(short)} of {len(image.loads)} LOAD segments have p_align {smallest:#x}; "
        f"the page of {target.name} is {page:#x}",
        evidence={"p_align": smallest, "page_bytes": page, "segments": [s.index for s in short]},
        fix=f"relink with -z max-page-size={page}",
        source=SOURCE,
    )


def overlaps(image: Image, target: Target) -> Iterator[Finding]:
    """Report LOAD segments that share memory (E513)."""
    loads = sorted((s for s in image.loads if s.memsz), key=lambda s: s.vaddr)
    reach: Segment | None = None
    for segment in loads:
        if reach is not None and segment.vaddr < reach.vaddr + reach.memsz:
            shared = min(reach.vaddr + reach.memsz, segment.vaddr + segment.memsz) - segment.vaddr
            yield finding(
                "E513",
                segment_subject(image, segment),
                f"segments {segment_name(reach)} and {segment_name(segment)} share {shared} "
                f"bytes of memory from {segment.vaddr:#x}",
                evidence={
                    "first": [reach.vaddr, reach.vaddr + reach.memsz],
                    "second": [segment.vaddr, segment.vaddr + segment.memsz],
                    "shared": shared,
                },
                related=(segment_subject(image, reach),),
                fix="move one of them in the linker script; the second overwrites the first",
                source=SOURCE,
            )
        if reach is None or segment.vaddr + segment.memsz > reach.vaddr + reach.memsz:
            reach = segment


def writable_code(image: Image, target: Target) -> Iterator[Finding]:
    """Note LOAD segments that are writable and executable (E514)."""
    for segment in image.loads:
        if segment.flags & PF_W and segment.flags & PF_X:
            yield finding(
                "E514",
                segment_subject(image, segment),
                f"segment {segment_name(segment)} is writable and executable "
                f"({flags_text(segment)})",
                evidence={"p_flags": segment.flags},
                fix="separate code and data; some loaders refuse such a segment",
                source=SOURCE,
            )
