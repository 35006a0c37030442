"""Issuing commands: numbers, engines and cycles of every row that is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npudbg.device.kernels.base import Box
from npudbg.session.commands import ACCESS, COMMAND, MAX_BOX_RANK, Kind, Rows, Space, Status
from npudbg.targets.profile import Target

_NO_BOX = ((0, 0),) * MAX_BOX_RANK
_NOWHERE = (int(Space.NONE), 0)
_OK = int(Status.OK)
_PADS = [((0, 1),) * n for n in range(MAX_BOX_RANK + 1)]


def engine_names(target: Target) -> tuple[str, ...]:
    """Return the machine's engines: DMA channels, arrays, the host."""
    return (*(f"dma{i}" for i in range(max(target.dma.channels, 1))), "mac", "vec", "host")


def row_box(box: Box | None) -> tuple[tuple[int, int], ...]:
    """Return a box as a command row holds it: six axes, missing ones 0:1."""
    if box is None:
        return _NO_BOX
    if len(box) >= MAX_BOX_RANK:
        return box[:MAX_BOX_RANK]
    return (*box, *_PADS[MAX_BOX_RANK - len(box)])


Stretch = Callable[[int, int, int, int, int], int]
"""Command, kind, tensor, tile and cycles -> the cycles it really takes."""


class Issuer:
    """Numbers commands and gives each its place on the time line.

    An engine does one thing at a time; a command starts when its engine is free
    and what it depends on has ended.
    """

    def __init__(self, target: Target) -> None:
        """Start at command 0, cycle 0."""
        self.engines = engine_names(target)
        self.index = {name: i for i, name in enumerate(self.engines)}
        self.free = [0] * len(self.engines)
        self.busy = [0] * len(self.engines)
        self.serial = not target.dma.overlap
        self.next_seq = 0
        self.now = 0
        self.stretch: Stretch | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._accesses: list[tuple[int, ...]] = []
        # Cycles of each row that its engine was counted busy for.
        self._counted: list[int] = []

    def issue(
        self,
        kind: Kind,
        engine: int,
        cycles: int,
        earliest: int = 0,
        *,
        node: int = -1,
        tensor: int = -1,
        tile: int = -1,
        src: tuple[int, int] = _NOWHERE,
        dst: tuple[int, int] = _NOWHERE,
        nbytes: int = 0,
        box: Box | None = None,
        status: int = _OK,
        after: bool = True,
    ) -> tuple[int, int]:
        """Record one command.

        Args:
            kind: What it is.
            engine: Index of the engine.
            cycles: How long it takes.
            earliest: Cycle before which it cannot start.
            node: Node it belongs to.
            tensor: Tensor it moves or makes.
            tile: Tile of the group.
            src: Space and address it reads.
            dst: Space and address it writes.
            nbytes: Bytes it writes at ``dst``.
            box: Region of ``tensor``.
            status: How it ended.
            after: Whether it waits for its engine (a second result of one kernel
                starts with the first).

        Returns:
            Its number and the cycle at which it ends.
        """
        if self.stretch is not None:
            cycles = self.stretch(self.next_seq, kind, tensor, tile, cycles)
        start = max(earliest, self.free[engine]) if after else earliest
        if self.serial and after:
            start = max(start, self.now)
        end = start + cycles
        self.free[engine] = max(self.free[engine], end)
        counted = cycles if after else 0
        self.busy[engine] += counted
        self._counted.append(counted)
        self.now = max(self.now, end)
        seq = self.next_seq
        self.next_seq = seq + 1
        self._rows.append(
            (
                seq, start, end, src[1], dst[1], nbytes, node, tensor, tile,
                kind, engine, status, src[0], dst[0], 0, 0, row_box(box),
            )
        )  # fmt: skip
        return seq, end

    def reads(
        self, seq: int, space: int, address: int, nbytes: int, tensor: int, operand: int, by: int
    ) -> None:
        """Record that command ``seq`` read a range that command ``by`` had written."""
        self._accesses.append((seq, address, nbytes, tensor, operand, space, 0, by))

    def last_kind(self) -> int:
        """Return the kind of the newest command that is not taken yet, or -1."""
        return int(self._rows[-1][9]) if self._rows else -1

    def set_status(self, seq: int, status: int) -> None:
        """Change the status of a command that is not taken yet."""
        first = self.next_seq - len(self._rows)
        row = self._rows[seq - first]
        self._rows[seq - first] = (*row[:11], status, *row[12:])

    def never_taken(self, seq: int) -> None:
        """A command that is not taken yet was queued, and no engine ran it."""
        at = seq - self.next_seq + len(self._rows)
        row = self._rows[at]
        self._rows[at] = (*row[:2], row[1], *row[3:11], int(Status.NOT_STARTED), *row[12:])
        self._uncount(at)

    def again(self, seq: int) -> int:
        """Queue a command that is not taken yet once more; no engine takes this one.

        Returns:
            Its number.
        """
        row = self._rows[seq - self.next_seq + len(self._rows)]
        again = self.next_seq
        self.next_seq = again + 1
        self._rows.append(
            (again, self.now, self.now, *row[3:11], int(Status.NOT_STARTED), *row[12:])
        )
        self._counted.append(0)
        return again

    def redirect(self, seq: int, away: int, *, write: bool) -> None:
        """A transfer that is not taken yet goes ``away`` bytes from where it was to go in DDR."""
        at = seq - self.next_seq + len(self._rows)
        row = list(self._rows[at])
        row[4 if write else 3] += away
        self._rows[at] = tuple(row)
        if not write:
            self._accesses = [
                (a[0], a[1] + away, *a[2:]) if a[0] == seq else a for a in self._accesses
            ]

    def delay(self, seq: int, after: int) -> None:
        """Let a command that is not taken yet run right after another one has ended."""
        first = self.next_seq - len(self._rows)
        row, other = self._rows[seq - first], self._rows[after - first]
        length = row[2] - row[1]
        self._rows[seq - first] = (seq, other[2], other[2] + length, *row[3:])

    def cut_after(self, seq: int) -> None:
        """Forget all commands after ``seq``: they were never started."""
        kept = seq - self.next_seq + len(self._rows) + 1
        for at in range(kept, len(self._rows)):
            self._uncount(at)
        del self._rows[kept:], self._counted[kept:]
        self._accesses = [a for a in self._accesses if a[0] <= seq]
        self.next_seq = seq + 1
        self.now = max((row[2] for row in self._rows), default=0)

    def _uncount(self, at: int) -> None:
        """Take the cycles of a row from its engine."""
        self.busy[self._rows[at][10]] -= self._counted[at]
        self._counted[at] = 0

    def take(self) -> tuple[Rows, Rows]:
        """Return the commands and accesses recorded since the last call."""
        rows = np.array(self._rows, COMMAND)
        accesses = np.array(self._accesses, ACCESS)
        self._rows, self._accesses, self._counted = [], [], []
        return rows, accesses


def dma_channels(target: Target, issuer: Issuer) -> tuple[Sequence[int], int]:
    """Return the channels that load, and the one that stores."""
    count = max(target.dma.channels, 1)
    return (range(count - 1), count - 1) if count > 1 else (range(1), 0)
