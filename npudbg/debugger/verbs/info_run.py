"""info about the run: engines, counters, findings, memory, what is set."""

from __future__ import annotations

from typing import Any

import numpy as np

from npudbg.debugger import words
from npudbg.debugger.context import Context
from npudbg.debugger.locations import finding_seq
from npudbg.session.commands import Rows, Space, Status, space_name
from npudbg.session.lines import Line, Style, line
from npudbg.session.records import Subject
from npudbg.session.text import safe

_MOST = 200
_BACK = 16
"""Chunks that are looked through for what an engine did last."""


def registers(context: Context, text: str) -> list[Line]:
    """What each engine is doing at the cursor's cycle, and the cursor's command."""
    row = context.row()
    cycle = int(row["start"])
    lines = [
        line(
            ("seq      ", "key"), (f"{context.cursor.seq}", "number"), f" of {context.cursor.last}"
        ),
        line(("cycle    ", "key"), (f"{cycle:,}", "number"), (f"  {context.origin}", "dim")),
        line(("status   ", "key"), _status(int(row["status"]))),
    ]
    for side in ("src", "dst"):
        if int(row[f"{side}_space"]) != Space.NONE:
            space = space_name(int(row[f"{side}_space"]))
            lines.append(
                line((f"{side:<9}", "key"), (f"{space}:{words.address(int(row[side]))}", "address"))
            )
    lines.append(
        line(("nbytes   ", "key"), f"{int(row['nbytes'])} B, tile {int(row['tile'])}, "
             f"node {int(row['node'])}, tensor {int(row['tensor'])}")
    )  # fmt: skip
    for number, found in enumerate(_last_of_engines(context)):
        name = safe(context.session.meta.engines[number], 12)
        if found is None:
            lines.append(line((f"{name:<9}", "key"), ("idle, nothing issued yet", "dim")))
            continue
        busy = int(found["start"]) <= cycle < int(found["end"])
        hung = int(found["status"]) == Status.HUNG
        state = "hung" if hung else "busy" if busy else "idle"
        left = f", {int(found['end']) - cycle:,} cyc left" if busy and not hung else ""
        lines.append(
            line(
                (f"{name:<9}", "key"),
                (state, "error" if hung else "ok" if busy else "dim"),
                f"{left}  command {int(found['seq'])}: {words.what(context, found)}",
                subject=words.subject(context, found),
            )
        )
    return lines


def _last_of_engines(context: Context) -> list[Any]:
    """Return the newest command of each engine, up to the cursor."""
    session, seq = context.session, context.cursor.seq
    found: list[Any] = [None] * len(session.meta.engines)
    starts = session.chunk_starts
    at = int(np.searchsorted(np.array(starts, np.int64), seq, "right")) - 1
    for chunk in range(at, max(at - _BACK, -1), -1):
        rows = session.chunk(chunk)
        rows = rows[rows["seq"] <= seq]
        for number, known in enumerate(found):
            hits = np.flatnonzero(rows["engine"] == number)
            if known is None and len(hits):
                found[number] = rows[hits[-1]]
        if all(f is not None for f in found):
            break
    return found


def _status(number: int) -> tuple[str, Style]:
    if number not in Status._value2member_map_:
        return f"status {number}", "warn"
    return Status(number).name, "ok" if number == Status.OK else "error"


def engines(context: Context, text: str) -> list[Line]:
    """How long each engine was busy in the whole run."""
    session = context.session
    context.cursor.require()
    busy = session.extra("engines_busy")
    cycles = max(session.n_cycles, 1)
    if not isinstance(busy, dict):
        busy = _busy(context)
    lines = []
    for name in session.meta.engines:
        spent = busy.get(name, 0)
        if not isinstance(spent, (int, float)):
            continue
        lines.append(
            line(
                (f"{safe(name, 12):<8}", "key"),
                (f"{int(spent):>16,} cyc busy", "number"),
                f"  {100 * spent / cycles:5.1f}% of {cycles:,}",
                (f"  {context.origin}", "dim"),
            )
        )
    return lines


def _busy(context: Context) -> dict[str, int]:
    session = context.session
    spent = np.zeros(256, np.int64)
    for at in range(len(session.chunk_starts)):
        rows: Rows = session.chunk(at)
        np.add.at(spent, rows["engine"].astype(np.int64), rows["end"] - rows["start"])
    return {name: int(spent[i]) for i, name in enumerate(session.meta.engines)}


