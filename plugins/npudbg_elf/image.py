"""Reading an ELF file's headers: bounded, and also where the file is cut.

Written here rather than left to pyelftools, which refuses a file whose tables lie
past its end: just then one wants to know what is missing.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from types import TracebackType
from typing import Literal

from npudbg.plugins import UserError, safe
from npudbg_elf.records import Image, Section, Segment
from npudbg_elf.sniff import sniff

MAX_HEADERS = 65_536
"""More section or program headers than this are not read (no real file has them)."""
_MAX_NAMES = 16 << 20
_MAX_NAME = 200
_PN_XNUM = 0xFFFF
_EHDR = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
_SHDR = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
_PHDR = {32: "IIIIIIII", 64: "IIQQQQQQ"}


class Reader:
    """Bounded positional reads of one regular file."""

    def __init__(self, path: str) -> None:
        """Open a file.

        Raises:
            UserError: Missing, unreadable or not a regular file.
        """
        self.path = path
        shown = safe(path, 200)
        try:
            # Non-blocking: opening a pipe must not wait for its writer.
            self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except ValueError:
            raise UserError(f"{shown}: not a file name; an ELF file was expected") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UserError(
                f"{shown}: cannot be read ({reason}); an ELF file was expected"
            ) from None
        info = os.fstat(self._fd)
        if not stat.S_ISREG(info.st_mode):
            os.close(self._fd)
            what = "a directory" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            raise UserError(f"{shown}: is {what}; an ELF file was expected")
        self.nbytes = info.st_size

    def read(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` bytes from ``offset``; fewer where the file ends."""
        if offset < 0 or offset >= self.nbytes or count <= 0:
            return b""
        count = min(count, self.nbytes - offset)
        parts = []
        while count:
            try:
                part = os.pread(self._fd, count, offset)
            except OSError as error:
                raise UserError(
                    f"{safe(self.path, 200)}: reading failed ({error.strerror})"
                ) from None
            if not part:
                break
            parts.append(part)
            offset += len(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_image(path: str | Path) -> Image:
    """Read a file's headers.

    Raises:
        UserError: Missing, unreadable or not a regular file.  A file that is cut,
            damaged or no ELF file at all is described, not refused.
    """
    with Reader(os.fspath(path)) as file:
        head = file.read(0, 4096)
        if not head.startswith(b"\x7fELF"):
            kind, detail = sniff(head)
            return Image(path=file.path, nbytes=file.nbytes, kind=kind, detail=detail)
        return _read_elf(file, head)


def _read_elf(file: Reader, head: bytes) -> Image:
    bits = {1: 32, 2: 64}.get(head[4] if len(head) > 4 else 0, 0)
    sign = {1: "<", 2: ">"}.get(head[5] if len(head) > 5 else 0, "")
    problems: list[str] = []
    if len(head) < 16:
        size = 52
        return Image(path=file.path, nbytes=file.nbytes, tables=(("ELF header", 0, size),))
    if not bits:
        problems.append(f"EI_CLASS is {head[4]}, neither 1 (32-bit) nor 2 (64-bit)")
    if not sign:
        problems.append(f"EI_DATA is {head[5]}, neither 1 (little-endian) nor 2 (big-endian)")
    if problems:
        return Image(path=file.path, nbytes=file.nbytes, problems=tuple(problems))
    if head[6] != 1:
        problems.append(f"EI_VERSION is {head[6]}, not 1")
    order: Literal["little", "big"] = "little" if sign == "<" else "big"
    layout = struct.Struct(sign + _EHDR[bits])
    header_size = 16 + layout.size
    if len(head) < header_size:
        return Image(
            path=file.path,
            nbytes=file.nbytes,
            bits=bits,
            order=order,
            tables=(("ELF header", 0, header_size),),
        )
    (
        kind,
        machine,
        _version,
        _entry,
        phoff,
        shoff,
        flags,
        _ehsize,
        phentsize,
        phnum,
        shentsize,
        shnum,
        shstrndx,
    ) = layout.unpack_from(head, 16)
    sections_layout = struct.Struct(sign + _SHDR[bits])
    segments_layout = struct.Struct(sign + _PHDR[bits])

    # Counts that do not fit 16 bits stand in section 0.
    first = file.read(shoff, sections_layout.size) if shoff else b""
    if len(first) == sections_layout.size:
        zero = sections_layout.unpack(first)
        if shnum == 0:
            shnum = zero[5]
        if phnum == _PN_XNUM:
            phnum = zero[7]
        if shstrndx == _PN_XNUM:
            shstrndx = zero[6]
    if shoff == 0:
        shnum = 0
    if phoff == 0:
        phnum = 0

    tables = [("ELF header", 0, header_size)]
    segments: tuple[Segment, ...] = ()
    sections: tuple[Section, ...] = ()
    if phnum:
        wrong = _table_problem("program", phnum, phentsize, segments_layout.size)
        if wrong:
            problems.append(wrong)
        else:
            tables.append(("program header table", phoff, phnum * phentsize))
            segments = _segments(file.read(phoff, phnum * phentsize), segments_layout, bits)
    if shnum:
        wrong = _table_problem("section", shnum, shentsize, sections_layout.size)
        if wrong:
            problems.append(wrong)
        else:
            tables.append(("section header table", shoff, shnum * shentsize))
            rows = file.read(shoff, shnum * shentsize)
            sections = _sections(file, rows, sections_layout, shstrndx)
            if shstrndx >= shnum:
                problems.append(f"e_shstrndx {shstrndx} names none of the {shnum} sections")
    return Image(
        path=file.path,
        nbytes=file.nbytes,
        bits=bits,
        order=order,
        machine=machine,
        type=kind,
        flags=flags,
        problems=tuple(problems),
        tables=tuple(tables),
        sections=sections,
        segments=segments,
    )


def _table_problem(what: str, count: int, size: int, expected: int) -> str:
    if size != expected:
        return f"{what} headers are said to have {size} bytes each; {expected} were expected"
    if count > MAX_HEADERS:
        return f"{count} {what} headers are claimed; more than {MAX_HEADERS} are not read"
    return ""


def _segments(rows: bytes, layout: struct.Struct, bits: int) -> tuple[Segment, ...]:
    whole = len(rows) // layout.size * layout.size
    segments = []
    for index, row in enumerate(layout.iter_unpack(rows[:whole])):
        if bits == 32:
            kind, offset, vaddr, _paddr, filesz, memsz, flags, align = row
        else:
            kind, flags, offset, vaddr, _paddr, filesz, memsz, align = row
        segments.append(
            Segment(
                index=index,
                type=kind,
                flags=flags,
                offset=offset,
                vaddr=vaddr,
                filesz=filesz,
                memsz=memsz,
                align=align,
            )
        )
    return tuple(segments)


def _sections(
    file: Reader, rows: bytes, layout: struct.Struct, strings: int
) -> tuple[Section, ...]:
    whole = len(rows) // layout.size * layout.size
    headers = list(layout.iter_unpack(rows[:whole]))
    names = b""
    if strings < len(headers):
        names = file.read(headers[strings][4], min(headers[strings][5], _MAX_NAMES))
    return tuple(
        Section(
            index=index,
            name=_name(names, row[0]),
            type=row[1],
            flags=row[2],
            addr=row[3],
            offset=row[4],
            size=row[5],
            align=row[8],
        )
        for index, row in enumerate(headers)
    )


def _name(names: bytes, at: int) -> str:
    piece = names[at : at + _MAX_NAME]
    return safe(piece.split(b"\0", 1)[0].decode("utf-8", "replace"), _MAX_NAME)
