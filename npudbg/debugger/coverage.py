"""Which addresses each chunk of commands writes: what lets a search skip a million commands.

Memory on chip is used over and over, so the writes of thousands of commands melt
into a few ranges.  Each chunk is looked at once, when a search first comes to it.
"""

from __future__ import annotations

import numpy as np

from npudbg.debugger.geometry import Bools, Ints
from npudbg.session.commands import Space
from npudbg.session.reader import Session


class Coverage:
    """The ranges that each stored chunk of commands writes, merged, by space."""

    def __init__(self, session: Session) -> None:
        """Look at nothing yet."""
        self._session = session
        self._merged: dict[int, dict[int, tuple[Ints, Ints]]] = {}

    def ranges(self, at: int, space: int) -> tuple[Ints, Ints]:
        """Return first and one-past-last addresses that chunk ``at`` writes, ascending."""
        known = self._merged.get(at)
        if known is None:
            known = self._merged[at] = self._look(at)
        return known[space]

    def touched(self, at: int, space: int, low: int, high: int) -> bool:
        """Whether chunk ``at`` may write into ``low <= address < high``."""
        first, last = self._session.written_range(at, space)
        if first >= high or last <= low:
            return False
        starts, stops = self.ranges(at, space)
        place = int(np.searchsorted(stops, low, "right"))
        return place < len(starts) and int(starts[place]) < high

    def written(self, at: int, space: int, places: Ints) -> Bools:
        """Return which addresses chunk ``at`` may write."""
        starts, stops = self.ranges(at, space)
        if not len(starts):
            return np.zeros(len(places), bool)
        place = np.searchsorted(stops, places, "right")
        near = np.minimum(place, len(starts) - 1)
        found: Bools = (place < len(starts)) & (starts[near] <= places)
        return found

    def _look(self, at: int) -> dict[int, tuple[Ints, Ints]]:
        rows = self._session.chunk(at)
        space, dst = rows["dst_space"], rows["dst"]
        end = dst + rows["nbytes"]
        return {
            int(each): _merge(dst[space == each], end[space == each])
            for each in (Space.HOST, Space.DDR, Space.SRAM)
        }


def _merge(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Return the union of ranges as disjoint ranges in ascending order."""
    keep = stops > starts
    starts, stops = starts[keep], stops[keep]
    if not len(starts):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    fresh = np.ones(len(starts), bool)
    fresh[1:] = starts[1:] > stops[:-1]
    firsts = np.flatnonzero(fresh)
    lasts = np.append(firsts[1:] - 1, len(starts) - 1)
    return starts[firsts].astype(np.int64), stops[lasts].astype(np.int64)
