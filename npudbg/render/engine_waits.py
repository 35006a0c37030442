"""Who waits for whom: the idle cycles of each engine by what ended them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import Rows, Status
from npudbg.session.reader import Session

Ints = npt.NDArray[np.int64]

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Waits:
    """Idle cycles in a range of commands.

    Attributes:
        data: Shape (engines, engines): cycles for which the first stood still until the
            second had made an operand of its next command.
        freed: Same shape: cycles until a command of the second ended at the very cycle
            at which the next one began, though that reads nothing of it: a buffer or an
            order that it waited for, as far as the record shows.
        other: Idle cycles of each engine that no recorded command ended.
        first: First cycle of the range.
        last: Last cycle of the range.
        hung: Commands of the range that started and never ended.
    """

    data: Ints
    freed: Ints
    other: Ints
    first: int
    last: int
    hung: Ints


def waits_of(session: Session, low: int, high: int) -> Waits:
    """Return who waited for whom in commands ``[low, high)``."""
    rows, last_end, last_by = _rows(session, low, high)
    count = max(len(session.meta.engines), int(rows["engine"].max(initial=0)) + 1)
    data, freed = np.zeros((count, count), np.int64), np.zeros((count, count), np.int64)
    other = np.zeros(count, np.int64)
    by_end = np.argsort(rows["end"], kind="stable")
    ends, engine_of = rows["end"][by_end], rows["engine"][by_end].astype(np.int64)
    for engine in np.unique(rows["engine"]).tolist():
        mine = np.flatnonzero(rows["engine"] == engine)
        mine = mine[np.argsort(rows["start"][mine], kind="stable")]
        start, until = rows["start"][mine], np.maximum.accumulate(rows["end"][mine])
        idle = np.maximum(start[1:] - until[:-1], 0)
        idle, mine, start = idle[idle > 0], mine[1:][idle > 0], start[1:][idle > 0]
        known = last_end[mine] == start
        np.add.at(data[engine], last_by[mine[known]], idle[known])
        idle, start = idle[~known], start[~known]
        # Of commands that ended in that cycle, the one recorded first is taken.
        at = np.searchsorted(ends, start)
        found = at < len(ends)
        found[found] = ends[at[found]] == start[found]
        np.add.at(freed[engine], engine_of[at[found]], idle[found])
        other[engine] += int(idle[~found].sum())
    return Waits(
        data, freed, other, int(rows["start"].min(initial=session.n_cycles)),
        int(rows["end"].max(initial=0)), rows["seq"][rows["status"] == Status.HUNG].copy(),
    )  # fmt: skip


def _rows(session: Session, low: int, high: int) -> tuple[Rows, Ints, Ints]:
    """Return the commands, and of each: when its last operand was there, and whose it is."""
    low, high = max(low, 0), min(high, session.n_commands)
    parts, ends, engines = [session.commands(0, 0)], [_NONE], [_NONE]
    for at in range(low, high, _CHUNK):
        to = min(at + _CHUNK, high)
        rows = session.commands(at, to)
        rows = rows[rows["status"] != Status.NOT_STARTED]
        reads = session.accesses(at, to)
        reads = reads[(reads["by"] >= 0) & (reads["by"] < reads["seq"])]
        end, engine = _writers(session, reads["by"])
        order = np.lexsort((end, reads["seq"]))
        # Of each command's reads, sorted by when they were there, the last one counts.
        seq = reads["seq"][order]
        final = np.flatnonzero(np.append(np.diff(seq) != 0, True)) if len(seq) else _NONE
        place = np.searchsorted(seq[final], rows["seq"])
        known = place < len(final)
        known[known] = seq[final][place[known]] == rows["seq"][known]
        last_end, last_by = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
        which = order[final[place[known]]]
        last_end[known], last_by[known] = end[which], engine[which]
        parts.append(rows)
        ends.append(last_end)
        engines.append(last_by)
    return np.concatenate(parts), np.concatenate(ends), np.concatenate(engines)


def _writers(session: Session, seqs: Ints) -> tuple[Ints, Ints]:
    """Return the end and the engine of commands, chunk by chunk of the record."""
    end, engine = np.full(len(seqs), -1, np.int64), np.zeros(len(seqs), np.int64)
    starts = np.array(session.chunk_starts, np.int64)
    chunks = np.searchsorted(starts, seqs, "right") - 1
    for chunk in np.unique(chunks).tolist():
        if chunk < 0:
            continue
        rows, mine = session.chunk(chunk), np.flatnonzero(chunks == chunk)
        place = seqs[mine] - starts[chunk]
        inside = place < len(rows)
        mine, place = mine[inside], place[inside]
        end[mine], engine[mine] = rows["end"][place], rows["engine"][place]
    return end, engine


_NONE = np.empty(0, np.int64)
