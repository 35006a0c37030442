"""Commands as lines: number, cycle, engine, what it does, what it costs, how it ended."""

from __future__ import annotations

from typing import Any

from npudbg.render import numbers
from npudbg.render.fit import cut, cut_middle, fit, left
from npudbg.session.commands import MAX_BOX_RANK, Kind, Space, Status, kind_name, space_name
from npudbg.session.lines import Line, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import NodeRecord, Subject, TensorRecord
from npudbg.session.text import safe

_STATUS: dict[int, tuple[str, Style]] = {
    Status.OK: (" ", ""),
    Status.HUNG: ("!", "error"),
    Status.FAULT: ("!", "error"),
    Status.TOUCHED: ("*", "changed"),
    Status.NOT_STARTED: ("-", "dim"),
}
_WORDS = {
    Status.HUNG: "HUNG: started, never ended",
    Status.FAULT: "FAULT: refused by the hardware",
    Status.TOUCHED: "moved or made bytes that an injection had changed",
    Status.NOT_STARTED: "never started",
}
_VERBS = {Kind.DMA_LOAD: "LOAD", Kind.DMA_STORE: "STORE"}


def header(session: Session, width: int) -> Line:
    """Return the column names of :func:`command_line`."""
    seq, cycle = _columns(session)
    head = f"  {'seq':>{seq}} {'cycle':>{cycle}} engine command"
    return line((left(head, max(width - 10, 0)) + f"{'cost':>8}  ", "dim"))


def command_line(
    session: Session, row: Any, width: int, *, current: bool = False, breakpoint_: bool = False
) -> Line:
    """Return one command as a line of ``width`` columns.

    The first column says ``B`` where a breakpoint would stop, the second ``>``
    at the cursor; the last column says how it ended (``!`` hung or faulted, ``*``
    touched by an injection, ``-`` never started).

    Args:
        session: The record the row is of.
        row: A row of :data:`~npudbg.session.commands.COMMAND`.
        width: Columns.
        current: Whether the cursor stands here.
        breakpoint_: Whether a breakpoint would stop here.
    """
    seq, node = int(row["seq"]), node_of(session, row)
    mark, style = _STATUS.get(int(row["status"]), ("?", "warn"))
    cost = _cost(int(row["end"]) - int(row["start"]))
    seq_width, cycle_width = _columns(session)
    room = max(width - 20 - seq_width - cycle_width, 8)
    subject = Subject(
        kind="command",
        name=safe(node.label) if node is not None else "",
        seq=seq,
        node=node.index if node is not None else None,
        tensor=int(row["tensor"]) if int(row["tensor"]) >= 0 else None,
    )
    return fit(
        line(
            ("B" if breakpoint_ else " ", "mark"),
            (">" if current else " ", "current"),
            (f"{seq:>{seq_width}} ", "current" if current else "number"),
            (f"{int(row['start']):>{cycle_width}} ", "dim"),
            (left(engine_name(session, row), 5) + " ", ""),
            (left(what(session, row, room), room), "current" if current else ""),
            (f"{cost:>8} ", "number"),
            (mark, style),
            subject=subject,
        ),
        width,
    )


def what(session: Session, row: Any, width: int) -> str:
    """Return in words what a command does, in at most ``width`` columns."""
    kind = int(row["kind"])
    dst = f"{space_name(row['dst_space'])} {numbers.address(int(row['dst']))}"
    src = f"{space_name(row['src_space'])} {numbers.address(int(row['src']))}"
    size = numbers.nbytes(int(row["nbytes"]))
    node = node_of(session, row)
    label = safe(node.label, 400) if node is not None else ""
    if kind in _VERBS:
        text = f"{_VERBS[Kind(kind)]:<5} {dst} ← {src} {size}"
        tensor = tensor_of(session, row)
        room = width - len(text) - 1
        if tensor is not None and room >= 8:
            return f"{text} {cut_middle(safe(tensor.name, 400), room)}"
        # Where it comes from matters less than where it goes to.
        return cut(text, width) if len(text) <= width else cut(f"{_VERBS[Kind(kind)]:<5} "
                                                               f"{dst} {size}", width)  # fmt: skip
    if kind in (Kind.KERNEL, Kind.HOST):
        if node is None:
            # The driver's own copy (of an input, say) belongs to no node.
            tensor = tensor_of(session, row)
            label = safe(tensor.name, 400) if tensor is not None else ""
        op = safe(node.op_type, 24) if node is not None else ""
        head = f"HOST {op}".rstrip() if kind == Kind.HOST else op or kind_name(kind)
        tail = f" → {dst} {size}" if int(row["dst_space"]) != Space.NONE else ""
        box = box_text(session, row)
        for extra in (f" {box}{tail}", tail, ""):
            room = width - len(head) - len(extra) - 1
            if room >= min(len(label), 12):
                return f"{head} {cut_middle(label, room)}{extra}"
        return cut(f"{head} {label}", width)
    text = kind_name(kind)
    if kind in (Kind.FLUSH, Kind.INVALIDATE):
        text += f" {dst if int(row['dst_space']) else src} {size}"
    return cut(f"{text} {label}".rstrip(), width)


