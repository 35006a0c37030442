"""The DMA queue: each channel's transfers in order, with what they cost and hide."""

from __future__ import annotations

import numpy as np

from npudbg.render import numbers
from npudbg.render.commands import engine_name, origin_of, what
from npudbg.render.dma_channels import SMALL, Channel, Queue, queue_of
from npudbg.render.fit import cells, cut_middle, fit, left, wrapped
from npudbg.session.commands import Status, kind_name
from npudbg.session.lines import Line, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Subject
from npudbg.session.text import safe
from npudbg.targets.profile import Target

_ADDRESSED = 24
"""Columns in which a transfer's kind, address and size are told."""


def dma_lines(
    session: Session,
    low: int,
    high: int,
    width: int,
    *,
    target: Target | None = None,
    at: int | None = None,
    most: int = 12,
    queue: Queue | None = None,
) -> list[Line]:
    """Return a summary of each channel, then its transfers around the cursor.

    Args:
        session: The record.
        low: First command shown.
        high: Command after the last one shown.
        width: Columns of text.
        target: The profile: what a channel can move, and when its load is dangerous.
        at: Cursor's command; None shows the first transfers.
        most: Transfers shown a channel.
        queue: What :func:`~npudbg.render.dma_channels.queue_of` returned for the range.
    """
    queue = queue_of(session, low, high) if queue is None else queue
    low, high = max(low, 0), min(high, session.n_commands)
    lines = [
        line(
            ("DMA", "title"),
            f" in commands {low}..{max(high - 1, low)}, {numbers.cycles(queue.cycles)}",
            (f"  {origin_of(session)}", "dim"),
        )
    ]
    if not queue.channels:
        return [fit(each, width) for each in (*lines, line(("no transfers here", "dim")))]
    lines += channel_lines(session, queue, width, target=target)
    lines += wrapped(_legend(target), width, "dim")
    for channel in queue.channels:
        lines += _transfers(session, channel, width, at, most)
    return [fit(each, width) for each in lines]


def channel_lines(
    session: Session, queue: Queue, width: int, *, target: Target | None = None
) -> list[Line]:
    """Return column names, then what each channel moved, how busy and how idle it was."""
    lines = [line((_HEAD, "dim"))]
    lines += [_summary(session, each, queue, target) for each in queue.channels]
    return [fit(each, width) for each in lines]


def transfer_header(session: Session, width: int, *, named: bool = False) -> Line:
    """Return the column names of :func:`transfer_line`."""
    wide = _digits(session)
    name = f"{'channel':<8}" if named else ""
    head = f"  {'seq':>{wide}} {name}{'cycle':>10} {'idle':>7} {'cycles':>7} {'bytes':>9}"
    return fit(line((f"{head} {'B/cyc':>6}  transfer", "dim")), width)


def transfer_line(
    session: Session,
    channel: Channel,
    place: int,
    width: int,
    *,
    current: bool = False,
    named: bool = False,
) -> Line:
    """Return one transfer of a channel: when, after how long an idle, at which rate, what.

    Args:
        session: The record.
        channel: The channel.
        place: Which of its transfers.
        width: Columns.
        current: It is the one at the cursor.
        named: Name the channel, for lists of more than one.
    """
    wide = _digits(session)
    row, size, idle = channel.rows[place], int(channel.nbytes[place]), int(channel.idle[place])
    cost = int(row["end"]) - int(row["start"])
    seq, status = int(row["seq"]), int(row["status"])
    bad = status in (Status.HUNG, Status.FAULT)
    mark = "!" if bad else "*" if status == Status.TOUCHED else "s" if size < SMALL else " "
    style: Style = "error" if bad else "changed" if mark == "*" else "warn"
    room = max(width - wide - (56 if named else 48), 12)
    # Half an address tells nothing; a name does.
    text = what(session, row, room)
    if room < _ADDRESSED:
        text = f"{kind_name(row['kind']).removeprefix('DMA_'):<5} "
        text += cut_middle(_name(session, row), room - cells(text))
    return fit(
        line(
            (">" if current else " ", "current"),
            (mark, style),
            (f"{seq:>{wide}} ", "number"),
            (f"{engine_name(session, row):<8}" if named else "", "key"),
            (f"{int(row['start']):>10,} ", "dim"),
            (f"{idle:>7,} " if idle else f"{'':>7} ", "dim"),
            f"{cost:>7,} {numbers.nbytes(size):>9} {_rate(size, cost):>6}  ",
            text,
            subject=Subject(kind="command", name=_name(session, row), seq=seq),
        ),
        width,
    )


