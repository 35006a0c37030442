"""Moving the cursor: to a goal, or to the stop that comes before it, and saying so."""

from __future__ import annotations

from collections.abc import Callable

from npudbg.debugger import words
from npudbg.debugger.breakpoints import Stop
from npudbg.debugger.context import Context
from npudbg.debugger.search import find_stop
from npudbg.session.lines import Line, line
from npudbg.session.text import safe

Show = Callable[[Context, str], list[Line]]


def move(context: Context, goal: int, reason: str, *, also: list[Stop] | None = None) -> list[Line]:
    """Go to ``goal``, or to a stop on the way there.

    Args:
        context: The debugger.
        goal: The command to stop at, at the latest.
        reason: Why one stops there.
        also: Stops for this move only.

    Returns:
        Why and where it stopped.
    """
    cursor = context.cursor
    cursor.require()
    lines: list[Line] = []
    context.frame.clear()
    context.listed = None
    step = 1 if goal > cursor.seq else -1
    if goal == cursor.seq:
        cursor.reason = reason
        return [*stopped(context, reason), *where(context)]
    stops = [*context.table.enabled(), *(also or [])]
    hit = find_stop(context, stops, cursor.seq + step, goal)
    if hit is None:
        cursor.goto(goal, reason)
    else:
        parts = []
        for stop in hit.stops:
            if stop.number > 0:
                parts.append(f"{stop.title}: {stop.text}")
                why = stop.matcher.why(hit.seq)
                if why:
                    parts[-1] += f" ({why})"
            if stop.temporary and stop.number > 0:
                context.table.delete(stop.number)
        titles = ", ".join(s.title for s in hit.stops if s.number > 0)
        cursor.goto(hit.seq, titles or reason)
        if hit.problem:
            lines.append(line((safe(hit.problem, 300), "error")))
        reason = "; ".join(parts) or reason
    return [*lines, *stopped(context, reason), *where(context)]


def stopped(context: Context, reason: str) -> list[Line]:
    """Return the line that says why the cursor stopped."""
    return [line(("STOP ", "title"), (safe(reason, 300), "warn"))] if reason else []


def where(context: Context) -> list[Line]:
    """Return the lines that say where the cursor stands."""
    cursor = context.cursor
    if cursor.last < 0:
        return [line(("no commands in this session", "dim"))]
    row = context.row()
    node = cursor.node(cursor.seq)
    lines = [words.command(context, row, "> ")]
    if node is not None:
        tile = f", tile {int(row['tile'])} of {node.tiles}" if int(row["tile"]) >= 0 else ""
        lines.append(
            line(
                f"          node {node.index} {safe(node.op_type, 24)} ",
                f"{safe(node.label, 60)}{tile}",
                (f"  command {cursor.seq} of 0..{cursor.last}, {context.origin}", "dim"),
            )
        )
    return lines
