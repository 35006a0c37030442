"""What a file asks of the dynamic loader, and what it offers to others.

pyelftools reads it, from a stream that gives out a bounded number of bytes: a
hostile file costs one clear error, never time or memory without end.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from npudbg_elf.image import Reader

_BUDGET = 192 << 20
_MAX_READ = 64 << 20
_MAX_SYMBOLS = 1_000_000
_MAX_TAGS = 4096
_MAX_TEXT = 4096
_BINDINGS = {0: "STB_LOCAL", 1: "STB_GLOBAL", 2: "STB_WEAK"}


class DamagedError(Exception):
    """The dynamic tables cannot be read."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """One file's part in dynamic linking.

    Attributes:
        soname: ``DT_SONAME``, or ``""``.
        needed: ``DT_NEEDED``, in order.
        runpath: Directories of ``DT_RUNPATH`` or ``DT_RPATH``.
        undefined: Strong symbols that another file must define.
        defined: Symbols that it defines for others.
        versions_needed: ``(library, version)`` that it asks for, weak ones left out.
        versions_defined: Versions that it defines.
    """

    soname: str = ""
    needed: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    defined: frozenset[str] = frozenset()
    versions_needed: tuple[tuple[str, str], ...] = ()
    versions_defined: frozenset[str] = frozenset()


class _Stream(io.RawIOBase):
    """A seekable stream over a file that ends after :data:`_BUDGET` bytes read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at = 0
        self._left = _BUDGET

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._reader.nbytes)[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = max(self._reader.nbytes - self._at, 0)
        if size > _MAX_READ or size > self._left:
            raise DamagedError(f"its tables ask for more than {_MAX_READ} bytes at once")
        data = self._reader.read(self._at, size)
        self._at += len(data)
        self._left -= len(data)
        return data


def read_dynamic(path: str) -> Dynamic:
    """Read a file's dynamic section, symbols and versions; all empty for a static one.

    Raises:
        DamagedError: Its tables make no sense.
        UserError: It cannot be read.
    """
    try:
        info = os.stat(path)  # noqa: PTH116 (a name with a NUL is the reader's to refuse)
        key = (info.st_ino, info.st_mtime_ns, info.st_size)
    except (OSError, ValueError):
        key = (0, 0, 0)
    return _read_cached(path, key)


@lru_cache(maxsize=128)
def _read_cached(path: str, key: tuple[int, int, int]) -> Dynamic:
    with Reader(path) as reader:
        try:
            stream: Any = _Stream(reader)
            return _read(ELFFile(stream))
        except DamagedError:
            raise
        except (Exception, RecursionError) as error:
            # pyelftools raises its own errors and, on hostile tables, almost any other.
            raise DamagedError(f"its dynamic tables are damaged ({type(error).__name__})") from None


def _read(elf: Any) -> Dynamic:
    table = next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None) or next(
        (s for s in elf.iter_sections() if isinstance(s, DynamicSection)), None
    )
    if table is None:
        return Dynamic()
    soname, needed, runpath = "", [], ""
    tag: Any
    for count, tag in enumerate(table.iter_tags()):
        if count > _MAX_TAGS:
            raise DamagedError(f"it has more than {_MAX_TAGS} dynamic tags")
        kind = tag.entry.d_tag
        if kind == "DT_NEEDED":
            needed.append(tag.needed[:_MAX_TEXT])
        elif kind == "DT_SONAME":
            soname = tag.soname[:_MAX_TEXT]
        elif kind == "DT_RUNPATH":
            runpath = tag.runpath[:_MAX_TEXT]
        elif kind == "DT_RPATH" and not runpath:
            runpath = tag.rpath[:_MAX_TEXT]
    undefined, defined = _symbols(elf, table)
    wants: list[tuple[str, str]] = []
    gives: set[str] = set()
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                wants += [
                    (str(library.name), v.name) for v in versions if not v.entry.vna_flags & 2
                ]
        elif isinstance(section, GNUVerDefSection):
            for _version, names in section.iter_versions():
                gives.update(n.name for n in list(names)[:1])
        if len(wants) + len(gives) > _MAX_TAGS:
            raise DamagedError(f"it has more than {_MAX_TAGS} symbol versions")
    return Dynamic(
        soname=soname,
        needed=tuple(dict.fromkeys(needed)),
        runpath=tuple(d for d in runpath.split(":") if d),
        undefined=tuple(undefined),
        defined=frozenset(defined),
        versions_needed=tuple(wants),
        versions_defined=frozenset(gives),
    )


def _symbols(elf: Any, table: Any) -> tuple[dict[str, None], set[str]]:
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection) and section["sh_type"] == "SHT_DYNSYM":
            return _sort(_rows(elf, section))
    # Without section headers the loader's own tables tell how many there are.
    if hasattr(table, "iter_symbols"):
        return _sort(
            (
                symbol.name,
                symbol.entry.st_info.bind,
                symbol.entry.st_shndx == "SHN_UNDEF",
            )
            for symbol in table.iter_symbols()
        )
    return {}, set()


def _rows(elf: Any, section: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield name, binding and whether undefined of each symbol, read in one piece.

    pyelftools takes some 30 microseconds a symbol, and libraries have 200,000.
    """
    wide = elf.elfclass == 64
    layout = struct.Struct(("<" if elf.little_endian else ">") + ("IBBHQQ" if wide else "IIIBBH"))
    strings = elf.get_section(section["sh_link"])
    rows = _piece(elf.stream, section["sh_offset"], section["sh_size"])
    names = _piece(elf.stream, strings["sh_offset"], strings["sh_size"])
    whole = len(rows) // layout.size * layout.size
    for row in layout.iter_unpack(rows[:whole]):
        at, info, index = (row[0], row[1], row[3]) if wide else (row[0], row[3], row[5])
        end = names.find(b"\0", at, at + _MAX_TEXT)
        name = names[at : end if end >= 0 else at + _MAX_TEXT].decode("utf-8", "replace")
        yield name, _BINDINGS.get(info >> 4, "STB_GLOBAL"), index == 0


def _piece(stream: Any, offset: int, size: int) -> bytes:
    stream.seek(offset)
    data: bytes = stream.read(size)
    if len(data) < size:
        raise DamagedError("its symbol table reaches past the end of the file")
    return data


def _sort(symbols: Iterable[tuple[str, str, bool]]) -> tuple[dict[str, None], set[str]]:
    undefined: dict[str, None] = {}
    defined: set[str] = set()
    for count, (name, binding, missing) in enumerate(symbols):
        if count > _MAX_SYMBOLS:
            raise DamagedError(f"it has more than {_MAX_SYMBOLS} dynamic symbols")
        if not name or binding == "STB_LOCAL":
            continue
        if not missing:
            defined.add(name[:_MAX_TEXT])
        elif binding != "STB_WEAK":
            undefined[name[:_MAX_TEXT]] = None
    return undefined, defined
