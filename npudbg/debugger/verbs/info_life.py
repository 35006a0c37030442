"""info life TENSOR: the steps of a tensor's life, each with what the record shows of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.session.commands import Kind, Rows, Space, Status
from npudbg.session.lines import Line, Style, line
from npudbg.session.records import Subject, TensorRecord
from npudbg.session.text import safe

_STEPS = ("allocate", "fill", "wrap", "register", "dma", "bind, execute", "synchronise")


def life(context: Context, text: str) -> list[Line]:
    """The seven steps of a tensor's life, from its allocation to the host's reading it."""
    record = references.tensor(context, text or "out").record
    device = _on_device(context, record)
    about = [record.id] if device is None else [record.id, device.id]
    rows = _rows_of(context, about)
    lines = [line((f"life of {safe(record.name, 80)}", "title"), f"  {record.role}")]
    shown = device or record
    flushes = rows[rows["kind"] == Kind.FLUSH]
    drops = rows[rows["kind"] == Kind.INVALIDATE]
    size = f"{record.base_nbytes:,} B, owner {safe(record.owner, 24)}"
    kind = f"{safe(record.dtype, 16)} {words.shape(record)}"
    no_flush = "no FLUSH is in the record (needed where host and device are not coherent)"
    texts = (
        f"{words.place(record)}, {size}{_alignment(context, record)}",
        f"{words.stats(record.stats)} ({record.origin})",
        f"{kind}, strides {record.strides}, offset {record.offset} B",
        _step(context, flushes, "flushed by", no_flush),
        _step(context, rows[_transfers(rows)], "moved by", "no transfer is in the record"),
        _execution(context, (record, shown), rows),
        _step(context, drops, "invalidated by", _waiting(context, shown)),
    )
    for number, (name, words_) in enumerate(zip(_STEPS, texts, strict=True), 1):
        broken = _findings(context, about, number)
        style: Style = "error" if broken else ""
        lines.append(line((f" {number} {name:<14}", "key"), (words_, style)))
        lines += broken
    bad = rows[np.isin(rows["status"], (Status.HUNG, Status.FAULT, Status.TOUCHED))]
    for row in bad[:8]:
        lines.append(words.command(context, row, "  "))
    return lines


def _on_device(context: Context, record: TensorRecord) -> TensorRecord | None:
    """Return the device's copy of a host's input."""
    if record.space != "host":
        return None
    found = context.session.tensor(f"{record.name}@ddr")
    return found if found is not None and found.role == record.role else None


def _rows_of(context: Context, tensors: list[int]) -> Rows:
    """Return all commands of some tensors, and those that read them."""
    session = context.session
    parts = [
        rows[np.isin(rows["tensor"], tensors)]
        for rows in (session.chunk(at) for at in range(len(session.chunk_starts)))
    ]
    return np.concatenate(parts) if parts else session.commands(0, 0)


def _transfers(rows: Rows) -> Any:
    moves = (rows["kind"] == Kind.DMA_LOAD) | (rows["kind"] == Kind.DMA_STORE)
    return moves | ((rows["kind"] == Kind.HOST) & (rows["src_space"] == Space.HOST))


def _step(context: Context, rows: Rows, done: str, missing: str) -> str:
    if not len(rows):
        return missing
    first, last = int(rows["seq"][0]), int(rows["seq"][-1])
    total = words.nbytes(int(rows["nbytes"].sum()))
    which = f"command {first}" if first == last else f"{len(rows):,} commands {first}..{last}"
    return f"{done} {which}, {total}, until cycle {int(rows['end'].max()):,} ({context.origin})"


def _execution(context: Context, records: tuple[TensorRecord, ...], rows: Rows) -> str:
    made = rows[(rows["kind"] == Kind.KERNEL) | ((rows["kind"] == Kind.HOST) & (rows["node"] >= 0))]
    parts = [_step(context, made, "made by", "")] if len(made) else []
    nodes = context.session.nodes
    numbers = dict.fromkeys(n for r in records for n in r.consumers if 0 <= n < len(nodes))
    readers = [nodes[n] for n in numbers]
    for node in readers[:4]:
        parts.append(f"read by node {node.index} {safe(node.op_type, 20)} {safe(node.status, 12)}")
    return "; ".join(parts) or "read by no node"


def _waiting(context: Context, record: TensorRecord) -> str:
    """Return whether the host waited after the last command that made a tensor."""
    if context.cursor.last < 0:
        return "not in the record"
    session = context.session
    low = max(record.last_seq, 0)
    at = max(int(np.searchsorted(np.array(session.chunk_starts), low, "right")) - 1, 0)
    for chunk in range(at, len(session.chunk_starts)):
        rows = session.chunk(chunk)
        hits = np.flatnonzero((rows["kind"] == Kind.WAIT) & (rows["seq"] > record.last_seq))
        if len(hits):
            row = rows[hits[0]]
            hung = int(row["status"]) == Status.HUNG
            return f"waited for by command {int(row['seq'])}{': it never ended' if hung else ''}"
    return "no WAIT follows: the host never synchronises on it"


def _alignment(context: Context, record: TensorRecord) -> str:
    dma = getattr(context.target, "dma", None)
    wanted = getattr(dma, "base_alignment", None)
    if record.address is None or not wanted:
        return ""
    rest = record.address % wanted
    return f", {'aligned to' if not rest else f'{rest:#x} off the'} {words.nbytes(wanted)} of DMA"


_LAYER_STEPS = {1: (1, 3), 2: (2, 3), 3: (4, 5), 4: (6,)}


def _findings(context: Context, tensors: list[int], step: int) -> list[Line]:
    """Return the findings on a tensor at the step where they are best read."""
    lines = []
    for each in context.session.findings:
        place = max(_LAYER_STEPS.get(each.layer, (0,)))
        if "align" in each.name or "size" in each.name:
            place = 1
        if "flush" in each.name or "coheren" in each.name:
            place = 4
        if "wait" in each.name or "invalidate" in each.name:
            place = 7
        if place == step and _is_of(each.subject, tensors, context):
            lines.append(
                line((f"   ! {safe(each.code, 8)} {safe(each.message, 140)}", "error"),
                     subject=each.subject)
            )  # fmt: skip
    return lines[:8]


def _is_of(subject: Subject, tensors: list[int], context: Context) -> bool:
    if subject.tensor is not None:
        return subject.tensor in tensors
    names = {context.session.tensors[t].name for t in tensors}
    return subject.kind == "tensor" and subject.name in names
