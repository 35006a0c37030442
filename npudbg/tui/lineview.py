"""The one list of the program: lines made when seen, however many there are."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from npudbg.render.fit import fit
from npudbg.session.errors import SessionError
from npudbg.session.lines import Line, line
from npudbg.session.records import Subject
from npudbg.tui.paint import CLASSES, Painter, css
from npudbg.tui.sources import Lines, Source

_CACHE = 512


class LineView(ScrollView, can_focus=True):
    """A virtual list with one highlighted line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    DEFAULT_CSS = (
        css("LineView")
        + """
    LineView { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    LineView.-fixed { overflow-y: hidden; }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False, id="list.up"),
        Binding("down,j", "move(1)", show=False, id="list.down"),
        Binding("pageup,ctrl+b", "page(-1)", show=False, id="list.page-up"),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False, id="list.page-down"),
        Binding("home,g", "edge(-1)", show=False, id="list.first"),
        Binding("end,G", "edge(1)", show=False, id="list.last"),
        Binding("enter", "choose", show=False, id="list.choose"),
    ]

    class Moved(Message):
        """The user moved to a line."""

        def __init__(self, view: LineView, index: int, subject: Subject | None) -> None:
            """Say which."""
            super().__init__()
            self.view, self.index, self.subject = view, index, subject

        @property
        def control(self) -> LineView:
            """The list."""
            return self.view

    class Chosen(Moved):
        """The user pressed Enter on a line (or clicked it twice)."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        """Make an empty list; one of class ``quiet`` marks its line only while it has the focus."""
        super().__init__(id=id, classes=classes)
        self.source: Source = Lines()
        self.index = 0
        self.show_highlight = True
        self.quiet = self.has_class("quiet")
        self._painter = Painter(self)
        self._strips: OrderedDict[tuple[int, int, str], Strip] = OrderedDict()

    # -- what is shown -------------------------------------------------------------------

    def show(self, source: Source, *, index: int | None = None) -> None:
        """Show another source; keeps the position unless ``index`` is given."""
        self.source = source
        self._strips.clear()
        self.index = max(min(self.index if index is None else index, len(source) - 1), 0)
        self._resize()
        self._reveal()
        self.refresh()

    def show_lines(self, lines: list[Line], *, index: int | None = None) -> None:
        """Show these lines (nothing is redrawn when they are the same)."""
        known = self.source.lines if isinstance(self.source, Lines) else None
        if known == lines and index in (None, self.index):
            return
        self.show(Lines(lines), index=index)

    def move_to(self, index: int) -> None:
        """Highlight a line without telling anyone."""
        index = max(min(index, len(self.source) - 1), 0)
        if index != self.index:
            self._repaint(self.index)
            self.index = index
            self._repaint(index)
        self._reveal()

    def highlight(self, shown: bool) -> None:
        """Show or hide the highlight: hidden where the list has no line for what is selected."""
        if shown != self.show_highlight:
            self.show_highlight = shown
            self._repaint(self.index)

    def forget(self, *numbers: int) -> None:
        """Lines with these numbers (all, if none) must be made again."""
        if not numbers:
            self._strips.clear()
            self.refresh()
            return
        for key in [k for k in self._strips if k[0] in numbers]:
            del self._strips[key]
        for number in numbers:
            self._repaint(number)

    def subject_at(self, index: int) -> Subject | None:
        """Return what a line is about."""
        if not 0 <= index < len(self.source):
            return None
        return self._line(index, max(self.scrollable_content_region.width, 20)).subject

    # -- painting ------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Paint one line of the screen."""
        width = self.scrollable_content_region.width
        number = y + self.scroll_offset.y
        if not 0 <= number < len(self.source):
            return Strip.blank(width, self.rich_style)
        highlight = ""
        if self.show_highlight and number == self.index:
            highlight = "highlight" if self.has_focus else "" if self.quiet else "highlight-blur"
        key = (number, width, highlight)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._painter.strip(self._line(number, width), width, highlight)
            self._strips[key] = strip
            if len(self._strips) > _CACHE:
                self._strips.popitem(last=False)
        else:
            self._strips.move_to_end(key)
        return strip

    def _line(self, number: int, width: int) -> Line:
        try:
            return fit(self.source.line(number, width), width)
        except SessionError as error:
            return line((f"! {error}", "error"))

    def _repaint(self, number: int) -> None:
        row = number - self.scroll_offset.y
        if 0 <= row < self.size.height:
            self.refresh_line(number)

    def _resize(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.source))

    def _reveal(self) -> None:
        height = self.scrollable_content_region.height
        if height <= 0:
            return
        top = self.scroll_offset.y
        if not top <= self.index < top + height:
            # A jump lands in the middle, a step at the edge.
            near = top - 1 <= self.index <= top + height
            goal = self.index - height // 2 if not near else (
                self.index if self.index < top else self.index - height + 1
            )  # fmt: skip
            self.scroll_to(y=max(goal, 0), animate=False, force=True, immediate=True)

    def notify_style_update(self) -> None:
        """Read the theme again."""
        self._painter.forget()
        self._strips.clear()
        super().notify_style_update()

    def on_resize(self) -> None:
        """Fit the new width."""
        self._strips.clear()
        self._resize()
        self._reveal()

    def on_focus(self) -> None:
        """The highlight of a focused list looks different."""
        self._repaint(self.index)

    def on_blur(self) -> None:
        """The highlight of a focused list looks different."""
        self._repaint(self.index)

    # -- moving --------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move by one line."""
        self._user_moves(self.index + step)

    def action_page(self, step: int) -> None:
        """Move by a page."""
        self._user_moves(self.index + step * max(self.scrollable_content_region.height - 1, 1))

    def action_edge(self, step: int) -> None:
        """Move to the first or last line."""
        self._user_moves(0 if step < 0 else len(self.source) - 1)

    def action_choose(self) -> None:
        """Open what the line is about."""
        if len(self.source):
            self.post_message(self.Chosen(self, self.index, self.subject_at(self.index)))

    def on_click(self, event: events.Click) -> None:
        """A click moves to a line, a second one opens it."""
        number = event.y + self.scroll_offset.y
        if not 0 <= number < len(self.source):
            return
        self._user_moves(number)
        if event.chain > 1:
            self.action_choose()

    def _user_moves(self, index: int) -> None:
        before = self.index
        self.move_to(index)
        if self.index != before or not self.show_highlight:
            self.post_message(self.Moved(self, self.index, self.subject_at(self.index)))
