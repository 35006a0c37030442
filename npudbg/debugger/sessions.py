"""The session that was opened and its forks: one is looked at, the others are kept.

Where one stands belongs to a session: the cursor and the bookmarks.  What one asks of
it belongs to the user, and goes along from one to the next: breakpoints, watchpoints,
displays and golden values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from npudbg.debugger.alike import Alike
from npudbg.debugger.breakpoints import At, Stop
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.forks import Forked, Forker, Rerun
from npudbg.session.lines import Line, line
from npudbg.session.reader import Session
from npudbg.session.rerun import Changes
from npudbg.session.text import safe

_MOST = 200
"""Most sessions that are open at a time: each holds a file open."""


@dataclass
class Opened:
    """A session that can be looked at.

    Attributes:
        number: What ``session`` calls it; 1 is the one that was opened first.
        context: The debugger's state in it.
        parent: Number of the session that it is a fork of; 0 for the first.
        changes: What it does otherwise than its parent.
    """

    number: int
    context: Context
    parent: int = 0
    changes: Changes = field(default_factory=Changes)


class Sessions:
    """All sessions that are open, in the order in which they came.

    Attributes:
        all: By number, from 1.
        current: The one that is looked at.
    """

    def __init__(self, session: Session, target: Any, forker: Forker | None) -> None:
        """Begin with one session; it stays the caller's to close."""
        first = Context(session, target, forker=forker)
        first.sessions = self
        self.current = Opened(1, first)
        self.all = [self.current]
        self._alike: dict[tuple[int, int], Alike] = {}

    def get(self, number: int) -> Opened:
        """Return a session by number.

        Raises:
            DebuggerError: There is none of that number.
        """
        if not 1 <= number <= len(self.all):
            count = len(self.all)
            there = f"there are 1 to {count}" if count > 1 else "there is only 1; set makes forks"
            raise DebuggerError(f"no session {number}; {there}")
        return self.all[number - 1]

    def alike(self, a: Session, b: Session) -> Alike:
        """Return what finds a command of one open session in another."""
        found = self._alike.get((id(a), id(b)))
        if found is None:
            found = self._alike[id(a), id(b)] = Alike(a, b)
        return found

    def changes(self) -> list[tuple[Opened, Changes]]:
        """Return what the current session does otherwise than the first, oldest first."""
        chain, at = [], self.current
        while at.parent:
            chain.append((at, at.changes))
            at = self.get(at.parent)
        return chain[::-1]

    def rerun(self, changes: Changes) -> Rerun:
        """Return the run that makes a fork of the current session.

        Raises:
            DebuggerError: Nothing here can make it.
        """
        forker = self.current.context.forker
        if forker is None:
            raise DebuggerError(
                "nothing here can run the device again; see npudbg fork for a saved session"
            )
        if len(self.all) >= _MOST:
            raise DebuggerError(f"{_MOST} sessions are open; go on in a new npudbg replay")
        return Rerun(self.current, changes, forker)

    def adopt(self, rerun: Rerun, forked: Forked) -> list[Line]:
        """Open a fork and look at it, from where one stood in its parent.

        Raises:
            UserError: Its file cannot be read.
        """
        parent = rerun.parent
        session = Session.open(forked.path)
        context = Context(session, parent.context.target, forker=parent.context.forker)
        context.sessions, context.width = self, parent.context.width
        fork = Opened(len(self.all) + 1, context, parent.number, rerun.changes)
        lines = _placed(parent.context, context)
        self.all.append(fork)
        return [*lines, *self.go(fork.number)]

    def go(self, number: int) -> list[Line]:
        """Look at a session; returns what could not come along.

        Raises:
            DebuggerError: There is none of that number.
        """
        goal, left = self.get(number), self.current
        if goal is left:
            return []
        lines = _handed_over(left.context, goal.context)
        self.current = goal
        return lines

    def close(self) -> None:
        """Close all but the first."""
        for each in self.all[1:]:
            each.context.session.close()


def _placed(old: Context, new: Context) -> list[Line]:
    """Put cursor and bookmarks of a new fork where they were in its parent."""
    if old.cursor.last < 0 or new.cursor.last < 0:
        return []
    alike = new.sessions.alike(old.session, new.session)
    lines = []
    at = alike.counterpart(old.cursor.seq)
    if at is None:
        at = max(alike.parting - 1, 0)
        lines.append(
            line(
                (f"the fork has no command such as {old.cursor.seq}: ", "warn"),
                f"you stand at {at}, the last one that both have in common",
            )
        )
    new.cursor.goto(at, "fork")
    gone = []
    for name, seq in old.cursor.bookmarks.items():
        found = alike.counterpart(seq)
        if found is None:
            gone.append(name)
        else:
            new.cursor.bookmarks[name] = found
    if gone:
        names = ", ".join(safe(name, 40) for name in gone[:8]) + (" …" if gone[8:] else "")
        lines.append(line(("bookmarks without a command in the fork: ", "warn"), names))
    return lines


def _handed_over(old: Context, new: Context) -> list[Line]:
    """Let breakpoints, watchpoints, displays and golden values go along."""
    new.displays, new.golden = old.displays, old.golden
    lines = []
    new.table.take(old.table)
    for stop in list(new.table.stops.values()):
        moved = _moved(stop, new)
        new.table.stops[stop.number] = moved
        if moved.missing:
            lines.append(line((f"{stop.title} stops nowhere here: ", "warn"), moved.missing))
    return lines


def _moved(stop: Stop, new: Context) -> Stop:
    """Return a stop as it stands in another session."""
    if stop.resolve is None:
        return stop
    try:
        place = stop.resolve(new)
    except DebuggerError as error:
        return replace(stop, matcher=At([]), node=-1, missing=safe(error, 200))
    return replace(stop, text=place.text, matcher=place.matcher, node=place.node, missing="")
