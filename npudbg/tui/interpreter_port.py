"""The debugger's interpreter as the screen's port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudbg.debugger.interpreter import Interpreter
from npudbg.debugger.verbs.info_dma import conflict_lines, descriptor_lines
from npudbg.render.explained import explained
from npudbg.session.lines import Line

if TYPE_CHECKING:
    from npudbg.debugger.forks import Forker
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding
    from npudbg.targets.profile import Target
    from npudbg.tui.port import Live


class InterpreterPort(Interpreter):
    """Implements :class:`~npudbg.tui.port.Port` over a session, and over a live program."""

    def __init__(
        self,
        session: Session,
        *,
        target: Target | None = None,
        live: Live | None = None,
        forker: Forker | None = None,
    ) -> None:
        """Debug ``session``; ``forker`` does its run again, for ``set``."""
        super().__init__(session, target, forker)
        self.live = live

    @property
    def mode(self) -> str:
        """Whether this is the session that was opened, or which fork."""
        number = self.sessions.current.number
        return "REPLAY" if number == 1 else f"FORK {number}"

    def keep_to(self, width: int) -> None:
        """Let what commands print fit ``width`` columns, where they can."""
        self.context.width = width

    def execute(self, text: str) -> list[Line]:
        """Execute a line; a live program's own verbs come first."""
        words = text.split(maxsplit=1)
        if self.live is not None and words and words[0] in self.live.verbs():
            return self.live.execute(text)
        return super().execute(text)

    def completions(self, text: str) -> list[str]:
        """Return whole lines that begin with ``text``."""
        found = super().completions(text)
        if self.live is not None:
            found = sorted({*found, *(v for v in self.live.verbs() if v.startswith(text))})
        return found

    def descriptor(self, seq: int) -> list[Line]:
        """Return a transfer's DMA descriptor, or what a kernel's operands in one bank cost."""
        row = self.session.command(seq)
        return [*descriptor_lines(self.context, row), *conflict_lines(self.context, row)]

    def explain(self, finding: Finding, width: int) -> list[Line]:
        """Return the long text of a finding's code, wrapped to ``width`` columns."""
        return explained(finding, width)