def box_text(session: Session, row: Any) -> str:
    """Return the region of the tensor that a command moves or makes: ``[0:1,0:32,8:16]``."""
    tensor = tensor_of(session, row)
    if tensor is None or not tensor.shape:
        return ""
    box = row["box"][: min(len(tensor.shape), MAX_BOX_RANK)]
    parts = []
    for (start, stop), size in zip(box.tolist(), tensor.shape, strict=False):
        parts.append(":" if (start, stop) == (0, size) else f"{start}:{stop}")
    return "" if all(p == ":" for p in parts) else f"[{','.join(parts)}]"


def command_detail(session: Session, row: Any, width: int) -> list[Line]:
    """Return all columns of a command in words, and what it read."""
    node, tensor = node_of(session, row), tensor_of(session, row)
    origin = origin_of(session)
    start, end = int(row["start"]), int(row["end"])
    lasts = numbers.duration(end - start, session.meta.clock_hz)
    seq = int(row["seq"])
    lines = [
        line(
            (f"command {seq} {kind_name(row['kind'])}", "title"),
            f" on {engine_name(session, row)}, cycles {start:,}..{end:,}"
            f"{f' ({lasts})' if lasts else ''}  {origin}",
        )
    ]
    if int(row["status"]) in _WORDS:
        lines.append(line((f"  {_WORDS[Status(int(row['status']))]}", "error")))
    if node is not None:
        text = f"  node {node.index} {safe(node.op_type, 24)} {safe(node.label, 400)}"
        if int(row["tile"]) >= 0:
            text += f", tile {int(row['tile'])}"
        lines.append(
            line(text, subject=Subject(kind="node", name=safe(node.label), node=node.index))
        )
    if tensor is not None:
        lines.append(
            line(
                f"  {_role(row)} {safe(tensor.name, 400)} {numbers.shape(tensor.shape)} "
                f"{safe(tensor.dtype, 16)} {box_text(session, row)}",
                subject=Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
            )
        )
    for access in session.accesses(seq, seq + 1)[:8]:
        by = int(access["by"])
        lines.append(
            line(
                "  reads  ",
                (f"{space_name(access['space'])} {numbers.address(int(access['addr']))}",
                 "address"),
                f" {numbers.nbytes(int(access['nbytes']))}"
                f"{f' put there by command {by}' if by >= 0 else ' there from the start'}",
                subject=Subject(kind="command", seq=by) if by >= 0 else None,
            )
        )  # fmt: skip
    return [fit(each, width) for each in lines]


def node_of(session: Session, row: Any) -> NodeRecord | None:
    """Return the node of a command row (a damaged number gives None)."""
    number = int(row["node"])
    return session.nodes[number] if 0 <= number < len(session.nodes) else None


def tensor_of(session: Session, row: Any) -> TensorRecord | None:
    """Return the tensor of a command row (a damaged number gives None)."""
    number = int(row["tensor"])
    return session.tensors[number] if 0 <= number < len(session.tensors) else None


def engine_name(session: Session, row: Any) -> str:
    """Return the engine's name."""
    number, engines = int(row["engine"]), session.meta.engines
    return safe(engines[number], 12) if number < len(engines) else f"e{number}"


def origin_of(session: Session) -> str:
    """Return where the session's cycles come from."""
    return "simulated" if session.meta.backend == "simulated" else "measured"


def _role(row: Any) -> str:
    return "makes " if int(row["kind"]) in (Kind.KERNEL, Kind.HOST) else "moves "


def _cost(cycles: int) -> str:
    """Return cycles in at most eight columns; never cut, which would read as less."""
    if len(f"{cycles:,}") <= 8:
        return f"{cycles:,}"
    if len(str(cycles)) <= 8:
        return str(cycles)
    return next(
        (text for scale, unit in ((6, "M"), (9, "G"), (12, "T"))
         if len(text := f"{cycles / 10**scale:,.1f}{unit}") <= 8), f"{cycles:.1e}"
    )  # fmt: skip


def _columns(session: Session) -> tuple[int, int]:
    """Return the widths of the number and cycle columns: what the run's largest need."""
    return max(len(str(session.n_commands)), 4), max(len(str(session.n_cycles)), 5)
