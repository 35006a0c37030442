"""Memory as it was: the bytes of any range after any command, and who wrote each."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.initial import Residents
from npudbg.session import silent
from npudbg.session.memory.geometry import Bools, Ints
from npudbg.session.memory.writes import INITIAL, Writes
from npudbg.session.memory.written import Bytes
from npudbg.session.reader import Session

OUTSIDE = -2
"""Writer of bytes that a command found changed, though no command had changed them."""

MOST_BYTES = 1 << 20
"""Longest range that is looked at in one go."""
_PIECE = 4096


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
        self.writes = Writes(session)
        self.written = self.writes.written
        self.residents = Residents(self.written)

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
        return self.writes.newest(space, places, seq)[0]

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
        data, known, writers = self.writes.left_at(space, places, seq)
        since = self._lay_residents(space, places, seq, (data, known, writers))
        self._lay_seen(space, places, seq, (data, known, writers), since)
        return data, known, writers

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
                mine[mine] = self.writes.newest(space, places[mine], resident.since - 1)[0] < 0
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
