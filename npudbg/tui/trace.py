"""Layer 3's pane: commands, the memory as it was, the engines' time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.containers import Container, Vertical
from textual.css.query import NoMatches

from npudbg.render import commands
from npudbg.render.transfer import transfer_detail
from npudbg.session.lines import line
from npudbg.tui.chart import EngineChart
from npudbg.tui.linebar import LineBar
from npudbg.tui.lineview import LineView
from npudbg.tui.memory import MemoryDump
from npudbg.tui.panes import Pane
from npudbg.tui.queue import QueueView
from npudbg.tui.selection import Selection, of_command
from npudbg.tui.sources import Commands

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.targets.profile import Target
    from npudbg.tui.port import Port

WIDE = 120
"""Columns from which a command is shown in full beside the list."""


class TracePane(Pane):
    """Commands (or the DMA queue) above, memory and engines below."""

    title = "3 Trace"

    def __init__(
        self, session: Session, port: Port, target: Target | None = None, *, id: str
    ) -> None:
        """Show the commands of a session with the debugger's cursor.

        Args:
            session: The record.
            port: The debugger over it.
            target: The profile that transfers are held against.
            id: Of the pane.
        """
        super().__init__(session, id=id)
        self.port, self.target = port, target
        self.selection = Selection()
        self.commands = Commands(session)
        self.dump = MemoryDump(session, port)
        self.chart = EngineChart(session, port)

    def compose(self):
        """Commands, memory, timeline."""
        with Container(id="trace-upper"):
            with Vertical(id="trace-list"):
                yield LineBar(id="trace-header")
                yield LineView(id="trace-commands")
            yield QueueView(self.session, self.target, id="trace-queue")
            yield LineView(id="trace-detail", classes="quiet")
        yield LineBar(id="memory-title", classes="lower memory lower-title")
        yield LineView(id="trace-memory", classes="lower memory quiet")
        yield LineBar(id="timeline-title", classes="lower timeline lower-title")
        yield LineView(id="trace-timeline", classes="lower timeline")

    @property
    def list_of_commands(self) -> LineView:
        """All commands."""
        return self.query_one("#trace-commands", LineView)

    @property
    def main(self) -> LineView:
        """The commands, or the DMA queue where that is shown in their place."""
        return self.queue.list if self.has_class("-queue") else self.list_of_commands

    @property
    def queue(self) -> QueueView:
        """The DMA queue."""
        return self.query_one(QueueView)

    def on_mount(self) -> None:
        """Memory is what is seen first where only one fits."""
        self.add_class("-memory")
        engines = self.query_one("#trace-timeline", LineView)
        engines.show_highlight = False
        engines.styles.height = min(len(self.session.meta.engines), 8) + 2
        super().on_mount()

    def fill(self) -> None:
        """Make all parts for the width."""
        self.query_one("#trace-header", LineBar).show(
            commands.header(self.session, self.text_width)
        )
        wide = self.size.width >= WIDE
        if wide != self.has_class("-wide"):
            # What stands beside the list has its width only after the next layout.
            self.set_class(wide, "-wide")
            self.call_after_refresh(self.fill)
        if self.list_of_commands.source is not self.commands:
            self.list_of_commands.show(self.commands)
        if self.has_class("-queue"):
            self.queue.fill()
        self.follow(self.selection)

    def follow(self, selection: Selection, *, moved: bool = False) -> None:
        """Stand on the cursor's command; show memory and engines there."""
        if selection.address is None and self.selection.address is not None:
            # A command that writes nothing (a WAIT) leaves the memory shown where it is.
            shown = self.selection
            selection = replace(
                selection, address=shown.address, space=shown.space, tensor=shown.tensor
            )
        elif selection.address is None and self.session.n_commands:
            # A finding about the model has no address: what the cursor's command wrote is shown.
            there = of_command(self.session, self.port.seq)
            selection = replace(
                selection, address=there.address, space=there.space, tensor=there.tensor
            )
        self.selection = selection
        seq = self.port.seq
        if self.commands.cursor != seq:
            before, self.commands.cursor = self.commands.cursor, seq
            self.list_of_commands.forget(before, seq)
        if not moved or self.has_class("-queue"):
            self.list_of_commands.move_to(seq)
        if self.has_class("-queue"):
            self.queue.follow(seq, moved=moved)
        self.show_detail()
        self.show_memory()
        self.show_timeline()

    def show_breaks(self) -> None:
        """Mark the nodes at which a breakpoint stops."""
        stops = self.port.break_nodes()
        if stops != self.commands.stops:
            self.commands.stops = stops
            self.list_of_commands.forget()

    def show_detail(self) -> None:
        """Show the command at the cursor in full, where there is room beside or below."""
        view = self.query_one("#trace-detail", LineView)
        if not self.session.n_commands or not (self.has_class("-wide") or self.has_class("-queue")):
            return
        seq = self.queue.seq_shown if self.has_class("-queue") else self.port.seq
        if seq is None:
            view.show_lines([line(("no transfer up to here", "dim"))], index=0)
            return
        width = max(view.scrollable_content_region.width, 40)
        row = self.session.command(seq)
        wide = self.has_class("-wide")
        lines = transfer_detail(
            self.session, row, self.target, self.port.descriptor(seq), width, short=not wide
        )
        view.show_lines(lines, index=0)

    def show_memory(self) -> None:
        """Show the memory of the selection as it was after the cursor's command."""
        try:
            view = self.query_one("#trace-memory", LineView)
            bar = self.query_one("#memory-title", LineBar)
        except NoMatches:
            return
        chosen = self.selection
        if not view.display or not self.session.n_commands:
            return
        width = max(view.scrollable_content_region.width, 40)
        title, lines = self.dump.lines(chosen, width)
        bar.show(title)
        view.show_lines(lines, index=0)

    def show_timeline(self) -> None:
        """Show the engines around the cursor (or all of the run)."""
        try:
            view = self.query_one("#trace-timeline", LineView)
            bar = self.query_one("#timeline-title", LineBar)
        except NoMatches:
            return
        if not view.display or not self.session.n_commands:
            return
        title, lines = self.chart.lines(max(view.scrollable_content_region.width, 40))
        bar.show(title)
        view.show_lines(lines, index=0)

    def scale(self, factor: float) -> None:
        """Show more or fewer cycles."""
        self.chart.scale(factor)
        self.show_timeline()

    def writer(self) -> int | None:
        """Return the newest command that wrote the bytes shown."""
        view = self.query_one("#trace-memory", LineView)
        return self.dump.writer(self.selection, max(view.scrollable_content_region.width, 40))

    def turn(self, grid: bool) -> None:
        """Show the next view: memory, engines, DMA queue; commands or queue in the grid."""
        if self.has_class("-queue"):
            self.show_queue(False)
            if not grid and self.has_class("-timeline"):
                self._switch_lower()
        elif grid or self.has_class("-timeline"):
            self.show_queue(True)
        else:
            self._switch_lower()

    def show_queue(self, shown: bool) -> None:
        """Show the DMA queue in the place of the commands, or the commands again."""
        focused = self.main.has_focus
        self.set_class(shown, "-queue")
        self.call_after_refresh(self._turned, focused)

    def _turned(self, focused: bool) -> None:
        if focused:
            self.main.focus()
        self.fill()

    def on_line_view_chosen(self, event: LineView.Chosen) -> None:
        """Enter in the queue: to the command in the list of all, with the memory it wrote."""
        if event.view is self.queue.list:
            event.stop()
            self.show_queue(False)
            if self.has_class("-timeline"):
                self._switch_lower()
            if event.subject is not None:
                self.screen.select(event.subject)

    def _switch_lower(self) -> None:
        self.toggle_class("-memory")
        self.toggle_class("-timeline")
        self.call_after_refresh(self.fill)
