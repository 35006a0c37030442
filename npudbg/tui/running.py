"""A run under way: node k of N, and a way to stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen

from npudbg.render.progress import progress_line
from npudbg.session.lines import line
from npudbg.tui.linebar import LineBar

Progress = Callable[[int, int, str], None]
Runner = Callable[[Progress, threading.Event], "Path | str"]
_SECONDS = 0.25


class RunningScreen(Screen[None]):
    """Runs a runner in a thread; redraws at most four times a second, and only on news."""

    DEFAULT_CSS = """
    RunningScreen { align: center middle; }
    RunningScreen > Vertical {
        width: 90%; max-width: 100; height: 7; border: solid $primary; padding: 1 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,q", "cancel", show=False, id="run.cancel", priority=True),
    ]

    class Done(Message):
        """The runner ended: with a session's path, or with an error."""

        def __init__(self, path: Path | str | None, error: BaseException | None) -> None:
            """Say how."""
            super().__init__()
            self.path, self.error = path, error

    class Step(Message):
        """The runner came further."""

        def __init__(self, done: int, total: int, label: str) -> None:
            """Say how far."""
            super().__init__()
            self.done, self.total, self.label = done, total, label

    def __init__(self, runner: Runner) -> None:
        """Run ``runner(progress, cancel)``."""
        super().__init__()
        self.runner = runner
        self.cancel = threading.Event()
        self._last = 0.0

    def compose(self):
        """Lay out progress and hint."""
        with Vertical() as box:
            box.border_title = "npudbg: running"
            yield LineBar(id="progress")
            yield LineBar()
            yield LineBar(id="hint")

    def on_mount(self) -> None:
        """Start."""
        self.query_one("#progress", LineBar).show(line("reading model and inputs"))
        self.query_one("#hint", LineBar).show(
            line(("Esc or Ctrl+C", "key"), " stops; what was recorded until then is shown")
        )
        threading.Thread(target=self._run, name="npudbg-run", daemon=True).start()

    def _run(self) -> None:
        try:
            path, error = self.runner(self._progress, self.cancel), None
        except BaseException as problem:
            path, error = None, problem
        self.post_message(self.Done(path, error))

    def _progress(self, done: int, total: int, label: str) -> None:
        now = time.monotonic()
        if now - self._last >= _SECONDS or done >= total:
            self._last = now
            self.post_message(self.Step(done, total, label))

    def on_running_screen_step(self, event: Step) -> None:
        """Show how far it is."""
        bar = self.query_one("#progress", LineBar)
        bar.show(progress_line(event.done, event.total, event.label, bar.size.width))

    def action_cancel(self) -> None:
        """Ask the run to stop after this node."""
        self.cancel.set()
        self.query_one("#hint", LineBar).show(line(("stopping after this node …", "warn")))
