"""The help screen, and other texts that are read and left."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from npudbg.session.lines import Line
from npudbg.tui.lineview import LineView
from npudbg.tui.sources import Lines


class TextScreen(ModalScreen[None]):
    """Lines in a frame over the screen; Esc, q or ? leaves."""

    DEFAULT_CSS = """
    TextScreen { align: center middle; }
    TextScreen > Vertical {
        width: 90%; max-width: 92; height: 90%; border: heavy $primary; background: $surface;
        border-title-color: $text; padding: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "leave", show=False, id="text.leave"),
    ]

    def __init__(self, title: str, lines: list[Line]) -> None:
        """Show ``lines`` under ``title``."""
        super().__init__()
        self.heading, self.lines = title, lines

    def compose(self):
        """Lay out the list."""
        with Vertical():
            yield LineView()

    def on_mount(self) -> None:
        """Fill it."""
        self.query_one(Vertical).border_title = f"{self.heading} (Esc leaves)"
        view = self.query_one(LineView)
        view.show(Lines(self.lines))
        view.focus()

    def action_leave(self) -> None:
        """Close the text."""
        self.dismiss(None)

    def on_line_view_chosen(self) -> None:
        """Enter leaves, too."""
        self.dismiss(None)
