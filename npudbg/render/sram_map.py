"""SRAM over time: a map of addresses by commands or cycles, lifetimes, and what lies where."""

from __future__ import annotations

import numpy as np

from npudbg.render import numbers, sram_slots
from npudbg.render.commands import box_text, origin_of
from npudbg.render.fit import cut_middle, fit, left
from npudbg.render.sram_slots import Axis, Ints, Slots
from npudbg.session.lines import Line, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Subject
from npudbg.session.text import safe

SHADES = " ░▒▓█"
_ADDRESS = 11
_MOST_OVERLAPS = 4
_MOST_ADDRESS = 1 << 62


def sram_lines(
    session: Session,
    low: int,
    high: int,
    width: int,
    *,
    axis: Axis = "command",
    at: int | None = None,
    rows: int = 16,
    most: int = 24,
    slots: Slots | None = None,
) -> list[Line]:
    """Return the map, the peak, overlaps, lifetimes, and a table of what lies where.

    Args:
        session: The record.
        low: First command shown.
        high: Command after the last one shown.
        width: Columns of text.
        axis: Whether the map's columns are commands or cycles.
        at: Cursor's command; None stands at the peak.
        rows: Rows of the map.
        most: Lines of the lifetimes and of the table.
        slots: What :func:`~npudbg.render.sram_slots.slots_of` returned for the session.
    """
    slots = sram_slots.slots_of(session) if slots is None else slots
    low, high = max(low, 0), min(high, session.n_commands)
    title = line(
        ("SRAM", "title"),
        f" over commands {low}..{max(high - 1, low)}",
        (f"  {origin_of(session)}", "dim"),
    )
    if not len(slots.within("command", low, high)):
        return [fit(each, width) for each in (title, line(("no command writes SRAM here", "dim")))]
    top = sram_slots.peak(slots, "command", low, high)
    at = top.at if at is None else min(max(at, 0), session.n_commands - 1)
    time = (low, high) if axis == "command" else _cycles(session, low, high)
    lines = [title, *_map(session, slots, axis, time, at, rows, width)]
    lines += _figures(session, slots, low, high, at, top)
    lines += _lifetimes(session, slots, axis, time, width, most)
    lines += table(session, at, width, most=most, slots=slots)
    return [fit(each, width) for each in lines]


def table(
    session: Session, at: int, width: int, *, most: int = 24, slots: Slots | None = None
) -> list[Line]:
    """Return what lies in SRAM after command ``at``: range, bytes, tensor, box, writer, use.

    Args:
        session: The record.
        at: The cursor's command.
        width: Columns of text.
        most: Most rows; ranges still to be read come before dead ones.
        slots: What :func:`~npudbg.render.sram_slots.slots_of` returned for the session.
    """
    slots = sram_slots.slots_of(session) if slots is None else slots
    parts = sram_slots.lying(slots, at)
    parts.sort(key=lambda part: (bool(slots.last[part.slot] < at), part.low))
    lines = [
        line((f"in SRAM after command {at}", "title")),
        line((f"  {'address':<21} {'bytes':>9} {'writer':>8}  {'use':<16} tensor", "dim")),
    ]
    for part in parts[:most]:
        writer, last = int(slots.seq[part.slot]), int(slots.last[part.slot])
        use, style = _use(writer, last, at, int(slots.readers[part.slot]))
        row = session.command(writer)
        room = max(width - 61, 12)
        what = cut_middle(_name(session, int(slots.tensor[part.slot])), room)
        lines.append(
            line(
                "  ",
                (f"{numbers.address(part.low)}-{numbers.address(part.high)}", "address"),
                (f" {part.high - part.low:>9,}", "number"),
                f" {writer:>8}  ",
                (f"{use:<16} ", style),
                what,
                (f" {box_text(session, row)}", "dim"),
                subject=Subject(kind="command", seq=writer),
            )
        )
    if not parts:
        lines.append(line(("  nothing was written yet", "dim")))
    if len(parts) > most:
        lines.append(line((f"  … {len(parts) - most:,} more", "dim")))
    return [fit(each, width) for each in lines]


