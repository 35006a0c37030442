"""The panes: what each layer shows, and how it follows the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.containers import Vertical

from npudbg.render.host import host_lines, inputs_of
from npudbg.render.inputs import input_lines
from npudbg.render.life import life_lines
from npudbg.session.errors import SessionError
from npudbg.session.lines import Line, line
from npudbg.session.text import safe
from npudbg.tui.lineview import LineView
from npudbg.tui.selection import Selection
from npudbg.tui.sources import Lines

if TYPE_CHECKING:
    from npudbg.plugins.api import Panel, PanelContext
    from npudbg.plugins.loading import Plugins
    from npudbg.session.reader import Session
    from npudbg.targets.profile import Target
    from npudbg.tui.port import Port


_LIVES = 8
"""Inputs whose way to the device is told; more of them are asked for by name."""


class Pane(Vertical):
    """A titled part of the screen with a main list."""

    title: ClassVar[str] = ""

    def __init__(self, session: Session, *, id: str, title: str | None = None) -> None:
        """Make the pane of a session."""
        super().__init__(id=id)
        self.session = session
        self.name_shown = safe(self.title if title is None else title, 16)

    def compose(self):
        """Lay out the main list."""
        yield LineView(classes="main")

    def on_mount(self) -> None:
        """Title and first content."""
        # Text, not markup: a plugin chose it.
        self.border_title = self.name_shown.replace("[", "(")
        self.fill()

    @property
    def main(self) -> LineView:
        """The list that takes the focus."""
        return self.query_one(".main", LineView)

    @property
    def text_width(self) -> int:
        """Columns that a line may take."""
        return max(self.main.scrollable_content_region.width, 20)

    def fill(self) -> None:
        """Make the content (again, when the width changed)."""

    def follow(self, selection: Selection, *, moved: bool = False) -> None:
        """Show what is selected.

        Args:
            selection: What.
            moved: The user moved in this very pane: its main list stays where it is.
        """

    def on_resize(self, event: events.Resize) -> None:
        """Wrapped lines depend on the width."""
        self.call_after_refresh(self._refit)

    def _refit(self) -> None:
        self.fill()
        self.follow(self.screen.selection, moved=True)


class LinesPane(Pane):
    """A pane whose lines are made at once (layers 1 and 2 are short)."""

    def lines(self, width: int) -> list[Line]:
        """Return the pane's lines."""
        raise NotImplementedError

    def fill(self) -> None:
        """Make the lines for the width."""
        self.main.show_lines(self.lines(self.text_width))

    def follow(self, selection: Selection, *, moved: bool = False) -> None:
        """Stand on the first line about the selected tensor."""
        if moved or selection.tensor is None:
            return
        source = self.main.source
        if not isinstance(source, Lines):
            return
        wanted = selection.subject
        exact = next((n for n, row in enumerate(source.lines) if row.subject == wanted), None)
        about = exact if exact is not None and wanted is not None else next(
            (n for n, row in enumerate(source.lines)
             if row.subject is not None and row.subject.tensor == selection.tensor), None
        )  # fmt: skip
        if about is not None:
            self.main.move_to(about)


class HostPane(LinesPane):
    """Layer 1."""

    title = "1 Host"

    def __init__(self, session: Session, target: Target | None, *, id: str) -> None:
        """Show how inputs lie in memory, against ``target``."""
        super().__init__(session, id=id)
        self.target = target

    def lines(self, width: int) -> list[Line]:
        """Return a block an input; below them the steps of each one's way to the device."""
        lines = host_lines(self.session, self.target, width)
        if not self.display:
            return lines  # made when it is seen: a life is told from all commands
        for tensor in inputs_of(self.session)[:_LIVES]:
            lines.append(line(""))
            try:
                lines += life_lines(self.session, tensor, width, target=self.target)
            except SessionError as error:
                lines.append(line((f"! {error}", "error")))
        return lines


class InputPane(LinesPane):
    """Layer 2."""

    title = "2 Input"

    def lines(self, width: int) -> list[Line]:
        """Return contract and tensor of each input."""
        return input_lines(self.session, width)


class PluginPane(Pane):
    """A plugin's panel."""

    def __init__(
        self,
        session: Session,
        plugins: Plugins,
        panel: Panel,
        port: Port,
        target: Target | None,
        *,
        id: str,
        number: int,
        files: tuple[str, ...] = (),
    ) -> None:
        """Show ``panel`` as pane ``number``."""
        super().__init__(session, id=id, title=f"{number} {safe(panel.title, 12)}")
        self.plugins, self.panel, self.port = plugins, panel, port
        self.target, self.files = target, files
        self.selection = Selection()

    def context(self) -> PanelContext:
        """Return what the panel may look at."""
        from npudbg.plugins.api import PanelContext

        return PanelContext(
            session=self.session,
            selection=self.selection.subject,
            seq=self.port.seq,
            width=self.text_width,
            target=self.target,
            files=self.files,
        )

    def fill(self) -> None:
        """Ask the panel for its lines, if it is seen."""
        if not self.display or not self.is_mounted:
            return
        # Guarded there: a plugin that fails is named and left out.
        lines = self.plugins.lines(self.panel, self.context())
        self.main.show_lines(lines)
        at = self._line_of(lines)
        if at is not None:
            self.main.move_to(at)

    def follow(self, selection: Selection, *, moved: bool = False) -> None:
        """Draw the panel around the selection."""
        self.selection = selection
        if not moved:
            self.fill()

    def on_key(self, event: events.Key) -> None:
        """A key of the panel's own selects something."""
        key = event.character if event.character in self.panel.keys else event.key
        if key is None or key not in self.panel.keys:
            return
        event.stop()
        event.prevent_default()
        subject = self.plugins.key(self.panel, self.context(), key)
        if subject is not None:
            self.screen.select(subject)

    def _line_of(self, lines: list[Line]) -> int | None:
        wanted = self.selection
        exact, near = None, None
        for number, row in enumerate(lines):
            subject = row.subject
            if subject is None:
                continue
            if subject == wanted.subject and exact is None:
                exact = number
            if wanted.node is not None and subject.node == wanted.node and near is None:
                near = number
            if any(span.style == "current" for span in row.spans):
                return number
        return exact if exact is not None else near
