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
_LEVEL = 11


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
    lines = [
        fit(
            line(("golden", "title"), f"  {safe(record.what, 120)}", (f"  {origin}", "dim")), width
        ),
        golden_summary(record, width),
    ]
    both = any(r.single is not None for r in record.rows)
    chosen = _chosen(record, limit)
    if chosen:
        lines.append(golden_header(width, both=both))
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
    parts = [f"euclidean {short(found.euclidean)}"] if found.euclidean else []
    if found.channel >= 0:
        level = "" if found.channel_snr is None else f", {found.channel_snr:.1f} dB"
        parts.append(
            f"worst channel {found.channel} of axis {found.channel_axis}: off by up to "
            f"{short(found.channel_max_abs)}{level}"
        )
    if found.argmax_equal is not None:
        parts.append(f"the same class wins in {found.argmax_equal:.2%} of rows")
    if not parts:
        return []
    return wrapped(f"{safe(row.name, 60)}: {'; '.join(parts)}", width, "dim", lead="  output ")


def golden_line(
    row: GoldenRow, width: int, *, both: bool = False, level: bool = False, first: bool = False
) -> Line:
    """Return one tensor's metrics as a line.

    Args:
        row: The tensor.
        width: Columns.
        both: Leave room for the metrics of single mode.
        level: Leave room for its signal to noise alone.
        first: It is the first that differs.
    """
    style: Style = "error" if row.differs else ""
    mark = ">" if first else "!" if row.differs else " "
    room = max(width - _COLUMNS - _more(both, level) - 3, 9)
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
    elif level:
        alone = None if row.single is None else row.single.snr
        spans.append(Span(f"{decibel(alone):>{_LEVEL}}", "number"))
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


def golden_summary(record: GoldenRecord, width: int) -> Line:
    """Return how many tensors differ, and which one is the first."""
    if not record.compared:
        return fit(line(("  no tensor was compared", "warn")), width)
    good: Style = "ok" if record.first < 0 else "error"
    count = f"{record.differing} of {record.compared} tensors beyond tolerance"
    return fit(line((f"  {count}", good), *_first(record)), width)


def _first(record: GoldenRecord) -> tuple[Span, ...]:
    if not 0 <= record.first < len(record.rows):
        return ()
    row = record.rows[record.first]
    reason = f" ({row.reason})" if row.reason else ""
    return (Span(f"; first {safe(row.name, 80)}{reason}", "error"),)


def golden_header(width: int, *, both: bool = False, level: bool = False) -> Line:
    """Return the column names of :func:`golden_line`."""
    names = f"{'max abs':>10}{'max rel':>10}{'cosine':>10}{'SNR dB':>7}{'differ':>10}"
    if both:
        names += f"{'single abs':>13}{'cos':>11}"
    elif level:
        names += f"{'single dB':>{_LEVEL}}"
    room = max(width - _COLUMNS - _more(both, level) - 1, 11)
    order = "  tensor (execution order)"
    title = order if len(order) < room else "  tensor"
    return fit(line((left(title, room) + names, "dim")), width)


def _more(both: bool, level: bool) -> int:
    return _SINGLE if both else _LEVEL if level else 0


def _metrics(found: Closeness) -> str:
    return (
        f"{short(found.max_abs):>10}{short(found.max_rel):>10}{cosine(found.cosine):>10}"
        f"{decibel(found.snr):>7}{_count(found):>10}"
    )


def _brief(found: Closeness | None) -> str:
    if found is None:
        return f"{'-':>13}{'-':>11}"
    return f"{short(found.max_abs):>13}{cosine(found.cosine):>11}"


def _count(found: Closeness) -> str:
    return numbers.share(found.mismatches, found.count) if found.mismatches else "."


def short(number: float) -> str:
    """Return a difference in three digits."""
    return numbers.value(float(number), 3) if number else "0"


def cosine(value: float | None) -> str:
    """Return a cosine in six places; ``-`` for none."""
    # Cut, not rounded: only what is equal may read 1.
    return "-" if value is None else f"{math.trunc(value * 1e6) / 1e6:.6f}"


def decibel(value: float | None) -> str:
    """Return a signal to noise in dB, ``equal`` without noise; ``-`` for none."""
    if value is None:
        return "-"
    if math.isinf(value) and value > 0:
        return "equal"
    return f"{round(value, 1) + 0.0:.1f}"  # no minus before a zero


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
