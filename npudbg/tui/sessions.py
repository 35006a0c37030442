"""Going to another session: the panes are made anew, the rest of the screen stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.screen import Screen
from textual.widget import Widget

from npudbg.tui.prompt import PromptBar
from npudbg.tui.selection import Selection, of_command

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.tui.panes import Pane
    from npudbg.tui.port import Port


class SessionScreen(Screen[None]):
    """A screen whose panes show one of the debugger's sessions.

    Attributes:
        changing: The debugger has gone to another session; the panes still show the last.
    """

    session: Session
    port: Port
    panes: list[Pane]
    selection: Selection
    trail: list[Selection]
    changing: bool = False

    def body(self) -> list[Widget]:
        """Return the panes of the session, new ones, in their containers."""
        raise NotImplementedError

    def place_panes(self) -> None:
        """Show the panes that there is room for."""
        raise NotImplementedError

    def show_all(self) -> None:
        """Let all panes and bars show the selection."""
        raise NotImplementedError

    def focus_active(self) -> None:
        """Give the keyboard to the open pane."""
        raise NotImplementedError

    def follow_session(self) -> bool:
        """Show the session that the debugger has gone to, if it has; return whether it has."""
        if self.port.session is self.session:
            return False
        # What comes in until then is about panes that go.
        self.changing = True
        self.call_next(self._change)
        return True

    async def _change(self) -> None:
        self.session = self.port.session
        body = self.query_one("#body", Vertical)
        body.visible = False
        await body.remove_children()
        await body.mount(*self.body())
        self.trail.clear()
        self.selection = Selection()
        self.place_panes()
        self.call_after_refresh(self._changed)

    def _changed(self) -> None:
        if self.port.session is not self.session:
            return  # gone on to yet another one: that change is still to come
        self.changing = False
        if self.session.n_commands:
            self.selection = of_command(self.session, self.port.seq)
        self.show_all()
        self.query_one("#body").visible = True
        if not self.query_one(PromptBar).has_class("-open"):
            self.focus_active()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys wait until the panes are there."""
        return None if self.changing else super().check_action(action, parameters)
