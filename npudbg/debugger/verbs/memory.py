"""Examining memory as it was: ``x/16fh sram:0x100``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.registry import Verb
from npudbg.debugger.state import OUTSIDE, View
from npudbg.debugger.verbs.stops import address_of, tensors
from npudbg.session.commands import Space, kind_name, space_name
from npudbg.session.dtypes import EXTENSION, numpy_dtype
from npudbg.session.lines import Line, Span, line
from npudbg.session.records import Subject
from npudbg.session.text import safe

_FORM = re.compile(r"/([0-9]{0,9})([xdufcsibhwg]*)")
_SIZES = {"b": 1, "h": 2, "w": 4, "g": 8}
_MOST_UNITS = 4096
_ROW = 16
_COUNT = {"s": 1, "i": 8}


class _Format:
    """What ``/16fh`` asks for."""

    def __init__(self, text: str) -> None:
        match = _FORM.fullmatch(text) if text else None
        if text and match is None:
            raise DebuggerError(
                f"{safe(text, 20)}: expected /COUNT, a format (x d u f c s i) and a size (b h w g)"
            )
        letters = match[2] if match is not None else ""
        sizes = [c for c in letters if c in _SIZES]
        forms = [c for c in letters if c not in _SIZES]
        if len(sizes) > 1 or len(forms) > 1:
            raise DebuggerError(f"{safe(text, 20)}: more than one format or size")
        self.count = int(match[1]) if match is not None and match[1] else 0
        self.form = forms[0] if forms else ""
        self.size = _SIZES[sizes[0]] if sizes else 0
        if self.count > _MOST_UNITS:
            raise DebuggerError(f"{self.count} units; at most {_MOST_UNITS} are shown")
        if self.form == "f" and self.size == 1:
            raise DebuggerError("f needs a size of h (fp16), w (fp32) or g (fp64)")


def examine(context: Context, text: str) -> list[Line]:
    """Show memory: ``[/FMT] [ADDR | TENSOR | REGISTER]``; without a place, further on.

    Raises:
        DebuggerError: Not a format, or no place.
    """
    form, place = "", text
    if text.startswith("/"):
        first, _, rest = text.partition(" ")
        # A name of ONNX begins with a slash, too.
        if _FORM.fullmatch(first) or not _names_tensor(context, text):
            form, place = first, rest.strip()
    wanted = _Format(form)
    if wanted.form == "i":
        return _commands(context, place, wanted.count or _COUNT["i"])
    where, dtype = _place(context, place)
    unit = _unit(wanted, dtype)
    itemsize = 1 if wanted.form == "s" else unit.itemsize
    count = wanted.count or _default(where, itemsize, wanted)
    if wanted.form == "s":
        lines, size = _strings(context, where, count)
    else:
        size = count * itemsize
        view = context.state.memory_at(where.space, where.low, size, context.seq)
        lines = [*_rows(context, where, view, unit, wanted.form or _natural(unit, dtype)),
                 *_writers(context, where, view)]  # fmt: skip
    context.next_address = (where.space, where.low + size)
    context.next_form = form
    return lines


def _names_tensor(context: Context, text: str) -> bool:
    try:
        references.tensor(context, text)
    except DebuggerError:
        return False
    return True


def _continued(context: Context, text: str) -> list[Line]:
    if not text and context.next_address is not None:
        return examine(context, context.next_form)
    return examine(context, text)


def _place(context: Context, text: str) -> tuple[references.Range, str]:
    """Return the range that a text means, and the element type there (or ``""``)."""
    if not text:
        if context.next_address is not None:
            return references.Range(*context.next_address, 64, sized=False), ""
        row = context.row()
        if int(row["dst_space"]) == Space.NONE:
            raise DebuggerError("x where? an address such as sram:0x100, or a tensor")
        return _written(context, row)
    if text in ("dst", "src", "addr"):
        row = context.row()
        reads = text == "addr" and int(row["dst_space"]) == Space.NONE
        side = "src" if reads else "dst" if text == "addr" else text
        if int(row[f"{side}_space"]) == Space.NONE:
            raise DebuggerError(f"the command at the cursor has no {text}")
        if side == "dst":
            return _written(context, row)
        return references.Range(int(row["src_space"]), int(row["src"]), 64, sized=False), ""
    if context.session.tensor(text) is None:
        where = references.address(context, text, 64)
        if where is not None:
            return where, ""
    ref = references.tensor(context, text)
    if ref.record.address is not None:
        return address_of(context, ref), ref.record.dtype
    return _on_chip(context, ref)


def _written(context: Context, row: Any) -> tuple[references.Range, str]:
    number, tensors_ = int(row["tensor"]), context.session.tensors
    dtype = tensors_[number].dtype if 0 <= number < len(tensors_) else ""
    size = max(int(row["nbytes"]), 1)
    return references.Range(int(row["dst_space"]), int(row["dst"]), size), dtype


def _on_chip(context: Context, ref: references.TensorRef) -> tuple[references.Range, str]:
    """Return where the newest piece of a tensor without a place in DDR was made."""
    rows = context.tensors.rows(context.tensors.root(ref.record.id))
    rows = rows[rows["seq"] <= context.seq]
    if not len(rows):
        raise DebuggerError(f"tensor {ref.text} has no place in memory, or has not been made yet")
    if ref.selection:
        raise DebuggerError(f"tensor {ref.text} lies in SRAM tile by tile; use p {ref.text}")
    return _written(context, rows[-1])


def _unit(wanted: _Format, dtype: str) -> np.dtype[Any]:
    """Return the element type to read memory as."""
    if not wanted.form and not wanted.size and dtype:
        try:
            return numpy_dtype(dtype)
        except TypeError:
            return np.dtype("u1")
    native = 0
    if dtype:
        try:
            native = numpy_dtype(dtype).itemsize
        except TypeError:
            native = 0
    size = wanted.size or (native if native in (1, 2, 4, 8) else 0)
    if wanted.form == "f":
        if dtype in EXTENSION and not wanted.size:
            return numpy_dtype(dtype)
        return np.dtype(f"<f{size if size in (2, 4, 8) else 4}")
    if wanted.form == "c":
        return np.dtype("u1")
    kind = "i" if wanted.form == "d" else "u"
    return np.dtype(f"<{kind}{size or (1 if wanted.form in ('', 'x') else 4)}")


def _natural(unit: np.dtype[Any], dtype: str) -> str:
    """Return the format that suits a type: values where it is known, else hex."""
    if not dtype:
        return "x"
    if unit.kind in "fVc":
        return "f"
    return "d" if unit.kind in "ib" else "u"


def _default(where: references.Range, itemsize: int, wanted: _Format) -> int:
    if wanted.form in _COUNT:
        return _COUNT[wanted.form]
    if wanted.size or wanted.form:
        return max(min(where.nbytes // itemsize, 64), 1) if where.sized else 1
    return max(min(where.nbytes, 64) // itemsize, 1)


def _rows(
    context: Context, where: references.Range, view: View, unit: np.dtype[Any], form: str
) -> list[Line]:
    size = unit.itemsize
    values = np.frombuffer(view.data, unit)
    known: Any = view.written.reshape(-1, size).all(axis=1)
    fresh: Any = (view.writers == context.seq).reshape(-1, size).any(axis=1)
    per = max(_ROW // size, 1)
    cells = [_cell(v, form, size) if k else "--" for v, k in zip(values, known, strict=True)]
    width = max((len(c) for c in cells), default=1)
    lines = []
    for at in range(0, len(cells), per):
        low = where.low + at * size
        spans: list[Span] = [Span(f"{space_name(where.space)}:{words.address(low)} ", "address")]
        for i in range(at, min(at + per, len(cells))):
            mark = "*" if fresh[i] else " "
            spans.append(Span(f" {mark}{cells[i]:>{width}}", "changed" if fresh[i] else ""))
        subject = Subject(kind="address", address=low, space=space_name(where.space))
        lines.append(line(*spans, subject=subject))
    return lines


def _cell(value: Any, form: str, size: int) -> str:
    raw = value.tobytes() if hasattr(value, "tobytes") else b""
    bits = int.from_bytes(raw, "little")
    if form == "x":
        return f"{bits:0{2 * size}x}"
    if form == "c":
        return f"{bits:>3} {chr(bits)!r}" if 32 <= bits < 127 else f"{bits:>3}"
    if form == "f":
        if np.iscomplexobj(value):
            return f"{complex(value):.6g}"
        return f"{float(value):.6g}"
    return str(int(value))


def _writers(context: Context, where: references.Range, view: View) -> list[Line]:
    """Return the line that says who wrote what is shown."""
    seqs, counts = np.unique(view.writers[view.writers >= 0], return_counts=True)
    parts: list[Any] = []
    for seq, count in list(zip(seqs.tolist(), counts.tolist(), strict=True))[-3:][::-1]:
        kind = kind_name(int(context.session.command(seq)["kind"]))
        parts.append(f"{count} B by command {seq} {kind}")
    if len(seqs) > 3:
        parts.append(f"and {len(seqs) - 3} commands before")
    there = int(np.count_nonzero((view.writers == -1) & view.written))
    if there:
        parts.append(f"{there} B there from the start")
    outside = int(np.count_nonzero(view.writers == OUTSIDE))
    if outside:
        parts.append(f"{outside} B changed by no command")
    unknown = int(np.count_nonzero(~view.written))
    if unknown:
        parts.append(f"{unknown} B never written (--)")
    subject = Subject(kind="command", seq=int(seqs[-1])) if len(seqs) else None
    when = f"after command {context.seq}" if context.cursor.last >= 0 else "at the end"
    text = f"  {when}: {', '.join(parts)}"
    return [line((text, "dim"), (f"  {context.origin}", "dim"), subject=subject)]


def _strings(context: Context, where: references.Range, count: int) -> tuple[list[Line], int]:
    lines, at = [], where.low
    for _ in range(min(count, 64)):
        view = context.state.memory_at(where.space, at, 200, context.seq)
        end = view.data.find(b"\0")
        part = view.data if end < 0 else view.data[:end]
        text = safe(part.decode("latin-1"), 200)
        lines.append(
            line((f"{space_name(where.space)}:{words.address(at)}  ", "address"), f'"{text}"')
        )
        at += len(part) + (end >= 0)
    return lines, at - where.low


def _commands(context: Context, place: str, count: int) -> list[Line]:
    context.cursor.require()
    seq = references.integer(place, "command") if place else context.cursor.seq
    rows = context.session.commands(seq, seq + count)
    if not len(rows):
        raise DebuggerError(f"no command {seq}; there are 0 to {context.cursor.last}")
    return [
        words.command(context, r, "> " if int(r["seq"]) == context.cursor.seq else "  ")
        for r in rows
    ]


VERBS = (
    Verb(
        "x",
        _continued,
        "x[/FMT] ADDR | TENSOR | dst | src",
        "memory as it was here",
        "Looking",
        (),
        True,
        complete=tensors,
        more=(
            "/16fh: 16 units, f (x d u f c s), h (b 1, h 2, w 4, g 8 bytes; fh is fp16)",
            "ADDR: sram:0x100, ddr:0x40000000+64, or a number where only one space has it",
            "*: written by the command at the cursor; --: never written; /8i SEQ: commands",
        ),
    ),
)
