"""Commands, figures and errors as lines; a figure has its unit and says where it comes from."""

from __future__ import annotations

from typing import Any

from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.session.commands import MAX_BOX_RANK, Kind, Space, Status, kind_name, space_name
from npudbg.session.lines import Line, line
from npudbg.session.records import Stats, Subject, TensorRecord
from npudbg.session.text import safe

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_ENDS = {
    Status.HUNG: "HUNG: started, never ended",
    Status.FAULT: "FAULT: refused by the hardware",
    Status.TOUCHED: "touched by an injection",
    Status.NOT_STARTED: "never started",
}
_CARET_ROOM = 60


def nbytes(count: int) -> str:
    """Return bytes with a binary unit."""
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if value == int(value) else f"{value:.1f} {_UNITS[unit]}"


def address(value: int) -> str:
    """Return an address in hex, at least eight digits."""
    return f"{value:#010x}"


def shape(record: TensorRecord) -> str:
    """Return ``1x3x224x224`` or ``scalar``."""
    return "x".join(map(str, record.shape)) or "scalar"


def figure(value: float | None) -> str:
    """Return a number in few characters."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def error_lines(error: DebuggerError) -> list[Line]:
    """Return an error as lines; where the place is known, with a caret below it."""
    lines = [line((safe(error, 400), "error"))]
    if error.text and "\n" not in error.text:
        start = max(error.column - _CARET_ROOM // 2, 0)
        part = safe(error.text[start : start + _CARET_ROOM], _CARET_ROOM + 8)
        lines += [line(f"  {part}"), line(("  " + " " * (error.column - start) + "^", "error"))]
    return lines


def box(context: Context, row: Any) -> str:
    """Return the region of its tensor that a row moves or makes; ``""`` for all of it."""
    number, tensors = int(row["tensor"]), context.session.tensors
    if not 0 <= number < len(tensors) or not tensors[number].shape:
        return ""
    dims = tensors[number].shape
    parts = [
        ":" if (a, b) == (0, n) else f"{a}:{b}"
        for (a, b), n in zip(
            row["box"][: min(len(dims), MAX_BOX_RANK)].tolist(), dims, strict=False
        )
    ]
    empty = not bool((row["box"][:, 1] > row["box"][:, 0]).any())
    return "" if empty or all(p == ":" for p in parts) else f"[{','.join(parts)}]"


def engine(context: Context, row: Any) -> str:
    """Return a row's engine."""
    number, engines = int(row["engine"]), context.session.meta.engines
    return safe(engines[number], 12) if number < len(engines) else f"e{number}"


def what(context: Context, row: Any) -> str:
    """Return in words what a command does."""
    session, kind = context.session, int(row["kind"])
    number, tensor = int(row["node"]), int(row["tensor"])
    node = session.nodes[number] if 0 <= number < len(session.nodes) else None
    name = safe(session.tensors[tensor].name, 48) if 0 <= tensor < len(session.tensors) else ""
    text = kind_name(kind)
    if kind in (Kind.KERNEL, Kind.HOST) and node is not None:
        text += f" {safe(node.op_type, 24)} {safe(node.label, 48)}"
    if int(row["dst_space"]) != Space.NONE:
        text += f" {space_name(int(row['dst_space']))}:{address(int(row['dst']))}"
    if int(row["src_space"]) != Space.NONE and kind != Kind.KERNEL:
        text += f" <- {space_name(int(row['src_space']))}:{address(int(row['src']))}"
    if int(row["nbytes"]):
        text += f" {nbytes(int(row['nbytes']))}"
    return f"{text} {name}{box(context, row)}".rstrip() if name else text


def command(context: Context, row: Any, mark: str = "  ") -> Line:
    """Return one command as a line."""
    seq = int(row["seq"])
    end = _ENDS.get(Status(int(row["status"]))) if int(row["status"]) in _ENDS else None
    return line(
        (mark, "current"),
        (f"{seq:>7} ", "number"),
        (f"cycle {int(row['start']):,}  ", "dim"),
        f"{engine(context, row):<5} {what(context, row)}",
        (f"  {end}" if end else "", "error"),
        subject=subject(context, row),
    )


def subject(context: Context, row: Any) -> Subject:
    """Return what selecting a command opens."""
    node, tensor = int(row["node"]), int(row["tensor"])
    return Subject(
        kind="command", seq=int(row["seq"]),
        node=node if 0 <= node < len(context.session.nodes) else None,
        tensor=tensor if 0 <= tensor < len(context.session.tensors) else None,
    )  # fmt: skip


def tensor_subject(record: TensorRecord) -> Subject:
    """Return what selecting a tensor opens."""
    return Subject(kind="tensor", name=safe(record.name), tensor=record.id)


def stats(found: Stats | None) -> str:
    """Return statistics in one line."""
    if found is None:
        return "no statistics"
    if not found.count:
        return "empty"
    text = f"min {figure(found.min)} max {figure(found.max)} mean {figure(found.mean)}"
    bad = [
        f"{count:,} {name}"
        for count, name in ((found.nan, "NaN"), (found.pos_inf, "+Inf"), (found.neg_inf, "-Inf"))
        if count
    ]
    return f"{', '.join(bad)} of {found.count:,}; {text}" if bad else text


def place(record: TensorRecord) -> str:
    """Return where a tensor lies, and who says so."""
    if record.address is None:
        return (
            "no place in memory (it stays on chip)" if record.role == "activation" else "no place"
        )
    return f"{record.space}:{address(record.address)} ({record.address_origin})"
