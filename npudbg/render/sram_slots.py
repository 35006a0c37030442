"""Slots of SRAM: each write, and how long what it wrote was still needed.

A slot begins with the command that writes it and lives until the last command
that reads what this command wrote; bytes that nothing reads any more still lie
there, but are free to be written over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import Kind, Rows, Space, Status
from npudbg.session.reader import Session

Ints = npt.NDArray[np.int64]
Axis = Literal["command", "cycle"]

_MAX_ADDRESS = 1 << 62
_MAX_BYTES = 1 << 40
_PAIRS_AT_ONCE = 1 << 20
_MOST_PAIRS = 1 << 25
_PAINTED = 2048
"""Newest writes that are looked at for dead bytes; what still lives is always found."""


@dataclass(frozen=True, slots=True)
class Slots:
    """All slots of a session in order of their writers; one array entry a slot.

    Attributes:
        seq: Command that wrote it.
        start: First cycle of that command.
        low: First address.
        high: Address after the last one.
        tensor: Tensor id, -1 for none.
        last: Last command that reads it; the writer itself if none does.
        done: Cycle at which its last reader, or its writer, has ended.
        readers: Number of reads.
    """

    seq: Ints
    start: Ints
    low: Ints
    high: Ints
    tensor: Ints
    last: Ints
    done: Ints
    readers: Ints

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self.seq)

    def lives(self, axis: Axis) -> tuple[Ints, Ints]:
        """Return when each slot's life begins and (exclusive) ends, in commands or cycles."""
        return (self.seq, self.last + 1) if axis == "command" else (self.start, self.done)

    def within(self, axis: Axis, low: int, high: int) -> Ints:
        """Return the indices of the slots that live somewhere in ``[low, high)``."""
        born, died = self.lives(axis)
        inside = (born < high) & (died > low) & (low < high)
        found: Ints = np.flatnonzero(inside).astype(np.int64)
        return found


class Peak(NamedTuple):
    """The most bytes that lived at once, and when (a command or a cycle)."""

    nbytes: int
    at: int


class Part(NamedTuple):
    """A range of addresses whose bytes one slot put there."""

    low: int
    high: int
    slot: int


class Overlaps(NamedTuple):
    """Slots written into while they were still to be read.

    Attributes:
        pairs: Shape (n, 2): the slot that lived, the slot that was written into it.
        complete: Whether all pairs could be looked at.
    """

    pairs: Ints
    complete: bool


def slots_of(session: Session) -> Slots:
    """Return all slots of a session."""
    parts: list[Rows] = []
    reads: list[tuple[Ints, Ints, Ints]] = []
    starts = session.chunk_starts
    for at, first in enumerate(starts):
        rows = session.chunk(at)
        parts.append(rows[_writes_sram(rows)])
        accesses = session.accesses(first, first + len(rows))
        place = accesses["seq"] - first
        known = (accesses["space"] == Space.SRAM) & (accesses["by"] >= 0)
        known &= (place >= 0) & (place < len(rows))
        reads.append(
            (accesses["by"][known], accesses["seq"][known], rows["end"][place[known]])
        )  # fmt: skip
    if not parts:
        return Slots(*(np.empty(0, np.int64) for _ in range(8)))
    rows = np.concatenate(parts)
    rows = rows[np.argsort(rows["seq"], kind="stable")]
    seq, last, done = rows["seq"].copy(), rows["seq"].copy(), rows["end"].copy()
    readers = np.zeros(len(rows), np.int64)
    for by, reader, end in reads:
        place = np.searchsorted(seq, by)
        known = place < len(seq)
        known[known] = seq[place[known]] == by[known]
        place = place[known]
        np.maximum.at(last, place, reader[known])
        np.maximum.at(done, place, end[known])
        readers += np.bincount(place, minlength=len(seq))
    low = rows["dst"].copy()
    return Slots(
        seq, rows["start"].copy(), low, low + rows["nbytes"],
        rows["tensor"].astype(np.int64), last, done, readers,
    )  # fmt: skip


def peak(slots: Slots, axis: Axis, low: int, high: int) -> Peak:
    """Return the most bytes of slots that live at one moment of ``[low, high)``.

    Slots that share addresses at that moment count each.
    """
    chosen = slots.within(axis, low, high)
    if not len(chosen):
        return Peak(0, low)
    born, died = slots.lives(axis)
    size = (slots.high - slots.low)[chosen]
    times = np.concatenate((np.maximum(born[chosen], low), died[chosen]))
    change = np.concatenate((size, -size))
    # What dies at a moment makes room before what is born then.
    order = np.lexsort((change, times))
    level = np.cumsum(change[order])
    at = int(level.argmax())
    return Peak(int(level[at]), int(times[order[at]]))


