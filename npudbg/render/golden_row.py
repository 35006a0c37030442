"""One tensor of a golden comparison in full: both modes side by side, its worst channels."""

from __future__ import annotations

import math

from npudbg.render import numbers
from npudbg.render.commands import origin_of
from npudbg.render.fit import cut_middle, fit, left, wrapped
from npudbg.render.golden import cosine, decibel, short
from npudbg.session.golden import ChannelCloseness, Closeness, GoldenRecord, GoldenRow
from npudbg.session.lines import Line, Span, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Subject
from npudbg.session.text import safe

_HEAD = (
    f"  {'':<7}{'max abs':>9}{'max rel':>9}{'cosine':>10}{'SNR dB':>8}{'euclid':>10}"
    f"{'mismatches':>12}{'NaN/Inf':>9}"
)

_SIDE = 38
"""Columns of one mode's worst channels."""


def golden_detail(session: Session, record: GoldenRecord, row: GoldenRow, width: int) -> list[Line]:
    """Return a tensor's metrics by mode, why it differs, its tolerance and worst channels.

    Args:
        session: The record of the run.
        record: Its golden comparison.
        row: The tensor.
        width: Columns.
    """
    style: Style = "error" if row.differs else "ok"
    lines = [fit(_title(session, row), width)]
    state = "beyond tolerance" if row.differs else "within tolerance"
    why = ": ".join(part for part in (row.reason, safe(row.told, 400)) if part)
    lines += wrapped(f"{state}; {why}" if why else state, width, style, lead="  ")
    lines.append(fit(line((_HEAD, "dim")), width))
    for mode, found in (("entire", row.entire), ("single", row.single)):
        lines.append(fit(_mode(mode, found, record.mode), width))
    lines += _limits(row, width)
    lines += _channels(row, width)
    how = {True: ", optimised", False: ", not optimised", None: ""}[record.optimised]
    lines += wrapped(
        f"{safe(record.what, 200)}, {record.origin}{how}; the run is {origin_of(session)}",
        width,
        "dim",
        lead="  golden  ",
    )
    subject = subject_of(row)
    return [Line(each.spans, each.subject or subject) for each in lines]


def subject_of(row: GoldenRow, seq: int | None = None) -> Subject:
    """Return the tensor of a row as a subject, with the command that wrote it where given."""
    return Subject(
        kind="tensor",
        name=safe(row.name),
        tensor=row.tensor,
        node=row.node if row.node >= 0 else None,
        seq=seq,
    )


def first_mismatch(row: GoldenRow) -> tuple[int, ...] | None:
    """Return the coordinates of the first mismatching element in C order; None without any."""
    found = row.entire or row.single
    if found is None or not 0 <= found.first < math.prod(row.shape):
        return None
    where, rest = [], found.first
    for size in reversed(row.shape):
        rest, at = divmod(rest, size)
        where.append(at)
    return tuple(reversed(where))


def _title(session: Session, row: GoldenRow) -> Line:
    made = ""
    if 0 <= row.node < len(session.nodes):
        node = session.nodes[row.node]
        made = f"  made by {safe(node.op_type, 24)} {safe(node.label, 200)}"
    return line(
        (cut_middle(safe(row.name, 400), 60), "title"),
        f"  {numbers.shape(row.shape)} {safe(row.dtype, 16)}  {row.role}{made}",
    )


def _mode(name: str, found: Closeness | None, made: str) -> Line:
    lead = Span(f"  {left(name, 7)}", "key")
    if found is None:
        what = "not compared" if made in (name, "both") else f"--golden-mode {name} or both"
        return Line((lead, Span(f"{what:>9}", "dim")))
    text = (
        f"{short(found.max_abs):>9}{short(found.max_rel):>9}{cosine(found.cosine):>10}"
        f"{decibel(found.snr):>8}{short(found.euclidean):>10}{found.mismatches:>12,}"
        f"{found.nonfinite:>9,}"
    )
    return Line((lead, Span(text, "number")))


def _channels(row: GoldenRow, width: int) -> list[Line]:
    """Return the worst channels, those of both modes beside each other."""
    sides = [
        (mode, found)
        for mode, found in (("entire", row.entire), ("single", row.single))
        if found is not None and found.channels
    ]
    if not sides:
        return []
    head = "".join(
        left(f"{f'  worst {mode}':<14} {'max abs':>8}{'SNR dB':>8}", _SIDE) for mode, _ in sides
    )
    lines = [fit(line((head.rstrip(), "dim")), width)]
    for at in range(max(len(found.channels) for _, found in sides)):
        cells = [
            _channel(found.channels[at], found.channel_axis or 0)
            if at < len(found.channels)
            else ""
            for _, found in sides
        ]
        text = "".join(left(cell, _SIDE) for cell in cells)
        lines.append(fit(line((text.rstrip(), "number")), width))
    return lines


def _channel(found: ChannelCloseness, axis: int) -> str:
    """Return a channel as the index that picks it, its figures, and whether it is constant."""
    where = f"[{':,' * axis}{found.index}]"
    off = f"{found.lost:,} lost" if found.lost else short(found.max_abs)
    text = f"{where:>14} {off:>8}{decibel(found.snr):>8}"
    return f"{text} const" if found.constant else text


def _limits(row: GoldenRow, width: int) -> list[Line]:
    found = row.entire or row.single
    if found is None:
        return []
    text = f"|got - golden| <= {found.atol:.3g} + {found.rtol:.3g} |golden|"
    where = first_mismatch(row)
    if where is not None:
        text += f"; first mismatch [{','.join(map(str, where))}]"
    if found.argmax_equal is not None:
        text += f"; the same class wins in {found.argmax_equal:.2%} of rows"
    return wrapped(text, width, "dim", lead="  wanted  ")
