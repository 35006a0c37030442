"""What an ELF file's headers say, as plain records (also kept in a session)."""

from __future__ import annotations

from typing import Literal

import msgspec

ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS = 1, 2, 4, 7
PF_X, PF_W, PF_R = 1, 2, 4
SHT_NULL, SHT_NOTE, SHT_NOBITS = 0, 7, 8
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section header; sizes and addresses in bytes."""

    index: int
    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    align: int

    @property
    def label(self) -> str:
        """Name for people."""
        return self.name or f"[{self.index}]"

    @property
    def allocated(self) -> bool:
        """Whether it takes memory when loaded."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def file_end(self) -> int:
        """First byte after its bytes in the file; 0 if it has none."""
        return 0 if self.type in (SHT_NULL, SHT_NOBITS) else self.offset + self.size


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One program header; sizes and addresses in bytes."""

    index: int
    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """One file as read.

    Attributes:
        path: As the user gave it.
        nbytes: Size of the file.
        kind: ``elf``, or what the file is instead (``HTML page`` …).
        detail: What is known of a file that is no ELF file.
        bits: 32 or 64; 0 if the header says neither.
        order: Byte order.
        machine: ``e_machine``.
        type: ``e_type``.
        flags: ``e_flags``.
        problems: What is wrong with the header itself, one text each.
        tables: ``(what, first byte, bytes)`` of the header tables.
        sections: Section headers that could be read.
        segments: Program headers that could be read.
    """

    path: str
    nbytes: int
    kind: str = "elf"
    detail: str = ""
    bits: int = 0
    order: Literal["little", "big"] = "little"
    machine: int = 0
    type: int = 0
    flags: int = 0
    problems: tuple[str, ...] = ()
    tables: tuple[tuple[str, int, int], ...] = ()
    sections: tuple[Section, ...] = ()
    segments: tuple[Segment, ...] = ()

    @property
    def loads(self) -> tuple[Segment, ...]:
        """The segments that a loader maps."""
        return tuple(s for s in self.segments if s.type == PT_LOAD)
