"""DMA channels in figures: bytes, cycles, idle gaps, small packets, overlap with compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import ACCESS, COMMAND, Kind, Rows, Space, Status
from npudbg.session.reader import Session

Ints = npt.NDArray[np.int64]

SMALL = 1024
"""A transfer of fewer bytes is a small packet: its set-up costs more than its bytes."""


@dataclass(frozen=True, slots=True)
class Channel:
    """What one engine moved in a range of commands.

    Attributes:
        engine: Index into the session's engines.
        rows: Its transfers by the cycle at which they started.
        nbytes: Bytes that each of them moved.
        idle: Cycles for which the channel stood still before each of them (0 for the first).
        busy: Cycles in which it moved something.
        covered: Those of them in which a kernel ran as well.
    """

    engine: int
    rows: Rows
    nbytes: Ints
    idle: Ints
    busy: int
    covered: int

    @property
    def total(self) -> int:
        """Bytes moved."""
        return int(self.nbytes.sum())

    @property
    def small(self) -> int:
        """Number of transfers of fewer than :data:`SMALL` bytes."""
        return int((self.nbytes < SMALL).sum())


@dataclass(frozen=True, slots=True)
class Queue:
    """All channels in ``[low, high)`` commands, and the cycles that these commands took."""

    channels: tuple[Channel, ...]
    first: int
    last: int

    @property
    def cycles(self) -> int:
        """Cycles from the first start to the last end."""
        return self.last - self.first


def queue_of(session: Session, low: int, high: int) -> Queue:
    """Return the transfers of commands ``[low, high)`` by channel.

    Overlap is held against all kernels of the record, also those outside the range.
    """
    moves, first, last = _transfers(session, low, high)
    compute = _compute(session)
    nbytes = _moved(session, moves)
    channels = []
    for engine in np.unique(moves["engine"]).tolist():
        mine = moves["engine"] == engine
        order = np.argsort(moves["start"][mine], kind="stable")
        rows, sizes = moves[mine][order], nbytes[mine][order]
        begun, ended = merged(rows["start"], rows["end"])
        until = np.maximum.accumulate(rows["end"])
        idle = np.maximum(rows["start"][1:] - until[:-1], 0)
        hidden = _until(ended, *compute) - _until(begun, *compute)
        channels.append(
            Channel(
                engine=engine,
                rows=rows,
                nbytes=sizes,
                idle=np.concatenate(([0], idle)).astype(np.int64),
                busy=int((ended - begun).sum()),
                covered=int(hidden.sum()),
            )
        )
    return Queue(tuple(channels), first, last)


def merged(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the union of intervals as disjoint ones, ascending."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    until = np.maximum.accumulate(end) if len(end) else end
    new = np.ones(len(start), bool)
    new[1:] = start[1:] > until[:-1]
    at = np.flatnonzero(new)
    last = np.append(at[1:], len(start)) - 1
    return start[at].astype(np.int64), until[last].astype(np.int64) if len(at) else start[at]


def _until(moment: Ints, starts: Ints, ends: Ints, covered: Ints) -> Ints:
    """Return for how many cycles the disjoint intervals had run up to each moment.

    ``covered`` holds their lengths added up, with a 0 in front.
    """
    at = np.searchsorted(starts, moment, "right")
    before = np.maximum(at - 1, 0)
    over = np.maximum(ends[before] - moment, 0) if len(ends) else np.zeros_like(moment)
    found: Ints = covered[at] - np.where(at > 0, over, 0)
    return found


def _compute(session: Session) -> tuple[Ints, Ints, Ints]:
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for at in range(len(session.chunk_starts)):
        rows = session.chunk(at)
        rows = rows[(rows["kind"] == Kind.KERNEL) & (rows["status"] != Status.NOT_STARTED)]
        starts.append(rows["start"])
        ends.append(rows["end"])
    start, end = merged(np.concatenate(starts), np.concatenate(ends))
    return start, end, np.concatenate(([0], np.cumsum(end - start)))


def _transfers(session: Session, low: int, high: int) -> tuple[Rows, int, int]:
    parts, first, last = [np.empty(0, COMMAND)], [], [0]
    low, high = max(low, 0), min(high, session.n_commands)
    for at in range(low, high, 1 << 16):
        rows = session.commands(at, min(at + (1 << 16), high))
        if not len(rows):
            continue
        first.append(int(rows["start"].min()))
        last.append(int(rows["end"].max()))
        moves = (rows["kind"] == Kind.DMA_LOAD) | (rows["kind"] == Kind.DMA_STORE)
        parts.append(rows[moves & (rows["status"] != Status.NOT_STARTED)])
    return np.concatenate(parts), min(first, default=0), max(last)


def _moved(session: Session, moves: Rows) -> Ints:
    """Return the bytes each transfer moved.

    A STORE of a box writes a range that encloses it; what it moved is what it read.
    """
    nbytes: Ints = np.maximum(moves["nbytes"], 0).astype(np.int64)
    store = np.flatnonzero(moves["kind"] == Kind.DMA_STORE)
    if not len(store):
        return nbytes
    seqs = moves["seq"][store]
    parts = [np.empty(0, ACCESS)]
    for at in range(int(seqs.min()), int(seqs.max()) + 1, 1 << 16):
        reads = session.accesses(at, min(at + (1 << 16), int(seqs.max()) + 1))
        parts.append(reads[(reads["space"] == Space.SRAM) & (reads["operand"] < 0)])
    reads = np.concatenate(parts)
    order = np.argsort(seqs, kind="stable")
    place = np.searchsorted(seqs[order], reads["seq"])
    known = place < len(seqs)
    known[known] = seqs[order][place[known]] == reads["seq"][known]
    sums = np.zeros(len(seqs), np.int64)
    np.add.at(sums, order[place[known]], np.maximum(reads["nbytes"][known], 0))
    nbytes[store] = np.where(sums > 0, sums, nbytes[store])
    return nbytes