_HEAD = (
    f"{'channel':<8}{'moves':>7}{'bytes':>10}{'busy':>7}{'B/cyc':>7}"
    f"{'<1 KiB':>8}{'hidden':>8}{'idle':>7}  longest gap"
)


def _summary(session: Session, channel: Channel, queue: Queue, target: Target | None) -> Line:
    rows, count = channel.rows, len(channel.rows)
    load: tuple[str, Style] = (f"{numbers.share(channel.busy, queue.cycles):>7}", "")
    limit = target.thresholds.get("dma_saturation") if target is not None else None
    if limit is not None and queue.cycles:
        share = channel.busy / queue.cycles
        mark, style = _judged(share, limit.healthy, limit.dangerous)
        load = (f"{mark}{numbers.share(channel.busy, queue.cycles)}".rjust(7), style)
    longest = int(channel.idle.argmax())
    gap = int(channel.idle[longest])
    idle = int(channel.idle.sum())
    where = f"{gap:,} to {int(rows['seq'][longest])}" if gap else "none"
    return line(
        (left(engine_name(session, rows[0]), 8), "key"),
        (f"{count:>7,}", "number"),
        f"{numbers.nbytes(channel.total):>10}",
        load,
        f"{_rate(channel.total, channel.busy):>7}",
        (f"{numbers.share(channel.small, count):>8}", "warn" if 2 * channel.small > count else ""),
        f"{numbers.share(channel.covered, channel.busy):>8}",
        f"{numbers.share(idle, queue.cycles):>7}",
        (f"  {where}", "dim"),
        subject=Subject(kind="command", seq=int(rows["seq"][longest])),
    )


def _judged(share: float, healthy: float, dangerous: float) -> tuple[str, Style]:
    """Return a mark and its meaning: ``!`` above what the profile calls dangerous."""
    if share > dangerous:
        return "!", "error"
    return ("~", "warn") if share > healthy else ("", "ok")


def _legend(target: Target | None) -> str:
    text = (
        "busy: saturation; hidden: of busy cycles, those beside a kernel; longest gap: cycles, "
        "and the command that ended it"
    )
    limit = target.thresholds.get("dma_saturation") if target is not None else None
    if limit is not None:
        text += f"; ~ above {limit.healthy:.0%}, ! above {limit.dangerous:.0%}"
    if target is not None:
        text += f"; a channel moves {target.dma.bytes_per_cycle:g} B/cyc at most"
    return text


def _transfers(
    session: Session, channel: Channel, width: int, at: int | None, most: int
) -> list[Line]:
    rows = channel.rows
    first, current = 0, -1
    if at is not None:
        # The last transfer up to the cursor stands in the middle.
        upto = np.flatnonzero(rows["seq"] <= at)
        current = int(upto[-1]) if len(upto) else -1
        first = min(max(current - most // 2, 0), max(len(rows) - most, 0))
    lines = [
        line((f"{engine_name(session, rows[0])}", "title")),
        transfer_header(session, width),
    ]
    for place in range(first, min(first + most, len(rows))):
        lines.append(transfer_line(session, channel, place, width, current=place == current))
    hidden = len(rows) - min(first + most, len(rows))
    before = f"{first:,} before, " if first else ""
    if first or hidden:
        lines.append(line((f"  … {before}{hidden:,} after", "dim")))
    return lines


def _digits(session: Session) -> int:
    return max(len(str(session.n_commands)), 5)


def _rate(nbytes: int, cycles: int) -> str:
    return f"{nbytes / cycles:.1f}" if cycles > 0 else "-"


def _name(session: Session, row: np.void) -> str:
    number = int(row["tensor"])
    return safe(session.tensors[number].name) if 0 <= number < len(session.tensors) else ""
