"""What commands left in memory: the newest writer of each byte, and the byte.

Only what commands wrote counts: not what lay there from the start, nor what changed though
no command changed it.  The debugger adds those; rules look for them.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from npudbg.session.commands import Rows, Space
from npudbg.session.memory.coverage import Coverage
from npudbg.session.memory.geometry import Bools, Ints
from npudbg.session.memory.written import Bytes, Written
from npudbg.session.reader import Session

INITIAL = -1
"""Writer of bytes that lay there from the start, or that nothing has written."""
_MATRIX = 1 << 20


class Writes:
    """The writes of a session, by address.

    Attributes:
        session: The record.
        written: What each command wrote.
        coverage: Which chunks of commands can have written an address.
    """

    def __init__(self, session: Session) -> None:
        """Read from a session; nothing is read yet."""
        self.session = session
        self.written = Written(session)
        self.coverage = Coverage(session)

    def left(self, space: int, address: int, nbytes: int, seq: int) -> tuple[Bytes, Bools]:
        """Return what commands up to ``seq`` left in a range.

        Returns:
            The bytes (0 where not known), and which of them are known.
        """
        places = np.arange(address, address + nbytes, dtype=np.int64)
        return self.left_at(space, places, seq)[:2]

    def left_at(self, space: int, places: Ints, seq: int) -> tuple[Bytes, Bools, Ints]:
        """Return what commands up to ``seq`` left at addresses, ascending.

        Returns:
            The bytes (0 where not known), which of them are known, and who wrote each.
        """
        writers, rows = self.newest(space, places, seq)
        data, known = np.zeros(len(places), np.uint8), np.zeros(len(places), bool)
        for number, row in rows.items():
            mine = writers == number
            data[mine], known[mine] = self.written.bytes_at(row, places[mine])
        return data, known, writers

    def newest(self, space: int, places: Ints, seq: int) -> tuple[Ints, dict[int, Any]]:
        """Return the newest command up to ``seq`` that wrote each address, and their rows.

        Args:
            space: Address space.
            places: Addresses, ascending.
            seq: The last command that counts.

        Returns:
            A command for each address (``INITIAL`` where none wrote it), and the row of each.
        """
        writers = np.full(len(places), INITIAL, np.int64)
        rows: dict[int, Any] = {}
        last = bisect.bisect_right(self.session.chunk_starts, seq) - 1
        left = np.arange(len(places))
        while len(left):
            last = self.coverage.newest(space, places[left], last)
            if last < 0:
                break
            here = left[self.coverage.written(last, space, places[left])]
            self._search(self.session.chunk(last), space, places, here, seq, writers, rows)
            left = np.flatnonzero(writers < 0)
            last -= 1
        return writers, rows

    def _search(
        self,
        chunk: Rows,
        space: int,
        places: Ints,
        left: Ints,
        seq: int,
        writers: Ints,
        rows: dict[int, Any],
    ) -> None:
        """Look for the newest writers of the addresses ``left`` in one chunk."""
        low, high = int(places[left[0]]), int(places[left[-1]]) + 1
        hit = (chunk["dst_space"] == space) & (chunk["dst"] < high) & (chunk["seq"] <= seq)
        hit &= chunk["dst"] + chunk["nbytes"] > low
        hits = np.flatnonzero(hit)
        hits = hits[self.written.writing(chunk[hits])]
        step = max(_MATRIX // max(len(left), 1), 1)
        # A tile slot is written again and again: the newest few usually tell.
        step = min(step, 64 if space == Space.SRAM else 512)
        while len(hits) and len(left):
            part, hits = chunk[hits[-step:]], hits[:-step]
            covered = self._cover(part, space, places[left])
            found = covered.any(axis=0)
            newest = len(part) - 1 - np.argmax(covered[::-1], axis=0)
            for number in np.unique(newest[found]).tolist():
                mine = left[found & (newest == number)]
                number_seq = int(part["seq"][number])
                writers[mine] = number_seq
                rows[number_seq] = part[number]
            left = left[~found]

    def _cover(self, rows: Rows, space: int, places: Ints) -> Bools:
        """Return which of the addresses each row wrote."""
        low, high = rows["dst"], rows["dst"] + rows["nbytes"]
        covered: Bools = (places >= low[:, None]) & (places < high[:, None])
        if space == Space.SRAM:
            return covered
        for number in np.unique(rows["tensor"]).tolist():
            mine = np.flatnonzero(rows["tensor"] == number)
            layout = self.written.layout(number)
            if layout is None:
                continue
            boxes = rows["box"][mine][:, : len(layout.dims)].astype(np.int64)
            sizes = np.array(layout.dims, np.int64)
            boxes = np.clip(boxes, 0, sizes[:, None]) if len(sizes) else boxes
            steps = np.append(np.cumprod(sizes[::-1])[::-1][1:], 1) if len(sizes) else sizes
            bases = low[mine] - (boxes[:, :, 0] * steps).sum(axis=1) * layout.inner
            plain = (boxes[:, :, 1] > boxes[:, :, 0]).all(axis=1)
            plain &= ~np.isin(rows["seq"][mine], self.written.payload_seqs)
            for base in np.unique(bases[plain]).tolist():
                same = mine[plain & (bases == base)]
                whole = places - base
                valid = (whole >= 0) & (whole < layout.nbytes)
                inside = np.broadcast_to(valid, (len(same), len(places))).copy()
                coords = layout.coords(np.where(valid, whole, 0)) if layout.dims else ()
                box = boxes[plain & (bases == base)]
                for axis, coord in enumerate(coords):
                    inside &= (coord >= box[:, axis, :1]) & (coord < box[:, axis, 1:])
                covered[same] &= inside
            for i in mine[~plain].tolist():
                covered[i] = self.written.covers(rows[i], places)
        return covered
