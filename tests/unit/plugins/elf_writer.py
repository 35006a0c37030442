"""A tiny ELF writer, so that faulty files can be made from bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

ALLOC, WRITE, EXEC = 2, 1, 4


@dataclass
class Sec:
    name: str
    data: bytes = b""
    addr: int = 0
    align: int = 1
    type: int = 1
    flags: int = ALLOC
    size: int | None = None  # claimed size; len(data) by default
    link: int = 0
    info: int = 0
    entsize: int = 0


@dataclass
class Seg:
    vaddr: int = 0
    align: int = 0x1000
    type: int = 1
    flags: int = 4
    offset: int = 0
    filesz: int | None = None
    memsz: int | None = None


@dataclass
class Elf:
    bits: int = 64
    machine: int = 62
    type: int = 3
    little: bool = True
    sections: list[Sec] = field(default_factory=list)
    segments: list[Seg] = field(default_factory=list)
    body: int = 0x1000  # where section data begins
    pad: int = 0  # least offset of the section header table
    phnum: int | None = None
    shnum: int | None = None
    shentsize: int | None = None

    def build(self) -> bytes:
        sign = "<" if self.little else ">"
        wide = self.bits == 64
        eh = struct.Struct(sign + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
        ph = struct.Struct(sign + ("IIQQQQQQ" if wide else "IIIIIIII"))
        sh = struct.Struct(sign + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
        out = bytearray(self.body)
        names = bytearray(b"\0")
        rows = [sh.pack(*[0] * 10)]
        for sec in self.sections:
            while sec.align > 1 and len(out) % min(sec.align, 0x10000):
                out.append(0)
            at = len(names)
            names += sec.name.encode() + b"\0"
            size = len(sec.data) if sec.size is None else sec.size
            rows.append(
                sh.pack(
                    at, sec.type, sec.flags, sec.addr, len(out), size,
                    sec.link, sec.info, sec.align, sec.entsize,
                )
            )  # fmt: skip
            out += sec.data
        at = len(names)
        names += b".shstrtab\0"
        rows.append(sh.pack(at, 3, 0, 0, len(out), len(names), 0, 0, 1, 0))
        out += names
        out += bytes(max(self.pad - len(out), 0))
        out += bytes(-len(out) % 8)
        shoff = len(out)
        out += b"".join(rows)
        head = 16 + eh.size
        table = b""
        for seg in self.segments:
            filesz = 64 if seg.filesz is None else seg.filesz
            memsz = filesz if seg.memsz is None else seg.memsz
            if wide:
                table += ph.pack(
                    seg.type, seg.flags, seg.offset, seg.vaddr, seg.vaddr, filesz, memsz, seg.align
                )
            else:
                table += ph.pack(
                    seg.type, seg.offset, seg.vaddr, seg.vaddr, filesz, memsz, seg.flags, seg.align
                )
        assert head + len(table) <= self.body
        ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if self.little else 2, 1]) + bytes(9)
        out[: head + len(table)] = (
            ident
            + eh.pack(
                self.type,
                self.machine,
                1,
                0,
                head if self.segments else 0,
                shoff,
                0,
                head,
                ph.size if self.segments else 0,
                len(self.segments) if self.phnum is None else self.phnum,
                sh.size if self.shentsize is None else self.shentsize,
                len(rows) if self.shnum is None else self.shnum,
                len(rows) - 1,
            )
            + table
        )
        return bytes(out)


def note(owner: bytes, kind: int, desc: bytes, sign: str = "<") -> bytes:
    """One ELF note."""

    def pad(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    owner += b"\0"
    return struct.pack(sign + "3I", len(owner), len(desc), kind) + pad(owner) + pad(desc)


def shared_library(
    soname: str = "",
    needed: tuple[str, ...] = (),
    defined: tuple[str, ...] = (),
    undefined: tuple[str, ...] = (),
    weak: tuple[str, ...] = (),
    extra: tuple[Sec, ...] = (),
    machine: int = 62,
) -> bytes:
    """A 64-bit shared library with a dynamic section, symbols and their names."""
    strings = bytearray(b"\0")

    def text(value: str) -> int:
        at = len(strings)
        strings.extend(value.encode() + b"\0")
        return at

    tags = [(1, text(n)) for n in needed]
    if soname:
        tags.append((14, text(soname)))
    sym = struct.Struct("<IBBHQQ")
    symbols = [sym.pack(0, 0, 0, 0, 0, 0)]
    symbols += [sym.pack(text(n), 0x12, 0, 1, 0x100, 4) for n in defined]
    symbols += [sym.pack(text(n), 0x12, 0, 0, 0, 0) for n in undefined]
    symbols += [sym.pack(text(n), 0x22, 0, 0, 0, 0) for n in weak]
    # Addresses equal file offsets: one LOAD segment maps the whole file.
    body = 0x1000
    symtab = b"".join(symbols)
    str_at = body + len(symtab)
    tags += [(5, str_at), (6, body), (10, len(strings)), (11, sym.size), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *t) for t in tags)
    dyn_at = str_at + len(strings)
    elf = Elf(
        machine=machine,
        sections=[
            Sec(".dynsym", symtab, body, 1, type=11, link=2, info=1, entsize=sym.size),
            Sec(".dynstr", bytes(strings), str_at, 1, type=3),
            Sec(".dynamic", dynamic, dyn_at, 1, type=6, link=2, entsize=16),
            *extra,
        ],
    )
    elf.segments = [
        Seg(0, 0x1000, filesz=dyn_at + len(dynamic)),
        Seg(dyn_at, 8, type=2, offset=dyn_at, filesz=len(dynamic)),
    ]
    return elf.build()
