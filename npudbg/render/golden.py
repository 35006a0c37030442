"""The golden table: each tensor's distance from what it should have been, side by side."""

from __future__ import annotations

import math

import msgspec

from npudbg.render import numbers
from npudbg.render.fit import cut_middle, fit, left, wrapped
from npudbg.session.golden import KEY, Closeness, GoldenRecord, GoldenRow
from npudbg.session.lines import Line, Span, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Subject
from npudbg.session.text import safe

_SHOWN = 60
_AROUND = 12
_COLUMNS = 47
_SINGLE = 24


def golden_record(session: Session) -> GoldenRecord | None:
    """Return a session's golden comparison; None if it has none that can be read."""
    stored = session.extra(KEY)
    if stored is None:
        return None
    try:
        return msgspec.convert(stored, GoldenRecord)
    except (msgspec.ValidationError, RecursionError):
        return None


def golden_lines(session: Session, width: int, *, limit: int = _SHOWN) -> list[Line]:
    """Return the golden comparison of a session, or nothing where it has none.

    Args:
        session: The record.
        width: Columns.
        limit: Most tensors listed; those that differ, the first of them and what lies
            before it are kept when some must go.
    """
    record = golden_record(session)
    if record is None:
        return []
    how = {True: "optimised", False: "not optimised", None: ""}[record.optimised]
    origin = record.origin + (f", {how}" if how else "")
    good: Style = "ok" if record.first < 0 else "error"
    count = f"{record.differing} of {record.compared} tensors beyond tolerance"
    lines = [
        fit(
            line(("golden", "title"), f"  {safe(record.what, 120)}", (f"  {origin}", "dim")), width
        ),
        fit(line((f"  {count}", good), *_first(record)), width),
    ]
    both = any(r.single is not None for r in record.rows)
    chosen = _chosen(record, limit)
    if chosen:
        lines.append(_header(width, both))
    before = -1
    for at in chosen:
        if at != before + 1:
            lines.append(line((f"   … {at - before - 1} within tolerance", "dim")))
        lines.append(golden_line(record.rows[at], width, both=both, first=at == record.first))
        before = at
    hidden = len(record.rows) - 1 - before + record.left_off
    if hidden > 0:
        lines.append(line((f"   … {hidden} more", "dim")))
    if 0 <= record.first < len(record.rows) and record.rows[record.first].told:
        row = record.rows[record.first]
        lines += wrapped(f"{row.reason}: {safe(row.told, 400)}", width, lead="  why    ")
    for row in record.rows:
        lines += _closer(row, width)
    if record.unmatched:
        names = ", ".join(safe(n, 40) for n in record.unmatched[:6])
        more = len(record.unmatched) - 6
        names += f" and {more} more" if more > 0 else ""
        lines += wrapped(
            f"golden names that the run does not have: {names}", width, "dim", lead="  "
        )
    for note in record.notes[:8]:
        lines += wrapped(safe(note, 400), width, "dim", lead="  note: ")
    return lines


def _closer(row: GoldenRow, width: int) -> list[Line]:
    """Return the worst channel and the winning classes of an output, where either is known."""
    found = row.entire
    if found is None or row.role != "output":
        return []
    parts = [f"euclidean {_short(found.euclidean)}"] if found.euclidean else []
    if found.channel >= 0:
        level = "" if found.channel_snr is None else f", {found.channel_snr:.1f} dB"
        parts.append(
            f"worst channel {found.channel} of axis {found.channel_axis}: off by up to "
            f"{_short(found.channel_max_abs)}{level}"
        )
    if found.argmax_equal is not None:
        parts.append(f"the same class wins in {found.argmax_equal:.2%} of rows")
    if not parts:
        return []
    return wrapped(f"{safe(row.name, 60)}: {'; '.join(parts)}", width, "dim", lead="  output ")


def golden_line(row: GoldenRow, width: int, *, both: bool = False, first: bool = False) -> Line:
    """Return one tensor's metrics as a line.

    Args:
        row: The tensor.
        width: Columns.
        both: Leave room for the metrics of single mode.
        first: It is the first that differs.
    """
    style: Style = "error" if row.differs else ""
    mark = ">" if first else "!" if row.differs else " "
    room = max(width - _COLUMNS - (_SINGLE if both else 0) - 3, 9)
    spans: list[Span] = [
        Span(f"{mark} ", style),
        Span(left(cut_middle(safe(row.name, 400), room), room), style),
    ]
    if row.entire is None:
        text = "shape" if row.reason == "shape" else "-"
        spans.append(Span(f"{text:>{_COLUMNS}}", style or "dim"))
    else:
        spans.append(Span(_metrics(row.entire), style or "number"))
    if both:
        spans.append(Span(_brief(row.single), "number"))
    return fit(
        Line(
            tuple(spans),
            Subject(
                kind="tensor",
                name=safe(row.name),
                tensor=row.tensor,
                node=row.node if row.node >= 0 else None,
            ),
        ),
        width,
    )


def _first(record: GoldenRecord) -> tuple[Span, ...]:
    if not 0 <= record.first < len(record.rows):
        return ()
    row = record.rows[record.first]
    reason = f" ({row.reason})" if row.reason else ""
    return (Span(f"; first {safe(row.name, 80)}{reason}", "error"),)


def _header(width: int, both: bool) -> Line:
    names = f"{'max abs':>10}{'max rel':>10}{'cosine':>10}{'SNR dB':>7}{'differ':>10}"
    if both:
        names += f"{'single abs':>13}{'cos':>11}"
    room = max(width - _COLUMNS - (_SINGLE if both else 0) - 1, 11)
    return fit(line((left("  tensor (execution order)", room) + names, "dim")), width)


def _metrics(found: Closeness) -> str:
    return (
        f"{_short(found.max_abs):>10}{_short(found.max_rel):>10}{_cosine(found.cosine):>10}"
        f"{_decibel(found.snr):>7}{_count(found):>10}"
    )


def _brief(found: Closeness | None) -> str:
    if found is None:
        return f"{'-':>13}{'-':>11}"
    return f"{_short(found.max_abs):>13}{_cosine(found.cosine):>11}"


def _count(found: Closeness) -> str:
    return numbers.share(found.mismatches, found.count) if found.mismatches else "."


def _short(number: float) -> str:
    return numbers.value(float(number), 3) if number else "0"


def _cosine(value: float | None) -> str:
    # Cut, not rounded: only what is equal may read 1.
    return "-" if value is None else f"{math.trunc(value * 1e6) / 1e6:.6f}"


def _decibel(value: float | None) -> str:
    if value is None:
        return "-"
    return "equal" if math.isinf(value) and value > 0 else f"{value:.1f}"


def _chosen(record: GoldenRecord, limit: int) -> list[int]:
    """Return which rows are listed: all, or those nearest to what differs."""
    rows = record.rows
    if len(rows) <= limit:
        return list(range(len(rows)))
    start = max(record.first - _AROUND, 0) if record.first >= 0 else 0
    picked = list(range(start, len(rows)))[: limit // 2]
    have = set(picked)
    wanted = [n for n, r in enumerate(rows) if r.differs or r.role == "output"]
    picked += [n for n in wanted if n not in have][: limit - len(picked)]
    return sorted(picked)
