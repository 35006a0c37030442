"""Memory as it was: the bytes of any range after any command, and who wrote each."""

from __future__ import annotations

import bisect
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from npudbg.debugger.coverage import Coverage
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.geometry import Bools, Ints
from npudbg.debugger.initial import Residents
from npudbg.debugger.written import Bytes, Written
from npudbg.session import silent
from npudbg.session.commands import Rows, Space
from npudbg.session.reader import Session

INITIAL = -1
"""Writer of bytes that lay there from the start, or that nothing has written."""
OUTSIDE = -2
"""Writer of bytes that a command found changed, though no command had changed them."""

MOST_BYTES = 1 << 20
"""Longest range that is looked at in one go."""
_PIECE = 4096
_MATRIX = 1 << 20


class View(NamedTuple):
    """A range of memory as it was.

    Attributes:
        data: The bytes; 0 where not known.
        written: Whether each byte is known: written by a command, or there before.
        writers: The command that wrote each; ``INITIAL``, ``OUTSIDE``.
    """

    data: bytes
    written: Bools
    writers: Ints


class _Seen(NamedTuple):
    """Bytes that no command wrote.

    Attributes:
        seq: Command after which they lie there.
        over: They lie over what commands before this one wrote.
        operand: Of the command that read them; None for a change that the device told of.
    """

    seq: int
    over: int
    operand: int | None
    space: int
    address: int
    nbytes: int
    data: bytes = b""


