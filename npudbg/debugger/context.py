"""What every verb works on: one session, one cursor, its stops and what is displayed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from npudbg.debugger.cursor import Cursor
from npudbg.debugger.forks import Forker
from npudbg.debugger.state import State
from npudbg.debugger.tensors import Tensors
from npudbg.session.commands import Kind
from npudbg.session.reader import Session

if TYPE_CHECKING:
    from npudbg.debugger.breakpoints import Table
    from npudbg.debugger.sessions import Sessions


@dataclass
class Display:
    """An expression or a piece of memory that is shown at every stop.

    Attributes:
        number: What ``undisplay`` calls it.
        text: The line that shows it, e.g. ``p max(out)``.
    """

    number: int
    text: str


@dataclass
class Context:
    """The debugger's state.

    Attributes:
        session: The record.
        target: The profile it ran on, if known.
        state: Memory as it was.
        tensors: Tensors as they were.
        cursor: Where one stands.
        table: Breakpoints and watchpoints.
        displays: What is shown at every stop.
        golden: Values to compare with, by tensor name.
        frame: How far ``up`` has gone from the cursor's tensor, as tensor ids.
        next_address, next_form: Where an ``x`` without an address goes on, and how.
        listed: Where a ``list`` without a place goes on.
        forker: Does the run again with changes; None where that cannot be done.
        sessions: All sessions that are open, this one among them.
        wants_quit: Whether ``quit`` was entered.
        width: Columns to keep to.
    """

    session: Session
    target: Any = None
    state: State = field(init=False)
    tensors: Tensors = field(init=False)
    cursor: Cursor = field(init=False)
    table: Table = field(init=False)
    displays: list[Display] = field(default_factory=list)
    golden: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    frame: list[int] = field(default_factory=list)
    next_address: tuple[int, int] | None = None
    next_form: str = ""
    listed: int | None = None
    forker: Forker | None = None
    sessions: Sessions = field(init=False)
    wants_quit: bool = False
    width: int = 100

    def __post_init__(self) -> None:
        """Make the parts."""
        from npudbg.debugger.breakpoints import Table

        self.state = State(self.session)
        self.tensors = Tensors(self.state)
        self.cursor = Cursor(self.session)
        self.table = Table()

    @property
    def seq(self) -> int:
        """The cursor's command; in a session without commands, the end of time."""
        return self.cursor.seq if self.cursor.last >= 0 else 1 << 60

    def row(self, seq: int | None = None) -> Any:
        """Return a command's row, the cursor's by default.

        Raises:
            DebuggerError: The session has no commands.
        """
        self.cursor.require()
        return self.session.command(self.cursor.seq if seq is None else seq)

    @property
    def origin(self) -> str:
        """Where the session's cycles and addresses come from."""
        return "simulated" if self.session.meta.backend == "simulated" else "measured"

    def current_tensor(self) -> int:
        """Return the tensor that the cursor's command moves or makes, or of its frame; -1."""
        if self.frame:
            return self.frame[-1]
        if self.cursor.last < 0:
            return -1
        row = self.row()
        number = int(row["tensor"])
        if 0 <= number < len(self.session.tensors):
            return number
        node = self.cursor.node(self.cursor.seq)
        if node is not None and int(row["kind"]) in (Kind.WAIT, Kind.HOST, Kind.CONFIG):
            return next((t for t in node.outputs if t >= 0), -1)
        return -1
