"""Sections: their own alignment, and what the target demands of them."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.plugins import Finding, Target, finding
from npudbg_elf.records import ET_REL, Image, Section
from npudbg_elf.subjects import SOURCE, power_of_two, section_subject


def sections(image: Image, target: Target) -> Iterator[Finding]:
    """Judge each section's address and alignment (E506, E507, E508)."""
    for section in image.sections:
        if section.align > 1 and not power_of_two(section.align):
            yield finding(
                "E507",
                section_subject(image, section),
                f"section {section.label}: sh_addralign {section.align} is not a power of two",
                evidence={"sh_addralign": section.align},
                fix="correct the linker script or the tool that wrote it",
                source=SOURCE,
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
                section_subject(image, section),
                f"section {section.label} at {section.addr:#x} is not aligned to its own "
                f"sh_addralign {section.align}: remainder {rest:#x}",
                evidence={
                    "addr": section.addr,
                    "sh_addralign": section.align,
                    "remainder": rest,
                },
                fix=f"place it at a multiple of {section.align} in the linker script",
                source=SOURCE,
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
        section_subject(image, section),
        f"section {section.label}: {seen}; {target.name} demands {demand} bytes",
        evidence={
            "addr": section.addr,
            "sh_addralign": section.align,
            "demand": demand,
            "remainder": rest,
            "profile": where,
        },
        fix=f'align it: __attribute__((aligned({demand}), section("{section.label}")))',
        source=SOURCE,
    )
