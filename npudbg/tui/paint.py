"""From lines with meanings to strips with styles."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from npudbg.session.lines import Line

MEANINGS = (
    "title", "dim", "key", "address", "number", "ok", "warn", "error", "changed", "current", "mark",
)  # fmt: skip
CLASSES = {f"line--{name}" for name in MEANINGS} | {"line--highlight", "line--highlight-blur"}

CSS = "\n".join(
    f"{{widget}} > .line--{name} {{{{ {rule} }}}}"
    for name, rule in {
        "title": "text-style: bold;",
        "dim": "text-style: dim;",
        "key": "color: $primary;",
        "address": "color: $secondary;",
        "number": "",
        "ok": "color: $success;",
        "warn": "color: $warning;",
        "error": "color: $error; text-style: bold;",
        "changed": "color: $accent; text-style: bold;",
        "current": "text-style: bold; color: $accent;",
        "mark": "color: $accent; text-style: bold;",
        "highlight": "background: $primary; color: $background; text-style: bold not dim;",
        "highlight-blur": "background: $panel-lighten-2; text-style: bold not dim;",
    }.items()
)
# Where colours are the terminal's own, or none at all, the highlight is an attribute.
_PLAIN = """
{widget}:ansi > .line--highlight {{
    text-style: reverse; color: ansi_default; background: ansi_default;
}}
{widget}:ansi > .line--highlight-blur {{ text-style: underline; background: ansi_default; }}
"""


def css(widget: str) -> str:
    """Return the default styles of the meanings inside a widget of that name."""
    return (CSS + _PLAIN).format(widget=widget)


class Painter:
    """Turns lines into strips in the styles of one widget."""

    def __init__(self, widget: Widget) -> None:
        """Paint for ``widget``, whose component classes are :data:`CLASSES`."""
        self.widget = widget
        self._styles: dict[str, Style] = {}

    def forget(self) -> None:
        """The theme changed: read the styles again."""
        self._styles.clear()

    def strip(self, line: Line, width: int, highlight: str = "") -> Strip:
        """Return a strip of exactly ``width`` cells.

        Args:
            line: What to paint; its text is data, never markup.
            width: Cells.
            highlight: ``highlight``, ``highlight-blur`` or ``""``.
        """
        base = self.widget.rich_style
        over = self._style(highlight) if highlight else None
        segments = []
        for span in line.spans:
            style = base + self._style(span.style) if span.style else base
            segments.append(Segment(span.text, style + over if over else style))
        fill = base + over if over else base
        return Strip(segments).adjust_cell_length(width, fill).simplify()

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self.widget.get_component_rich_style(f"line--{name}", partial=True)
            self._styles[name] = style
        return style
