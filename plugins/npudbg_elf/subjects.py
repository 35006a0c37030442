"""What a finding on an ELF file points at."""

from __future__ import annotations

from npudbg.plugins import Subject
from npudbg_elf.names import segment_name
from npudbg_elf.records import Image, Section, Segment

SOURCE = "elf"
"""Name of the plugin, as its findings carry it."""


def file_subject(image: Image) -> Subject:
    """Return the file itself."""
    return Subject(kind="file", name=image.path, file=image.path)


def section_subject(image: Image, section: Section) -> Subject:
    """Return a section."""
    return Subject(kind="section", name=section.label, address=section.addr, file=image.path)


def segment_subject(image: Image, segment: Segment) -> Subject:
    """Return a segment, named with its number."""
    return Subject(
        kind="section", name=segment_name(segment), address=segment.vaddr, file=image.path
    )


def power_of_two(number: int) -> bool:
    """Return whether a number is 1, 2, 4 …: a power of two."""
    return number > 0 and number & (number - 1) == 0
