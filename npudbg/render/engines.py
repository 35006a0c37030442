"""Engines: how busy each was over time, and which of them kept the others waiting."""

from __future__ import annotations

import numpy as np

from npudbg.render import numbers
from npudbg.render.commands import origin_of, what
from npudbg.render.engine_waits import Waits, waits_of
from npudbg.render.fit import fit, left, wrapped
from npudbg.render.timeline import busy
from npudbg.session.lines import Line, line
from npudbg.session.reader import Session
from npudbg.session.records import Subject
from npudbg.session.text import safe

BARS = " ▁▂▃▄▅▆▇█"
_NAME = 7
_TAIL = 6
_MOST = 6


def engine_lines(
    session: Session, low: int, high: int, width: int, *, waits: Waits | None = None
) -> list[Line]:
    """Return a sparkline an engine, and for whom each of them waited.

    Args:
        session: The record.
        low: First command shown.
        high: Command after the last one shown.
        width: Columns of text.
        waits: What :func:`~npudbg.render.engine_waits.waits_of` returned for the range.
    """
    low, high = max(low, 0), min(high, session.n_commands)
    title = line(
        ("engines", "title"),
        f" in commands {low}..{max(high - 1, low)}",
        (f"  {origin_of(session)}", "dim"),
    )
    if low >= high:
        return [fit(each, width) for each in (title, line(("no commands here", "dim")))]
    waits = waits_of(session, low, high) if waits is None else waits
    lines = [title, *_sparklines(session, waits, width)]
    for engine in range(len(waits.other)):
        lines += _waiting(session, waits, engine, width)
    text = (
        "A wait is for an operand where the record says who wrote it; 'ends as it begins' is a "
        "command that ended in the cycle in which the next one began, though nothing of it is "
        "read: a buffer or an order."
    )
    lines += wrapped(text, width, "dim")
    for seq in waits.hung[:_MOST].tolist():
        row = session.command(seq)
        lines.append(
            line(
                (f"command {seq} never ended: ", "error"),
                what(session, row, max(width - 30, 12)),
                subject=Subject(kind="command", seq=seq),
            )
        )
    return [fit(each, width) for each in lines]


def name_of(session: Session, engine: int) -> str:
    """Return an engine's name."""
    names = session.meta.engines
    return safe(names[engine], 12) if engine < len(names) else f"e{engine}"


def sparkline(shares: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Return shares (0 to 1) as bars: blank is nothing at all, a full bar is all of it."""
    full = len(BARS) - 1
    level = np.clip(np.ceil(shares * full - 1e-9), 0, full - 1).astype(int)
    level[shares >= 1 - 1e-9] = full
    return "".join(BARS[i] for i in level)


def _sparklines(session: Session, waits: Waits, width: int) -> list[Line]:
    columns = max(width - _NAME - _TAIL - 2, 8)
    chart = busy(session, waits.first, waits.last, columns)
    lines = []
    for engine in range(chart.share.shape[0]):
        lines.append(
            line(
                (left(name_of(session, engine), _NAME), "key"),
                ("│", "dim"),
                (sparkline(chart.share[engine]), "number"),
                ("│", "dim"),
                f"{numbers.share(float(chart.total[engine]), 1.0):>{_TAIL}}",
            )
        )
    first, last = f"{chart.low:,}", f"{chart.high:,} cyc"
    gap = " " * max(columns - len(first) - len(last), 1)
    return [*lines, line((f"{'':<{_NAME}} {first}{gap}{last}", "dim"))]


def _waiting(session: Session, waits: Waits, engine: int, width: int) -> list[Line]:
    """Return for whom an engine waited, longest first."""
    cycles = max(waits.last - waits.first, 1)
    causes = [
        (int(table[engine, whom]), f"{name_of(session, whom)}{how}")
        for table, how in ((waits.data, ""), (waits.freed, " (ends as it begins)"))
        for whom in np.flatnonzero(table[engine]).tolist()
    ]
    if waits.other[engine]:
        causes.append((int(waits.other[engine]), "nothing that is recorded"))
    if not causes:
        return []
    causes.sort(key=lambda each: -each[0])
    total = sum(n for n, _ in causes)
    shown = [f"{who} {n:,} ({numbers.share(n, cycles)})" for n, who in causes[:_MOST]]
    more = f", … {len(causes) - _MOST} more" if len(causes) > _MOST else ""
    head = f"{left(name_of(session, engine), _NAME)}"
    text = f"waited {total:,} cyc ({numbers.share(total, cycles)}) for {', '.join(shown)}{more}"
    return wrapped(text, width, lead=head)
