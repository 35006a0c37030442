"""Which addresses each chunk of commands writes, in few ranges: so that most are never read.

Memory on chip is used over and over, so the writes of thousands of commands melt into
a few ranges.  A range may claim more than was written, never less.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import Rows, Space

COVER = np.dtype([("first_seq", "<i8"), ("space", "<i8"), ("low", "<i8"), ("high", "<i8")])
"""One range: the chunk by its first command, the space, first and one-past-last address."""

MOST_RANGES = 64
"""Ranges kept for a chunk and a space; the nearest grow together beyond that."""

Ints = npt.NDArray[np.int64]


def cover(rows: Rows) -> Rows:
    """Return the ranges (:data:`COVER`) that a chunk's commands write."""
    parts = [np.zeros(0, COVER)]
    for space in (Space.HOST, Space.DDR, Space.SRAM) if len(rows) else ():
        parts.append(_covered(rows, space))
    return np.concatenate(parts)


def _covered(rows: Rows, space: int) -> Rows:
    mine = rows["dst_space"] == space
    low, high = merge(rows["dst"][mine], rows["dst"][mine] + rows["nbytes"][mine])
    part = np.zeros(len(low), COVER)
    part["first_seq"] = rows["seq"][0]
    part["space"], part["low"], part["high"] = int(space), low, high
    return part


def merge(starts: Ints, stops: Ints, most: int = MOST_RANGES) -> tuple[Ints, Ints]:
    """Return ranges as at most ``most`` disjoint ones that hold them all, ascending."""
    keep = stops > starts
    starts, stops = starts[keep], stops[keep]
    if not len(starts):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    gaps = starts[1:] - stops[:-1]
    apart = gaps > 0
    if np.count_nonzero(apart) >= most:
        # Keep the widest gaps; what lies between the others is claimed, too.
        widest = np.argpartition(gaps, len(gaps) - most + 1)[len(gaps) - most + 1 :]
        apart = np.zeros(len(gaps), bool)
        apart[widest] = True
    firsts = np.append(0, np.flatnonzero(apart) + 1)
    lasts = np.append(firsts[1:] - 1, len(starts) - 1)
    return starts[firsts].astype(np.int64), stops[lasts].astype(np.int64)
