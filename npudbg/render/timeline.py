"""Engines over cycles: a Gantt chart in text, at any zoom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npudbg.render import numbers
from npudbg.render.commands import origin_of
from npudbg.render.fit import fit, left
from npudbg.session.commands import Rows
from npudbg.session.lines import Line, Span, line
from npudbg.session.reader import Session
from npudbg.session.text import safe

_SHADES = " ░▒▓█"
_CHUNK = 1 << 16
_NAME = 6
_TAIL = 5


@dataclass(frozen=True, slots=True)
class Busy:
    """Busy share of each engine in each column: shape (engines, columns), 0 to 1."""

    low: int
    high: int
    share: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]


def busy(session: Session, low: int, high: int, columns: int) -> Busy:
    """Return how busy each engine is in each of ``columns`` slices of ``[low, high)`` cycles."""
    engines = max(len(session.meta.engines), 1)
    high = max(high, low + 1)
    edges = np.zeros((engines, columns + 1))
    first, last = _range(session, low, high)
    for at in range(first, last, _CHUNK):
        rows = session.commands(at, min(at + _CHUNK, last))
        _accumulate(rows[(rows["end"] > low) & (rows["start"] < high)], low, high, edges)
    taken = np.diff(edges, axis=1, prepend=0.0)[:, :columns]
    slice_cycles = (high - low) / columns
    share = np.clip(taken / slice_cycles, 0.0, 1.0)
    return Busy(low, high, share, np.clip(taken.sum(axis=1) / (high - low), 0.0, 1.0))


def shade_levels(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the shade of each busy share, 0 to 4.

    Anything above nothing is seen, and only all of it is a full block.
    """
    full = len(_SHADES) - 1
    # Sums of cycles carry rounding errors far below a cycle's share of a column.
    part = np.clip(np.ceil(shares * full - 1e-9), 0, full - 1)
    return np.where(shares >= 1 - 1e-9, full, part).astype(np.int64)


def columns_of(width: int) -> int:
    """Return the columns that the chart itself takes of ``width``."""
    return max(width - _NAME - _TAIL - 2, 8)


def timeline(
    session: Session,
    low: int,
    high: int,
    width: int,
    *,
    cycle: int | None = None,
    chart: Busy | None = None,
) -> list[Line]:
    """Return a line an engine, a scale, and a mark under ``cycle``.

    Shades say how busy an engine is in a column's slice of time (``█`` all of it,
    blank not at all); the figure on the right is its share of what is shown.

    Args:
        session: The record.
        low: First cycle shown.
        high: Cycle after the last one shown.
        width: Columns.
        cycle: Where the cursor stands.
        chart: What :func:`busy` returned for this range and :func:`columns_of` ``width``.
    """
    columns = columns_of(width)
    chart = chart or busy(session, low, high, columns)
    lines = []
    for engine, name in enumerate(session.meta.engines or ("-",)):
        shares = chart.share[engine]
        level = shade_levels(shares)
        bar = "".join(_SHADES[i] for i in level)
        lines.append(
            fit(
                line(
                    (left(safe(name, 12), _NAME), "key"),
                    ("│", "dim"),
                    (bar, "number"),
                    ("│", "dim"),
                    (f"{numbers.share(float(chart.total[engine]), 1.0):>{_TAIL}}", ""),
                ),
                width,
            )
        )
    lines.append(fit(_cursor_line(chart.low, chart.high, columns, cycle), width))
    lines.append(fit(_scale(session, chart.low, chart.high, columns), width))
    return lines


def _cursor_line(low: int, high: int, columns: int, cycle: int | None) -> Line:
    if cycle is None or not low <= cycle < high:
        return line("")
    at = min((cycle - low) * columns // (high - low), columns - 1)
    text = f"▲ {cycle:,}"
    if at + len(text) > columns:
        text = f"{cycle:,} ▲"
        at = max(at - len(text) + 1, 0)
    return Line((Span(" " * (_NAME + 1 + at)), Span(text, "current")))


def _scale(session: Session, low: int, high: int, columns: int) -> Line:
    first, last = f"{low:,}", f"{high:,}"
    middle = f"{high - low:,} cycles shown, {origin_of(session)}"
    if len(first) + len(last) + len(middle) + 4 > columns:
        middle = ""
    gap = columns - len(first) - len(last) - len(middle)
    text = first + " " * (gap // 2) + middle + " " * (gap - gap // 2) + last
    return Line((Span(" " * (_NAME + 1)), Span(text, "dim")))


def _accumulate(rows: Rows, low: int, high: int, edges: npt.NDArray[np.float64]) -> None:
    """Add each row's busy time at the column boundaries (a running sum of coverage).

    ``edges[e, i]`` becomes the cycles that engine ``e`` was busy up to the end of
    column ``i``: exact, whatever a command's length, without a loop over columns.
    """
    engines, columns = edges.shape[0], edges.shape[1] - 1
    step = (high - low) / columns
    bounds = low + step * np.arange(1, columns + 1)
    for engine in range(engines):
        mine = rows[rows["engine"] == engine]
        if not len(mine):
            continue
        start = np.sort(np.maximum(mine["start"], low).astype(np.float64))
        end = np.sort(np.minimum(mine["end"], high).astype(np.float64))
        sums_start = np.concatenate(([0.0], np.cumsum(start)))
        sums_end = np.concatenate(([0.0], np.cumsum(end)))
        begun = np.searchsorted(start, bounds, side="left")
        ended = np.searchsorted(end, bounds, side="left")
        # Coverage up to b: sum over begun of (min(end, b) - start).
        edges[engine, :columns] += sums_end[ended] + (begun - ended) * bounds - sums_start[begun]


def _range(session: Session, low: int, high: int) -> tuple[int, int]:
    """Return the commands that may touch ``[low, high)``.

    Nodes that ended before, or begin after, bound the search; commands of no node
    (flushes, copies by the host) lie between theirs and are kept.
    """
    before, after = 0, session.n_commands
    ran = [n for n in session.nodes if n.first_seq >= 0]
    hit = [n for n in ran if n.end > low and n.start < high]
    if hit:
        before = max((n.last_seq + 1 for n in ran if n.end <= low), default=0)
        after = min((n.first_seq for n in ran if n.start >= high), default=after)
        before = min(before, *(n.first_seq for n in hit))
        after = max(after, *(n.last_seq + 1 for n in hit))
    return before, after
