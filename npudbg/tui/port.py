"""What the screen needs of a debugger: one cursor, verbs as text, memory as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from npudbg.session.lines import Line

if TYPE_CHECKING:
    from npudbg.debugger.forks import Forked, Rerun
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding


class Live(Protocol):
    """A program that is still running behind the session.

    Attributes:
        title: Short text for the head line, e.g. ``LIVE pid 4711``.
    """

    title: str

    def verbs(self) -> Mapping[str, str]:
        """Return further verbs, each with one line of help."""
        ...

    def execute(self, text: str) -> list[Line]:
        """Do one of them."""
        ...


class Port(Protocol):
    """The debugger as the screen uses it.

    Attributes:
        live: The running program, or None for a replay.
    """

    live: Live | None

    @property
    def simulated(self) -> bool:
        """Whether the record comes from the simulated device."""
        ...

    @property
    def session(self) -> Session:
        """The session that the debugger looks at: the one opened, or a fork."""
        ...

    @property
    def mode(self) -> str:
        """What it is, for the head line: ``REPLAY``, ``FORK 2``."""
        ...

    @property
    def wants_quit(self) -> bool:
        """Whether the last line was ``quit``."""
        ...

    @property
    def seq(self) -> int:
        """The cursor: number of the current command."""
        ...

    @property
    def reason(self) -> str:
        """Why the cursor stopped where it is; ``""`` when the user put it there."""
        ...

    def keep_to(self, width: int) -> None:
        """Let what commands print fit ``width`` columns, where they can."""
        ...

    def goto(self, seq: int) -> None:
        """Put the cursor on a command, saying nothing."""
        ...

    def execute(self, text: str) -> list[Line]:
        """Execute a line of the debugger's language; errors are lines, too."""
        ...

    def rerun(self, text: str) -> Rerun | None:
        """Return the run that a line asks for, to be made in a thread; None for other lines."""
        ...

    def adopt(self, rerun: Rerun, forked: Forked) -> list[Line]:
        """Go to the fork that a run has become; return what that says."""
        ...

    def close(self) -> None:
        """Close the forks that were opened."""
        ...

    def completions(self, text: str) -> list[str]:
        """Return whole lines that begin with ``text``."""
        ...

    def toggle_break(self, node: int) -> str:
        """Return the line that sets a breakpoint on a node, or deletes the one there."""
        ...

    def break_nodes(self) -> frozenset[int]:
        """Return the nodes on which an enabled breakpoint stands."""
        ...

    def explain(self, finding: Finding, width: int) -> list[Line]:
        """Return the long text of a finding's code, wrapped to ``width`` columns."""
        ...

    def descriptor(self, seq: int) -> list[Line]:
        """Return a transfer's DMA descriptor, or what a kernel's operands in one bank cost."""
        ...

    def memory(
        self, space: int, address: int, nbytes: int
    ) -> tuple[bytes, Sequence[bool], Sequence[int]]:
        """Return memory as it was after the cursor's command.

        Returns:
            The bytes, whether each was ever written, and the command that wrote
            each (-1 for none).
        """
        ...
