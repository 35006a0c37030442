"""A run that is done again while the debugger is on the screen: progress, and a way to stop it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from npudbg.render.progress import progress_line
from npudbg.session.errors import UserError
from npudbg.session.lines import Line, line
from npudbg.session.text import safe
from npudbg.tui.prompt import PromptBar
from npudbg.tui.sessions import SessionScreen

if TYPE_CHECKING:
    from textual.timer import Timer

    from npudbg.debugger.forks import Forked, Rerun

_SECONDS = 0.25
"""Between two looks at how far a run is."""
_HINT = line(("  Esc", "key"), " stops")


@dataclass
class Running:
    """A run under way.

    Attributes:
        rerun: What is being done.
        line: How far it is.
        cancel: Set to stop it.
        step: How far it is by now: nodes done, nodes in all, label.
        shown: The step that ``line`` shows.
    """

    rerun: Rerun
    line: Line
    cancel: threading.Event = field(default_factory=threading.Event)
    step: tuple[int, int, str] = (0, 0, "")
    shown: tuple[int, int, str] = (0, 0, "")

    def progress(self, done: int, total: int, label: str) -> None:
        """Note how far it is; called in the run's thread."""
        self.step = done, total, label


class RerunScreen(SessionScreen):
    """A screen on which a run can be done again, in a thread of its own.

    The panes stay usable: the run reads its parent's record and writes a file of its own.

    Attributes:
        running: The run under way, if there is one.
    """

    running: Running | None = None
    _timer: Timer | None = None

    class Ended(Message):
        """A run ended: with a fork, or with an error."""

        def __init__(
            self, running: Running, forked: Forked | None, error: BaseException | None
        ) -> None:
            """Say which, and how."""
            super().__init__()
            self.running, self.forked, self.error = running, forked, error

    def bars(self) -> None:
        """Show head, tabs and keys again."""
        raise NotImplementedError

    def tell(self, lines: list[Line], said: str = "", *, quiet: bool = False) -> None:
        """Print what a line of the debugger's language said."""
        raise NotImplementedError

    def rerun(self, text: str) -> bool:
        """Begin the run that a line asks for; return whether it asks for one."""
        rerun = self.port.rerun(text)
        if rerun is None:
            return False
        if self.running is not None:
            self.tell([line(("a run is under way; Esc stops it", "error"))], text)
            return True
        self.running = Running(rerun, line(("reading the model", "title"), *_HINT.spans))
        self.tell([], text)
        # So that Esc stops the run, and does not leave the prompt first.
        self.query_one(PromptBar).close()
        self.focus_active()
        self.bars()
        self._timer = self.set_interval(_SECONDS, self._show_progress)
        work = partial(self._work, self.running)
        self.run_worker(work, name="npudbg-rerun", group="rerun", thread=True, exit_on_error=False)
        return True

    def stop(self) -> bool:
        """Ask the run under way to stop after its node; return whether there is one."""
        if self.running is None:
            return False
        self.running.cancel.set()
        self.running.line = line(("stopping after this node …", "warn"))
        self.bars()
        return True

    def _show_progress(self) -> None:
        """Show how far the run is; the same again costs nothing."""
        running = self.running
        if running is None or running.cancel.is_set() or running.step == running.shown:
            return
        running.shown = running.step
        done, total, label = running.step
        shown = progress_line(done, total, label, self.size.width - len(_HINT.text))
        running.line = Line((*shown.spans, *_HINT.spans))
        self.bars()

    def on_rerun_screen_ended(self, event: Ended) -> None:
        """Go to the fork, or say why there is none."""
        self.running = None
        if self._timer is not None:
            self._timer.stop()
        if event.forked is not None:
            lines = self.port.adopt(event.running.rerun, event.forked)
        elif isinstance(event.error, UserError):
            lines = [line((safe(event.error, 400), "error"))]
        else:
            kind = type(event.error).__name__
            lines = [line((f"the run failed ({kind}: {safe(event.error, 300)})", "error"))]
        if not self.follow_session():
            self.bars()
        self.tell(lines)

    # -- the thread ----------------------------------------------------------------------

    def _work(self, running: Running) -> None:
        forked: Forked | None = None
        error: BaseException | None = None
        try:
            forked = running.rerun.run(running.progress, running.cancel)
        except BaseException as problem:
            error = problem
        self.post_message(self.Ended(running, forked, error))
