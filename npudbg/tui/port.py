"""The debugger as the screen uses it: one cursor, verbs as text, memory as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from npudbg.session.lines import Line

if TYPE_CHECKING:
    from npudbg.session.reader import Session


class Live(Protocol):
    """A program that is still running behind the session.

    Attributes:
        title: Short text for the head line, e.g. ``LIVE pid 4711``.
    """

    title: str

    def verbs(self) -> Mapping[str, str]:
        """Return further verbs, each with one line of help."""

    def execute(self, text: str) -> list[Line]:
        """Do one of them."""


class Port:
    """Wraps :class:`~npudbg.debugger.interpreter.Interpreter`."""

    def __init__(self, session: Session, interpreter: Any, live: Live | None = None) -> None:
        """Use an interpreter over ``session``."""
        self.session, self.interpreter, self.live = session, interpreter, live
        self.simulated = session.meta.backend == "simulated"

    @property
    def seq(self) -> int:
        """The cursor: number of the current command."""
        return int(self.interpreter.seq)

    @property
    def reason(self) -> str:
        """Why the cursor stopped where it is."""
        return str(self.interpreter.reason)
