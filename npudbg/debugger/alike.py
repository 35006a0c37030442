"""The same command in another recording of the same run.

A fork does what its parent did up to the change, with the same numbers.  After that a
command is the same where it does the same part of the same node's work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npudbg.session.commands import Rows
from npudbg.session.memory.geometry import Bools, Ints
from npudbg.session.reader import Session

_STEP = 1 << 16
_PLAIN = ("kind", "tile", "dst_space", "src_space")
_PLACES = ("src", "dst", "nbytes")


class Alike:
    """Commands of one session found in another.

    Attributes:
        a: The session that one comes from.
        b: The one that one goes to.
    """

    def __init__(self, a: Session, b: Session) -> None:
        """Lay two sessions side by side; nothing is read yet."""
        self.a, self.b = a, b
        self._nodes = _numbers([n.label for n in a.nodes], [n.label for n in b.nodes])
        self._tensors = _numbers([t.name for t in a.tensors], [t.name for t in b.tensors])
        self._parting: int | None = None

    @property
    def parting(self) -> int:
        """The first command that is not alike in both; the shorter one's length if all are."""
        if self._parting is None:
            self._parting = self._first()
        return self._parting

    def counterpart(self, seq: int) -> int | None:
        """Return the command of ``b`` that does what ``seq`` does in ``a``; None if none does."""
        if seq < self.parting:
            return seq
        if not 0 <= seq < self.a.n_commands:
            return None
        row = self.a.command(seq)
        before = sum(len(found) for found in self._like(self.a, row, 0, seq, self._own))
        for found in self._like(self.b, row, 0, self.b.n_commands, self._other):
            if before < len(found):
                return int(found[before])
            before -= len(found)
        return None

    # -- inside --------------------------------------------------------------------------

    def _first(self) -> int:
        common = min(self.a.n_commands, self.b.n_commands)
        for low in range(0, common, _STEP):
            x, y = (s.commands(low, min(low + _STEP, common)) for s in (self.a, self.b))
            unlike = np.zeros(len(x), bool)
            for column in (*_PLAIN, *_PLACES):
                unlike |= x[column] != y[column]
            unlike |= (x["box"] != y["box"]).any(axis=(1, 2))
            unlike |= _mapped(self._nodes, x["node"]) != y["node"]
            unlike |= _mapped(self._tensors, x["tensor"]) != y["tensor"]
            if unlike.any():
                return low + int(unlike.argmax())
        return common

    def _own(self, row: Any) -> tuple[int, int]:
        return int(row["node"]), int(row["tensor"])

    def _other(self, row: Any) -> tuple[int, int]:
        node, tensor = self._own(row)
        return (
            int(_mapped(self._nodes, np.array([node]))[0]),
            int(_mapped(self._tensors, np.array([tensor]))[0]),
        )

    def _like(self, session: Session, row: Any, low: int, high: int, numbers: Any) -> list[Ints]:
        """Return the commands of a session that do what a row of ``a`` does, in pieces."""
        node, tensor = numbers(row)
        found = []
        for start in range(low, high, _STEP):
            rows: Rows = session.commands(start, min(start + _STEP, high))
            hit: Bools = (rows["node"] == node) & (rows["tensor"] == tensor)
            for column in _PLAIN:
                hit &= rows[column] == row[column]
            hits = np.flatnonzero(hit)
            hits = hits[(rows["box"][hits] == row["box"]).all(axis=(1, 2))]
            found.append(np.asarray(rows["seq"][hits], np.int64))
        return found


def _numbers(ours: list[str], theirs: list[str]) -> Ints:
    """Return for each of our names its number among theirs; -2 where they have none."""
    there = {name: number for number, name in enumerate(theirs)}
    return np.array([there.get(name, -2) for name in ours], np.int64)


def _mapped(numbers: Ints, column: Any) -> Ints:
    """Return a column's numbers as the other session's; what is no number stays."""
    ours = np.asarray(column, np.int64)
    inside = (ours >= 0) & (ours < len(numbers))
    if not len(numbers):
        return ours
    return np.where(inside, numbers[np.where(inside, ours, 0)], ours)
