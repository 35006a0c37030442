"""The debugger's interpreter as the screen's port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudbg.debugger.interpreter import Interpreter
from npudbg.debugger.state import State
from npudbg.render.explained import explained
from npudbg.session.lines import Line

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding
    from npudbg.targets.profile import Target
    from npudbg.tui.port import Live

_TEXT_WIDTH = 86


class InterpreterPort:
    """Implements :class:`~npudbg.tui.port.Port` over a session."""

    def __init__(
        self, session: Session, *, target: Target | None = None, live: Live | None = None
    ) -> None:
        """Debug ``session``."""
        self.session, self.live = session, live
        self.simulated = session.meta.backend == "simulated"
        self.interpreter = Interpreter(session, target)
        self.state: State = self.interpreter.state

    @property
    def wants_quit(self) -> bool:
        """Whether the last line was ``quit``."""
        return bool(self.interpreter.quit)

    @property
    def seq(self) -> int:
        """The cursor."""
        return self.interpreter.cursor.seq

    @property
    def reason(self) -> str:
        """Why it stopped there."""
        return self.interpreter.cursor.reason

    def goto(self, seq: int) -> None:
        """Put the cursor on a command."""
        self.interpreter.cursor.goto(seq)

    def execute(self, text: str) -> list[Line]:
        """Execute a line; a live program's own verbs come first."""
        verb = text.split(maxsplit=1)[0] if text.strip() else ""
        if self.live is not None and verb in self.live.verbs():
            return self.live.execute(text)
        return self.interpreter.execute(text)

    def completions(self, text: str) -> list[str]:
        """Return whole lines that begin with ``text``."""
        found = list(self.interpreter.completions(text))
        if self.live is not None:
            found += [v for v in self.live.verbs() if v.startswith(text)]
        return found

    def explain(self, finding: Finding) -> list[Line]:
        """Return the long text of a finding's code."""
        return explained(finding, _TEXT_WIDTH)

    def memory(
        self, space: int, address: int, nbytes: int
    ) -> tuple[bytes, Sequence[bool], Sequence[int]]:
        """Return memory as it was after the cursor's command."""
        return self.state.memory_at(space, address, nbytes, self.seq)
