"""The Textual application: a run, then the debugger over what it recorded."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import BindingType
from textual.screen import Screen

from npudbg.tui import style, theme
from npudbg.tui.palette import DebuggerCommands
from npudbg.tui.running import Runner, RunningScreen
from npudbg.tui.screen import DebuggerScreen


class NpudbgApp(App[int]):
    """The program on a terminal."""

    TITLE = "npudbg"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[Any]] = {DebuggerCommands}
    BINDINGS: ClassVar[list[BindingType]] = []
    ESCAPE_TO_MINIMIZE = False
    CSS = style.CSS

    def __init__(
        self,
        *,
        screen: DebuggerScreen | None = None,
        runner: Runner | None = None,
        opened: Callable[[Any], DebuggerScreen] | None = None,
        keys: dict[str, str] | None = None,
    ) -> None:
        """Show a session's screen, or run first.

        ``ended_by`` becomes the number of the signal that ended the program, if one did.

        Args:
            screen: The debugger over an open session.
            runner: A run to make first; see :class:`~npudbg.tui.running.RunningScreen`.
            opened: Makes the debugger's screen from the run's path.
            keys: The user's keys by id.
        """
        super().__init__()
        self._first, self._runner, self._opened = screen, runner, opened
        self.debugger = screen
        self.failure: BaseException | None = None
        self.ended_by = 0
        self.register_theme(theme.THEME)
        self.theme = theme.chosen()
        if keys:
            self.set_keymap(keys)

    def get_default_screen(self) -> Screen[Any]:
        """Start with the debugger, or with the run."""
        if self._first is not None:
            return self._first
        assert self._runner is not None
        return RunningScreen(self._runner)

    def on_mount(self) -> None:
        """Leave on SIGTERM and SIGHUP with the terminal restored."""
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:
                continue
            try:
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)
            except (NotImplementedError, RuntimeError, ValueError):
                return  # not in the main thread: the caller's handlers stay

    def _end(self, number: int) -> None:
        """A signal came: stop the run, if one is under way, and leave after it."""
        self.ended_by = number
        if isinstance(self.screen, RunningScreen):
            self.screen.action_cancel()
        else:
            self.exit()

    def exit(self, *args: Any, **more: Any) -> None:
        """Leave; a run under way is stopped, for its thread is waited for."""
        for screen in self.screen_stack:
            if isinstance(screen, DebuggerScreen) and screen.running is not None:
                screen.running.cancel.set()
        super().exit(*args, **more)

    def on_running_screen_done(self, event: RunningScreen.Done) -> None:
        """The run ended: debug what it recorded, or leave with its error."""
        if self.ended_by:
            self.exit()
            return
        if event.error is not None or event.path is None or self._opened is None:
            self.failure = event.error
            self.exit(2)
            return
        try:
            self.debugger = self._opened(event.path)
        except Exception as error:
            self.failure = error
            self.exit(2)
            return
        self.push_screen(self.debugger)

    def action_help_quit(self) -> None:
        """Ctrl+C stops a run under way; else it leaves, as engineers expect."""
        if not (isinstance(self.screen, DebuggerScreen) and self.screen.stop()):
            self.exit()

    def on_app_blur(self, event: events.AppBlur) -> None:
        """Nothing changes when the terminal loses the focus: nothing is redrawn."""
        event.prevent_default()

    def on_app_focus(self, event: events.AppFocus) -> None:
        """See :meth:`on_app_blur`."""
        event.prevent_default()