class State:
    """The memories of a session, at any command."""

    def __init__(self, session: Session) -> None:
        """Read from a session."""
        self.session = session
        self.written = Written(session)
        self.residents = Residents(self.written)
        self.coverage = Coverage(session)

    def memory_at(self, space: int, address: int, nbytes: int, seq: int) -> View:
        """Return a range of memory as it was after command ``seq``.

        Raises:
            DebuggerError: A negative or too long range.
        """
        if not 0 <= nbytes <= MOST_BYTES or not 0 <= address < 1 << 62:
            raise DebuggerError(
                f"{nbytes} bytes at {address:#x}: expected at most {MOST_BYTES} bytes "
                "at an address of at most 62 bits"
            )
        pieces = [
            self._piece(space, address + at, min(_PIECE, nbytes - at), seq)
            for at in range(0, nbytes, _PIECE)
        ]
        if not pieces:
            return View(b"", np.empty(0, bool), np.empty(0, np.int64))
        data, known, writers = (np.concatenate(part) for part in zip(*pieces, strict=True))
        return View(data.tobytes(), known, writers)

    def writer_of(self, space: int, address: int, nbytes: int, seq: int) -> Ints:
        """Return the newest command that wrote each byte of a range, up to ``seq``."""
        places = np.arange(address, address + nbytes, dtype=np.int64)
        return self._newest(space, places, seq)[0]

    def silent(self, space: int, address: int, nbytes: int) -> list[int]:
        """Return the commands after which a range may hold other bytes that none wrote.

        Where a weight has come to lie, and where something else was found.
        """
        high = address + nbytes
        found = [r.since - 1 for r in self.residents.within(space, address, high) if r.since > 0]
        found += [
            s.seq for s in self._seen
            if s.space == space and s.address < high and s.address + s.nbytes > address
        ]  # fmt: skip
        return sorted(set(found))

    def changed(self, space: int, address: int, nbytes: int, seq: int) -> list[tuple[int, int]]:
        """Return the parts (address, bytes) of a range that changed unasked up to ``seq``."""
        high = address + nbytes
        parts = [
            (max(s.address, address), min(s.address + len(s.data), high))
            for s in silent.read(self.session)
            if s.space == space and s.after <= seq
        ]
        return [(low, end - low) for low, end in parts if low < end]

    # -- inside --------------------------------------------------------------------------

    def _piece(self, space: int, address: int, nbytes: int, seq: int) -> tuple[Bytes, Bools, Ints]:
        places = np.arange(address, address + nbytes, dtype=np.int64)
        writers, rows = self._newest(space, places, seq)
        data, known = np.zeros(nbytes, np.uint8), np.zeros(nbytes, bool)
        for number, row in rows.items():
            mine = writers == number
            data[mine], known[mine] = self.written.bytes_at(row, places[mine])
        since = self._lay_residents(space, places, seq, (data, known, writers))
        self._lay_seen(space, places, seq, (data, known, writers), since)
        return data, known, writers

    def _newest(self, space: int, places: Ints, seq: int) -> tuple[Ints, dict[int, Any]]:
        """Return the newest writer of each address, and these commands' rows."""
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

    def _lay_residents(
        self, space: int, places: Ints, seq: int, into: tuple[Bytes, Bools, Ints]
    ) -> Ints:
        """Put what no command wrote over what was older, and under what is newer.

        Returns:
            The command before which each byte came to lie there that no command wrote.
        """
        data, known, writers = into
        since = np.zeros(len(places), np.int64)
        found = self.residents.within(space, int(places[0]), int(places[-1]) + 1)
        later = sorted((r for r in found if r.since > seq + 1), key=lambda r: r.since)
        free = np.ones(len(places), bool)
        for resident in [*(r for r in found if r.since <= seq + 1), *later]:
            at = places - resident.base
            mine = free & (at >= 0) & (at < resident.nbytes)
            mine &= writers < (resident.since if resident.since <= seq + 1 else 0)
            if resident.since > seq + 1 and mine.any():
                # One that comes later lies there already, unless something else will.
                mine[mine] = self._newest(space, places[mine], resident.since - 1)[0] < 0
            raw = self.residents.data(resident) if mine.any() else None
            if raw is None:
                continue
            mine &= at < len(raw)
            data[mine], known[mine], writers[mine] = raw[at[mine]], True, INITIAL
            since[mine] = resident.since if resident.since <= seq + 1 else 0
            free &= ~mine
        return since

    def _lay_seen(
        self, space: int, places: Ints, seq: int, into: tuple[Bytes, Bools, Ints], since: Ints
    ) -> None:
        """Put there what came though no command wrote it."""
        data, known, writers = into
        low, high = int(places[0]), int(places[-1]) + 1
        for seen in self._seen:
            if seen.seq > seq:
                break
            if seen.space != space or seen.address >= high or seen.address + seen.nbytes <= low:
                continue
            raw = seen.data
            if seen.operand is not None:
                raw = self.session.observed(seen.seq, seen.operand) or b""
            at = places - seen.address
            mine = (at >= 0) & (at < min(seen.nbytes, len(raw))) & (writers < seen.over)
            mine &= since < seen.over
            found = np.frombuffer(raw, np.uint8)[np.where(mine, at, 0)] if len(raw) else data
            mine &= ~known | (found != data)
            data[mine], known[mine], writers[mine] = found[mine], True, OUTSIDE

    @cached_property
    def _seen(self) -> list[_Seen]:
        """What came into memory though no command wrote it, in the order in which it did.

        What the device itself told of, and what commands found.
        """
        found = [
            _Seen(s.after, s.after + 1, None, s.space, s.address, len(s.data), s.data)
            for s in silent.read(self.session)
        ]
        for seq, operand in self.session.observations:
            reads = self.session.accesses(seq, seq + 1)
            for read in reads[reads["operand"] == operand][-1:]:
                found.append(
                    _Seen(
                        seq, seq, operand, int(read["space"]), int(read["addr"]),
                        int(read["nbytes"]),
                    )
                )  # fmt: skip
        return sorted(found, key=lambda s: s.over)


def memory_at(session: Session, space: int, address: int, nbytes: int, seq: int) -> View:
    """Return a range of memory as it was after command ``seq``; see :meth:`State.memory_at`.

    For one look; who looks more than once keeps a :class:`State`.
    """
    return State(session).memory_at(space, address, nbytes, seq)