def occupancy(
    slots: Slots,
    axis: Axis,
    time: tuple[int, int],
    addresses: tuple[int, int],
    rows: int,
    columns: int,
) -> npt.NDArray[np.float64]:
    """Return which share of each cell (addresses by time) living slots take.

    Args:
        slots: Of the session.
        axis: What the columns count.
        time: First command or cycle, and the one after the last.
        addresses: First address, and the one after the last.
        rows: Rows of the map, from low addresses to high ones.
        columns: Columns of the map.

    Returns:
        Shape (rows, columns), 0 to 1.
    """
    grid = np.zeros((rows, columns))
    chosen = slots.within(axis, *time)
    born, died = slots.lives(axis)
    levels = np.linspace(addresses[0], addresses[1], rows + 1)
    moments = np.linspace(time[0], time[1], columns + 1)
    for at in range(0, len(chosen), 8192):
        part = chosen[at : at + 8192]
        tall = _covered(slots.low[part], slots.high[part], levels)
        wide = _covered(born[part], died[part], moments)
        grid += tall.T @ wide
    cell = (levels[1] - levels[0]) * (moments[1] - moments[0])
    shares: npt.NDArray[np.float64] = np.clip(grid / cell, 0.0, 1.0) if cell > 0 else grid
    return shares


def lying(slots: Slots, seq: int) -> list[Part]:
    """Return what lies where after command ``seq``, by address: the newest write of each byte.

    All slots still to be read are found, and dead bytes of the newest 2,048 writes.
    """
    before = int(np.searchsorted(slots.seq, seq, "right"))
    newest = np.arange(max(before - _PAINTED, 0), before)
    living = np.flatnonzero(slots.last[: max(before - _PAINTED, 0)] >= seq)
    chosen = np.concatenate((living, newest))
    if not len(chosen):
        return []
    edges = np.unique(np.concatenate((slots.low[chosen], slots.high[chosen])))
    owner = np.full(len(edges), -1, np.int64)
    first = np.searchsorted(edges, slots.low[chosen])
    after = np.searchsorted(edges, slots.high[chosen])
    for slot, a, b in zip(chosen.tolist(), first.tolist(), after.tolist(), strict=True):
        owner[a:b] = slot
    cuts = np.flatnonzero(np.diff(owner, prepend=-2))
    ends = np.append(cuts[1:], len(edges) - 1)
    return [
        Part(int(edges[a]), int(edges[b]), int(owner[a]))
        for a, b in zip(cuts.tolist(), ends.tolist(), strict=True)
        if owner[a] >= 0
    ]


def living(slots: Slots, axis: Axis, moment: int) -> Ints:
    """Return the indices of the slots that live at a command or cycle."""
    return slots.within(axis, moment, moment + 1)


def gaps(slots: Slots, chosen: Ints, low: int, high: int) -> list[tuple[int, int]]:
    """Return the ranges of ``[low, high)`` that none of the chosen slots takes."""
    order = chosen[np.argsort(slots.low[chosen], kind="stable")]
    ends = np.maximum.accumulate(np.concatenate(([low], slots.high[order])))
    begins = np.append(np.minimum(slots.low[order], high), high)
    free = begins > ends
    return list(zip(ends[free].tolist(), begins[free].tolist(), strict=True))


def overlaps(slots: Slots, low: int, high: int) -> Overlaps:
    """Return the slots of commands ``[low, high)`` that were written into while they lived.

    A kernel that writes its result over its own operand, as its last reader, is
    not one of them.
    """
    chosen = slots.within("command", low, high)
    # Candidates of a slot are the writes that come before its last read.
    count = np.searchsorted(slots.seq, slots.last[chosen]) - chosen - 1
    count = np.maximum(count, 0)
    total = np.cumsum(count)
    keep = int(np.searchsorted(total, _MOST_PAIRS, "right"))
    complete = keep == len(chosen)
    found, at = [np.empty((0, 2), np.int64)], 0
    while at < keep:
        done = int(total[at - 1]) if at else 0
        to = max(int(np.searchsorted(total[:keep], done + _PAIRS_AT_ONCE, "right")), at + 1)
        some, many = chosen[at:to], count[at:to]
        first = np.repeat(some, many)
        step = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        other = first + 1 + step
        clash = (slots.low[first] < slots.high[other]) & (slots.low[other] < slots.high[first])
        clash &= slots.seq[other] > slots.seq[first]
        found.append(np.stack((first[clash], other[clash]), axis=1))
        at = to
    return Overlaps(np.concatenate(found), complete)


def _writes_sram(rows: Rows) -> npt.NDArray[np.bool_]:
    kinds = (Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE, Kind.HOST)
    done = ~np.isin(rows["status"], (Status.FAULT, Status.NOT_STARTED))
    sane = (rows["dst"] >= 0) & (rows["dst"] < _MAX_ADDRESS)
    sane &= (rows["nbytes"] > 0) & (rows["nbytes"] < _MAX_BYTES)
    wanted: Any = np.isin(rows["kind"], kinds) & (rows["dst_space"] == Space.SRAM) & done & sane
    return np.asarray(wanted, bool)


def _covered(low: Ints, high: Ints, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return how much of each interval lies between each two edges: (intervals, edges - 1)."""
    inside: npt.NDArray[np.float64] = np.minimum(
        high[:, None].astype(np.float64), edges[None, 1:]
    ) - np.maximum(low[:, None].astype(np.float64), edges[None, :-1])
    return np.maximum(inside, 0.0)
