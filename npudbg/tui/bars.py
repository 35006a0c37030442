"""What stands around the panes: the head line and the tabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from npudbg.render.fit import cells, cut, cut_middle
from npudbg.render.marks import layer_mark, worst
from npudbg.session.lines import Line, Span, Style, line
from npudbg.session.text import safe
from npudbg.tui.linebar import LineBar

if TYPE_CHECKING:
    from npudbg.session.reader import Session


def head_line(session: Session, seq: int, reason: str, mode: str, width: int) -> Line:
    """Return model, target, why it stopped, command, cycles, and whether it is a replay."""
    meta = session.meta
    model = safe(meta.model.name, 200) if meta.model is not None else "no model"
    count = session.n_commands
    cycle = int(session.command(seq)["start"]) if 0 <= seq < count else 0
    place = f"cmd {seq}/{max(count - 1, 0)}  {cycle:,} cyc" if count else "no commands"
    tail = f"  {place}  {mode}"
    target = f" @{safe(meta.target, 20)}"
    precision = f" {safe(meta.precision, 6)}"
    room = width - cells(tail) - cells(target) - cells(precision)
    reason = safe(reason, 200)
    stop = f"  STOP {reason}" if reason else ""
    # Both are cut where there is no room, the name down to half.
    name = cut_middle(model, max(min(room - cells(stop), 48), room // 2, 10))
    stop = cut(stop, max(room - cells(name), 0))
    gap = max(width - cells(name) - cells(target + precision + stop + tail), 0)
    return line(
        (name, "title"), (target, "key"), (precision, "dim"), (stop, "warn"), " " * gap,
        (f"  {place}", "number"), (f"  {mode}", "current"),
    )  # fmt: skip


class TabBar(LineBar):
    """The panes by number, with how each layer stands."""

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, number: int) -> None:
            """Say which."""
            super().__init__()
            self.number = number

    def set(
        self,
        session: Session,
        titles: Sequence[str],
        sources: Sequence[str],
        active: int,
        right: Line,
    ) -> None:
        """Show the tabs.

        Args:
            session: For the layers' marks.
            titles: By number.
            sources: Names of the plugins whose panes stand at 5 and after.
            active: Which one is open.
            right: What stands on the right where there is room.
        """
        spans: list[Span] = []
        self._ends: list[int] = []
        at = 0
        for number, title in enumerate(titles):
            mark, style = self._mark(session, number, sources)
            text = f"{title} {mark}".rstrip()
            open_, close = ("[", "]") if number == active else (" ", " ")
            spans.append(Span(open_, "current"))
            spans.append(Span(text, "current" if number == active and style == "ok" else style))
            spans.append(Span(close, "current"))
            at += cells(text) + 2
            self._ends.append(at)
        room = self.size.width - at - 1
        if cells(right.text) <= room:
            spans.append(Span(" " * (room - cells(right.text) + 1)))
            spans.extend(right.spans)
        self.show(Line(tuple(spans)))

    def on_click(self, event: events.Click) -> None:
        """Open the tab under the mouse."""
        for number, end in enumerate(getattr(self, "_ends", [])):
            if event.x < end:
                self.post_message(self.Picked(number))
                return

    @staticmethod
    def _mark(session: Session, number: int, sources: Sequence[str]) -> tuple[str, Style]:
        if number == 0:
            errors = sum(f.severity == "error" for f in session.findings)
            mark, style = worst(session.findings)
            return (f"{mark}{errors}" if errors else mark), style
        if number <= 4:
            return layer_mark(session, number)
        found = [f for f in session.findings if f.source == sources[number - 5]]
        return worst(found) if found else ("", "")
