"""The help screen, and other texts that are read and left."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from npudbg.session.lines import Line
from npudbg.tui.lineview import LineView
from npudbg.tui.sources import Lines

_WIDEST = 92
_FRAME = 5
"""Border, padding and scrollbar: columns of the frame that hold no text."""


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

    def __init__(self, title: str, make: Callable[[int], list[Line]]) -> None:
        """Show the lines that ``make(width)`` returns under ``title``."""
        super().__init__()
        self.heading, self.make = title, make

    def compose(self):
        """Lay out the list."""
        with Vertical():
            yield LineView()

    def on_mount(self) -> None:
        """Fill it."""
        self.query_one(Vertical).border_title = f"{self.heading} (Esc leaves)"
        self._fill(self.app.size.width)
        self.query_one(LineView).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Wrap to the new width."""
        self._fill(event.size.width)

    def _fill(self, width: int) -> None:
        room = max(min(width * 9 // 10, _WIDEST) - _FRAME, 20)
        self.query_one(LineView).show(Lines(self.make(room)))

    def action_leave(self) -> None:
        """Close the text."""
        self.dismiss(None)

    def on_line_view_chosen(self) -> None:
        """Enter leaves, too."""
        self.dismiss(None)
