"""Layer 3's pane: commands, the memory as it was, the engines' time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from textual.containers import Container, Vertical
from textual.css.query import NoMatches

from npudbg.render import commands, memory, timeline
from npudbg.render.transfer import transfer_detail
from npudbg.session.commands import space_name
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.lines import line
from npudbg.session.text import safe
from npudbg.tui.linebar import LineBar
from npudbg.tui.lineview import LineView
from npudbg.tui.panes import Pane
from npudbg.tui.queue import QueueView
from npudbg.tui.selection import Selection, of_command, tensor_at
from npudbg.tui.sources import Commands

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.targets.profile import Target
    from npudbg.tui.port import Port

_MEMORY_ROWS = 16
_AROUND = 24
_SEARCHED = 1 << 20
_KNOWN = 8
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
        self.as_values = True
        self.span = 0
        self.commands = Commands(session)
        self._chart: tuple[tuple[int, int, int], timeline.Busy] | None = None
        self._known: dict[tuple[int, int, int, int], Any] = {}

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
        if chosen.address is None:
            bar.show(line((" memory ", "title"), ("nothing selected has an address", "dim")))
            view.show_lines([])
            return
        width = max(view.scrollable_content_region.width, 40)
        dtype = self._dtype()
        count = memory.bytes_per_row(width, dtype)
        try:
            start = self._start(chosen.address, count)
            data, written, writers = self._memory(chosen.space, start, count * _MEMORY_ROWS)
        except (UserError, ValueError, OverflowError) as error:
            bar.show(line((" memory ", "title"), (safe(error, 200), "error")))
            view.show_lines([])
            return
        seq = self.port.seq
        space = space_name(chosen.space)
        lines = memory.hexdump(
            start, data, width, written=written, changed=[w == seq for w in writers],
            dtype=dtype, space=space,
        )  # fmt: skip
        newest = max((w for w in writers if w >= 0), default=-1)
        names = {}
        if newest >= 0:
            row = self.session.command(newest)
            names[newest] = commands.what(self.session, row, 40).split("→")[0].strip()
        bar.show(
            line(
                (" memory ", "title"),
                (f"{space} as after command {seq}", ""),
                (" simulated  " if self.port.simulated else "  ", "dim"),
                *memory.writer_line(writers, written, names, 200).spans,
            )
        )
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
        width = max(view.scrollable_content_region.width, 40)
        low, high, cycle = self._cycles()
        bar.show(line((" engines ", "title"), f"cycles {low:,}..{high:,} ", ("+ - zoom", "dim")))
        key = (low, high, timeline.columns_of(width))
        if self._chart is None or self._chart[0] != key:
            self._chart = key, timeline.busy(self.session, *key)
        lines = timeline.timeline(self.session, low, high, width, cycle=cycle, chart=self._chart[1])
        view.show_lines(lines, index=0)

    def scale(self, factor: float) -> None:
        """Show more or fewer cycles."""
        low, high, _ = self._cycles()
        self.span = int(min(max((high - low) * factor, 64), max(self.session.n_cycles, 64)))
        self.show_timeline()

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
            if event.subject is not None:
                self.screen.select(event.subject)

    def _switch_lower(self) -> None:
        self.toggle_class("-memory")
        self.toggle_class("-timeline")
        self.call_after_refresh(self.fill)

    def writer(self) -> int | None:
        """Return the newest command that wrote the bytes shown."""
        chosen = self.selection
        if chosen.address is None:
            return None
        view = self.query_one("#trace-memory", LineView)
        count = memory.bytes_per_row(max(view.scrollable_content_region.width, 40), self._dtype())
        try:
            start = self._start(chosen.address, count)
            _, _, writers = self._memory(chosen.space, start, count * _MEMORY_ROWS)
        except (UserError, ValueError, OverflowError):
            return None
        return max((int(w) for w in writers if w >= 0), default=None)

    def _memory(
        self, space: int, address: int, nbytes: int
    ) -> tuple[bytes, Sequence[bool], Sequence[int]]:
        """Return memory at the cursor; asked again for the same, it is not fetched again."""
        key = (self.port.seq, space, address, nbytes)
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = self.port.memory(space, address, nbytes)
        return self._known[key]

    def _dtype(self) -> str | None:
        tensor = tensor_at(self.session, self.selection) if self.as_values else None
        if tensor is None:
            return None
        name = tensor.dtype
        plain = name.lstrip("<>|=")
        return name if plain[:1] in ("f", "i", "u", "b") else None

    def _start(self, address: int, count: int) -> int:
        """Return where the dump begins: a row before the first NaN or Inf written, if any."""
        bad = self._first_bad()
        if bad is not None:
            return max(bad - bad % count - count, address - address % count)
        return max(address - address % count, 0)

    def _first_bad(self) -> int | None:
        chosen = self.selection
        if chosen.tensor is None or chosen.seq is None or chosen.seq != self.port.seq:
            return None
        tensor = self.session.tensors[chosen.tensor]
        row = self.session.command(chosen.seq)
        bad = tensor.stats is not None and tensor.stats.nonfinite
        if not bad or int(row["dst"]) != chosen.address or int(row["tensor"]) != tensor.id:
            return None
        data, _, _ = self._memory(chosen.space, int(row["dst"]), min(int(row["nbytes"]), _SEARCHED))
        element = numpy_dtype(tensor.dtype)
        values = np.frombuffer(data, element, len(data) // element.itemsize)
        if values.dtype.kind == "V":
            values = values.astype(np.float32)
        if values.dtype.kind != "f":
            return None
        hits = np.flatnonzero(~np.isfinite(values))
        return int(row["dst"]) + int(hits[0]) * element.itemsize if len(hits) else None

    def _cycles(self) -> tuple[int, int, int]:
        row = self.session.command(min(self.port.seq, self.session.n_commands - 1))
        cycle = int(row["start"])
        whole = max(self.session.n_cycles, 1)
        if not self.span:
            cost = max(int(row["end"]) - cycle, 16)
            self.span = min(cost * _AROUND, whole)
        # The window moves by halves, so that a step does not redraw all of it.
        half = max(self.span // 2, 1)
        low = max((cycle // half) * half - half // 2, 0)
        return low, low + self.span, cycle
