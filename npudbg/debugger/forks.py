"""Changing the past: what the debugger asks of whoever can run the device again.

The debugger only reads a record.  The command that opens it may hand over a
*forker*, which does a recorded run again with changes, into a session of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from npudbg.session.lines import Line
from npudbg.session.rerun import Changes

if TYPE_CHECKING:
    from npudbg.debugger.sessions import Opened
    from npudbg.session.reader import Session

Progress = Callable[[int, int, str], None]
"""Called with nodes done, nodes in all, and what is being done."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A run done again.

    Attributes:
        path: Its session.
        lines: What is different in it.
    """

    path: Path
    lines: tuple[Line, ...] = ()


class Forker(Protocol):
    """Does recorded runs again, and lays two of them side by side.

    Attributes:
        keep: Whether the sessions stay when the debugger ends.
    """

    keep: bool

    def fork(
        self,
        session: Session,
        changes: Changes,
        *,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> Forked:
        """Do a session's run again with these changes; may be called in any thread.

        Raises:
            CancelledError: ``cancel`` was set before the end.
            UserError: It cannot be done again, or a change does not fit it.
        """
        ...

    def compare(self, a: Session, b: Session) -> list[Line]:
        """Return what differs between two recorded runs.

        Raises:
            UserError: One of them is damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run that a ``set`` asks for, still to be made.

    Attributes:
        parent: The session whose run is done again.
        changes: What is done otherwise.
        forker: Who does it.
    """

    parent: Opened
    changes: Changes
    forker: Forker

    def run(
        self, progress: Progress | None = None, cancel: threading.Event | None = None
    ) -> Forked:
        """Make it; may be called in any thread.

        Raises:
            CancelledError: ``cancel`` was set before the end.
            UserError: It cannot be done again, or a change does not fit it.
        """
        return self.forker.fork(
            self.parent.context.session, self.changes, progress=progress, cancel=cancel
        )