def counters(context: Context, text: str) -> list[Line]:
    """The run's counters with the thresholds that they are judged by."""
    lines = []
    for each in context.session.counters:
        part = each.unit == "fraction"
        value = f"{100 * each.value:.1f}%" if part else f"{words.figure(each.value)} {each.unit}"
        limits = [f"healthy {each.healthy}"] if each.healthy else []
        limits += [f"dangerous {each.dangerous}"] if each.dangerous else []
        lines.append(
            line(
                (f"{safe(each.name, 32):<28}", "key"),
                (f"{safe(value, 32):>18}", "number"),
                f"  {safe(', '.join(limits), 60)}",
                (f"  {each.origin}", "dim"),
            )
        )
    return lines or [line(("the run left no counters", "dim"))]


def findings(context: Context, text: str) -> list[Line]:
    """All findings; select one with goto finding CODE."""
    lines = []
    if context.session.verdict is not None:
        verdict = context.session.verdict
        style: Style = "error" if verdict.layer else "ok"
        head = f"layer {verdict.layer}" if verdict.layer else "nothing at fault"
        lines.append(line((f"{head} {safe(verdict.code, 8)} ", style), safe(verdict.summary, 200)))
    for number, each in enumerate(context.session.findings[:_MOST]):
        seq = finding_seq(context, each)
        where = f"  command {seq}" if seq >= 0 else ""
        style = (
            "error" if each.severity == "error" else "warn" if each.severity == "warning" else "dim"
        )
        lines.append(
            line(
                (f"#{number:<3} {safe(each.code, 8)} ", style),
                f"{each.severity}, {each.certainty}: {safe(each.message, 160)}",
                (f"{where}  {each.origin}", "dim"),
                subject=each.subject,
            )
        )
    left = len(context.session.findings) - _MOST
    if left > 0:
        lines.append(line((f"… {left:,} more", "dim")))
    if not context.session.findings:
        lines.append(line(("no findings", "ok")))
    return lines


def memory(context: Context, text: str) -> list[Line]:
    """The address spaces, and what lies in them at the cursor."""
    session = context.session
    lines = []
    for region in session.meta.regions:
        lines.append(
            line(
                (f"{safe(region.space, 8):<5}", "key"),
                (f" {words.address(region.base)}..{words.address(region.base + region.nbytes)}",
                 "address"),
                f"  {words.nbytes(region.nbytes)} {safe(region.name, 40)}",
                (f"  {context.origin}", "dim"),
            )
        )  # fmt: skip
    if context.cursor.last < 0:
        return lines or [line(("the session has no memory map", "dim"))]
    lines.append(line((f"in sram, by this node up to command {context.cursor.seq}:", "title")))
    lines += _sram(context)
    lines.append(line(("in ddr, made and still to be read:", "title")))
    lines += _ddr(context)
    return lines


def _sram(context: Context) -> list[Line]:
    """Return what this node's commands have put into SRAM, newest first in each place."""
    first, _ = context.cursor.group(context.cursor.seq)
    rows = context.session.commands(
        max(first, context.cursor.seq - 100_000), context.cursor.seq + 1
    )
    rows = rows[(rows["dst_space"] == Space.SRAM) & context.state.written.writing(rows)]
    taken: list[tuple[int, int]] = []
    lines = []
    for row in rows[::-1]:
        low, high = context.state.written.reach(row)
        if any(a < high and b > low for a, b in taken):
            continue
        taken.append((low, high))
        lines.append((low, row))
        if len(taken) >= _MOST // 4:
            break
    shown = [
        line(
            (f"  {words.address(low)}+{int(row['nbytes']):<8} ", "address"),
            f"command {int(row['seq'])} {words.what(context, row)}",
            subject=words.subject(context, row),
        )
        for low, row in sorted(lines, key=lambda each: each[0])
    ]
    return shown or [line(("  nothing", "dim"))]


def _ddr(context: Context) -> list[Line]:
    session, seq = context.session, context.cursor.seq
    lines = []
    for tensor in session.tensors:
        if tensor.space != "ddr" or tensor.address is None or tensor.first_seq > seq:
            continue
        ends = [session.nodes[n].last_seq for n in tensor.consumers if 0 <= n < len(session.nodes)]
        last = context.cursor.last if tensor.role in ("output", "weight") else max(ends, default=-1)
        if max(last, tensor.last_seq) < seq or (tensor.first_seq < 0 and last < seq):
            continue
        size = context.state.written.layout(tensor.id)
        lines.append(
            line(
                (f"  {words.address(tensor.address)}+{size.nbytes if size else 0:<9} ", "address"),
                f"{tensor.role} {safe(tensor.name, 60)}",
                subject=Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
            )
        )
    left = len(lines) - _MOST
    return [*lines[:_MOST], *([line((f"  … {left:,} more", "dim"))] if left > 0 else [])]
