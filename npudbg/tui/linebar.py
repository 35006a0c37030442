"""One line of the screen that is redrawn only when it changes."""

from __future__ import annotations

from typing import ClassVar

from textual.strip import Strip
from textual.widget import Widget

from npudbg.render.fit import fit
from npudbg.session.lines import Line
from npudbg.tui.paint import CLASSES, Painter, css


class LineBar(Widget):
    """A bar of one line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    DEFAULT_CSS = css("LineBar") + "\nLineBar { height: 1; }\n"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        """Make an empty bar."""
        super().__init__(id=id, classes=classes)
        self.line = Line()
        self._painter = Painter(self)

    def show(self, line: Line) -> None:
        """Show a line; the same line again costs nothing."""
        if line != self.line:
            self.line = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Paint it."""
        width = self.size.width
        return self._painter.strip(fit(self.line, width) if y == 0 else Line(), width)

    def notify_style_update(self) -> None:
        """Read the theme again."""
        self._painter.forget()
        super().notify_style_update()
