"""Breakpoints and watchpoints: what stops the cursor, with conditions and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions.tree import Node
from npudbg.session.commands import Rows
from npudbg.session.memory.geometry import Ints
from npudbg.session.reader import Session

if TYPE_CHECKING:
    from npudbg.debugger.context import Context

StopKind = Literal["breakpoint", "watch", "watch -w", "rwatch", "awatch"]


class Chunk:
    """One stored chunk of commands, as matchers look at it.

    Attributes:
        at: Its index in the session.
        low: Its first command.
        high: One past its last command.
    """

    def __init__(self, session: Session, at: int) -> None:
        """Look at chunk ``at``."""
        starts = session.chunk_starts
        self.session, self.at = session, at
        self.low = starts[at]
        self.high = starts[at + 1] if at + 1 < len(starts) else session.n_commands

    @cached_property
    def rows(self) -> Rows:
        """Its commands."""
        return self.session.chunk(self.at)

    @cached_property
    def reads(self) -> Rows:
        """What its commands read."""
        return self.session.accesses(self.low, self.high)


class Matcher(Protocol):
    """Finds the commands at which to stop."""

    def find(self, chunk: Chunk) -> Ints:
        """Return the commands of a chunk that match, ascending."""
        ...

    def why(self, seq: int) -> str:
        """Return what happened at a command that matched, in a few words (or ``""``)."""
        ...


@dataclass
class Location:
    """What a breakpoint or watchpoint stands on.

    Attributes:
        text: In words.
        matcher: Finds its commands.
        node: The node, where it is one.
        seq: The command, where it is one.
        place: How to find it in another session, where that is not what was typed.
    """

    text: str
    matcher: Matcher
    node: int = -1
    seq: int = -1
    place: str = ""


@dataclass
class Stop:
    """A breakpoint or watchpoint.

    Attributes:
        number: What ``delete`` calls it.
        kind: Which of the five.
        text: What it stands on, in words.
        matcher: Finds where it stops.
        condition: Tree that must be true, or None.
        condition_text: As the user wrote it.
        node: The node it stands on, or -1.
        ignore: Hits still to pass by.
        hits: How often it has been met.
        enabled: Whether it counts.
        temporary: Whether the first stop deletes it.
        resolve: Finds the same in another session.
        missing: Why it stops nowhere in this session, or ``""``.
    """

    number: int
    kind: StopKind
    text: str
    matcher: Matcher
    condition: Node | None = None
    condition_text: str = ""
    node: int = -1
    ignore: int = 0
    hits: int = 0
    enabled: bool = True
    temporary: bool = False
    resolve: Callable[[Context], Location] | None = None
    missing: str = ""

    @property
    def title(self) -> str:
        """What it is called where the cursor stops: ``breakpoint 1``."""
        return f"{self.kind} {self.number}"


class Table:
    """The breakpoints and watchpoints, by number."""

    def __init__(self) -> None:
        """Start with none."""
        self.stops: dict[int, Stop] = {}
        self._next = 1

    def add(self, kind: StopKind, text: str, matcher: Matcher) -> Stop:
        """Add one; returns it."""
        stop = Stop(self._next, kind, text, matcher)
        self.stops[stop.number] = stop
        self._next += 1
        return stop

    def take(self, other: Table) -> None:
        """Hold what another table holds, under the same numbers."""
        self.stops, self._next = dict(other.stops), other._next

    def get(self, number: int) -> Stop:
        """Return one by number.

        Raises:
            DebuggerError: There is none of that number.
        """
        if number not in self.stops:
            known = ", ".join(map(str, self.stops)) or "none is set"
            raise DebuggerError(f"no breakpoint or watchpoint {number} ({known})")
        return self.stops[number]

    def delete(self, number: int) -> None:
        """Delete one by number."""
        self.get(number)
        del self.stops[number]

    def enabled(self) -> list[Stop]:
        """Return those that count."""
        return [s for s in self.stops.values() if s.enabled]

    def on_node(self, node: int) -> Stop | None:
        """Return the first breakpoint that stands on a node."""
        return next((s for s in self.stops.values() if s.node == node), None)

    def nodes(self) -> frozenset[int]:
        """Return the nodes on which an enabled breakpoint stands."""
        return frozenset(s.node for s in self.enabled() if s.node >= 0)


class At:
    """Certain commands."""

    def __init__(self, seqs: Ints | list[int]) -> None:
        """Stop at each of ``seqs``."""
        self.seqs = np.unique(np.asarray(seqs, np.int64))

    def find(self, chunk: Chunk) -> Ints:
        """See :class:`Matcher`."""
        low, high = np.searchsorted(self.seqs, (chunk.low, chunk.high))
        return self.seqs[low:high]

    def why(self, seq: int) -> str:
        """See :class:`Matcher`."""
        return ""


class Column:
    """Commands with certain values in a column; no column: every command."""

    def __init__(self, column: str = "", values: list[int] | None = None) -> None:
        """Stop where ``column`` has one of ``values``."""
        self.column, self.values = column, values or []

    def find(self, chunk: Chunk) -> Ints:
        """See :class:`Matcher`."""
        if not self.column:
            return np.arange(chunk.low, chunk.high, dtype=np.int64)
        hit = np.isin(chunk.rows[self.column], self.values)
        return np.asarray(chunk.rows["seq"][hit], np.int64)

    def why(self, seq: int) -> str:
        """See :class:`Matcher`."""
        return ""