def capacity(session: Session, slots: Slots) -> tuple[int, int, bool]:
    """Return SRAM's first address, the one after the last, and whether the record says so.

    Where it does not, what was used is taken.
    """
    for region in session.meta.regions:
        if region.space == "sram" and 0 <= region.base < _MOST_ADDRESS and region.nbytes > 0:
            return region.base, min(region.base + region.nbytes, _MOST_ADDRESS), True
    if not len(slots):
        return 0, 0, False
    return int(slots.low.min()), int(slots.high.max()), False


def _map(
    session: Session,
    slots: Slots,
    axis: Axis,
    time: tuple[int, int],
    at: int,
    rows: int,
    width: int,
) -> list[Line]:
    columns = max(width - _ADDRESS - 2, 8)
    base, end, _ = capacity(session, slots)
    base, used = min(base, int(slots.low.min())), int(slots.high.max())
    span = max(used - base, 1)
    rows = max(min(rows, span), 1)
    shares = sram_slots.occupancy(slots, axis, time, (base, base + span), rows, columns)
    # Anything above nothing is seen, and only all of it is a full block.
    level = np.clip(np.ceil(shares * (len(SHADES) - 1) - 1e-9), 0, len(SHADES) - 2).astype(int)
    level[shares >= 1 - 1e-9] = len(SHADES) - 1
    lines = [
        line(
            (f"{numbers.address(base + row * span // rows):<{_ADDRESS}}", "address"),
            ("│", "dim"),
            ("".join(SHADES[i] for i in level[row]), "number"),
            ("│", "dim"),
        )
        for row in range(rows)
    ]
    moment = at if axis == "command" else int(session.command(at)["start"])
    if time[0] <= moment < time[1]:
        place = min((moment - time[0]) * columns // max(time[1] - time[0], 1), columns - 1)
        lines.append(line(" " * (_ADDRESS + 1 + place), ("▲", "current")))
    first, last = f"{time[0]:,}", f"{time[1]:,}"
    gap = max(columns - len(first) - len(last), 1)
    unit = "commands" if axis == "command" else "cycles"
    lines.append(line((f"{unit:<{_ADDRESS}} {first}{' ' * gap}{last}", "dim")))
    if used < end:
        lines.append(
            line((f"{numbers.address(used)}-{numbers.address(end)} is never written", "dim"))
        )
    return lines


def _figures(
    session: Session, slots: Slots, low: int, high: int, at: int, top: sram_slots.Peak
) -> list[Line]:
    base, end, known = capacity(session, slots)
    size = end - base
    of = f", {numbers.share(top.nbytes, size)} of {numbers.nbytes(size)}" if known else ""
    lines = [
        line(
            ("peak ", "key"), f"{top.nbytes:,} B live at command {top.at}{of}",
            subject=Subject(kind="command", seq=top.at),
        )
    ]  # fmt: skip
    alive = sram_slots.living(slots, "command", at)
    holes = sram_slots.gaps(slots, alive, base, end)
    free = sum(b - a for a, b in holes)
    largest = max((b - a for a, b in holes), default=0)
    text = f"{numbers.nbytes(free)} in {len(holes)} gap{'s' if len(holes) != 1 else ''}, the "
    text += f"largest {numbers.nbytes(largest)}"
    text += f" ({numbers.share(largest, free)} of it)" if free else ""
    where = "" if known else ", of the range that was used"
    lines.append(line(("free ", "key"), f"at command {at}: {text}{where}"))
    return lines + _overlaps(session, slots, low, high)


def _overlaps(session: Session, slots: Slots, low: int, high: int) -> list[Line]:
    found = sram_slots.overlaps(slots, low, high)
    count = len(found.pairs)
    if not count:
        text = "none" if found.complete else "none found, not all were looked at"
        return [line(("overlaps ", "key"), (text, "ok" if found.complete else "warn"))]
    more = "" if found.complete else " at least"
    text = f"{count:,}{more}: written into while still to be read"
    lines = [line(("overlaps ", "key"), (text, "error"))]
    for first, other in found.pairs[:_MOST_OVERLAPS].tolist():
        a = max(int(slots.low[first]), int(slots.low[other]))
        b = min(int(slots.high[first]), int(slots.high[other]))
        writer = int(slots.seq[other])
        lines.append(
            line(
                f"  command {writer} wrote {b - a:,} B at ",
                (numbers.address(a), "address"),
                f" of {cut_middle(_name(session, int(slots.tensor[first])), 40)}, put there by "
                f"command {int(slots.seq[first])} and read until {int(slots.last[first])}",
                subject=Subject(kind="command", seq=writer),
            )
        )
    return lines


def _lifetimes(
    session: Session, slots: Slots, axis: Axis, time: tuple[int, int], width: int, most: int
) -> list[Line]:
    """Return a bar a place: where a tensor lay, and when it was live there."""
    chosen = slots.within(axis, *time)
    keys = np.stack((slots.low[chosen], slots.high[chosen], slots.tensor[chosen]), axis=1)
    places, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.reshape(-1)
    born, died = slots.lives(axis)
    lived = np.minimum(died[chosen], time[1]) - np.maximum(born[chosen], time[0])
    weight = np.bincount(which, lived * (slots.high - slots.low)[chosen].astype(np.float64))
    largest = np.sort(np.argsort(-weight, kind="stable")[:most])
    names = min(max(width // 3, 12), 40)
    columns = max(width - names - 26, 8)
    lines = [line(("lifetimes", "title"), ("  bytes by time, largest first chosen", "dim"))]
    for place in largest.tolist():
        low, high, tensor = places[place].tolist()
        mine: Ints = chosen[which == place]
        bar = _bar(born[mine], died[mine], time, columns)
        lines.append(
            line(
                (f"  {numbers.address(low)} ", "address"),
                (f"{numbers.nbytes(high - low):>9} ", "number"),
                left(cut_middle(_name(session, tensor), names), names),
                ("│", "dim"),
                (bar, "number"),
                ("│", "dim"),
                subject=_tensor_subject(session, tensor),
            )
        )
    if len(places) > most:
        lines.append(line((f"  … {len(places) - most:,} more places", "dim")))
    return lines


def _bar(born: Ints, died: Ints, time: tuple[int, int], columns: int) -> str:
    """Return a column for each slice of time, filled where any of the lives touches it."""
    span = max(time[1] - time[0], 1)
    first = np.clip((born - time[0]) * columns // span, 0, columns - 1)
    last = np.clip((np.maximum(died - 1, born) - time[0]) * columns // span, 0, columns - 1)
    edges = np.zeros(columns + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last + 1, -1)
    return "".join("█" if n > 0 else " " for n in np.cumsum(edges)[:columns].tolist())


def _use(writer: int, last: int, at: int, readers: int) -> tuple[str, Style]:
    if writer == at:
        return "written here", "changed"
    if not readers:
        return "never read", "dim"
    if last < at:
        return f"dead since {last}", "dim"
    return ("read here" if last == at else f"needed to {last}"), "ok"


def _cycles(session: Session, low: int, high: int) -> tuple[int, int]:
    first, last = session.n_cycles, 0
    for at in range(low, high, 1 << 16):
        rows = session.commands(at, min(at + (1 << 16), high))
        first, last = min(first, int(rows["start"].min())), max(last, int(rows["end"].max()))
    return first, max(last, first + 1)


def _name(session: Session, tensor: int) -> str:
    if not 0 <= tensor < len(session.tensors):
        return "-"
    return safe(session.tensors[tensor].name, 400)


def _tensor_subject(session: Session, tensor: int) -> Subject | None:
    if not 0 <= tensor < len(session.tensors):
        return None
    return Subject(kind="tensor", name=safe(session.tensors[tensor].name), tensor=tensor)
