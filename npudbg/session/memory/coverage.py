"""Skipping a million commands: which chunks can have written a byte, and which cannot."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from npudbg.session.coverage import cover
from npudbg.session.memory.geometry import Bools, Ints
from npudbg.session.reader import Session


class Coverage:
    """The ranges that each stored chunk of commands writes.

    They stand in the session; where its writer died before it wrote them, every chunk
    is looked at once.
    """

    def __init__(self, session: Session) -> None:
        """Read nothing yet."""
        self._session = session

    def newest(self, space: int, places: Ints, last: int) -> int:
        """Return the last chunk up to ``last`` that may write one of some addresses, or -1.

        Args:
            space: Address space.
            places: Addresses, ascending.
            last: The chunk to begin with, going back.
        """
        spaces, lows, highs, chunks = self._table
        count = int(np.searchsorted(chunks, last, "right"))
        hit = (spaces[:count] == space) & (lows[:count] <= places[-1])
        near = np.flatnonzero(hit & (highs[:count] > places[0]))
        inside = np.searchsorted(places, lows[near]) < np.searchsorted(places, highs[near])
        found = chunks[near[inside]]
        return int(found[-1]) if len(found) else -1

    def touched(self, at: int, space: int, low: int, high: int) -> bool:
        """Whether chunk ``at`` may write into ``low <= address < high``."""
        lows, highs = self._ranges(at, space)
        return bool(((lows < high) & (highs > low)).any())

    def written(self, at: int, space: int, places: Ints) -> Bools:
        """Return which addresses chunk ``at`` may write."""
        lows, highs = self._ranges(at, space)
        if not len(lows):
            return np.zeros(len(places), bool)
        place = np.searchsorted(highs, places, "right")
        near = np.minimum(place, len(lows) - 1)
        found: Bools = (place < len(lows)) & (lows[near] <= places)
        return found

    def _ranges(self, at: int, space: int) -> tuple[Ints, Ints]:
        spaces, lows, highs, chunks = self._table
        first, last = np.searchsorted(chunks, (at, at + 1))
        mine = spaces[first:last] == space
        return lows[first:last][mine], highs[first:last][mine]

    @cached_property
    def _table(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Space, first and one-past-last address, and chunk of every range, by chunk."""
        session = self._session
        starts = np.array(session.chunk_starts, np.int64)
        rows = session.coverage()
        if rows is None or not np.isin(rows["first_seq"], starts).all():
            parts = [cover(session.chunk(at)) for at in range(len(starts))]
            rows = np.concatenate(parts) if parts else cover(session.commands(0, 0))
        chunks = np.searchsorted(starts, rows["first_seq"])
        order = np.lexsort((rows["low"], rows["space"], chunks))
        rows = rows[order]
        return (
            np.ascontiguousarray(rows["space"]),
            np.ascontiguousarray(rows["low"]),
            np.ascontiguousarray(rows["high"]),
            np.ascontiguousarray(chunks[order]).astype(np.int64),
        )
