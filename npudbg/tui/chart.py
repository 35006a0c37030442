"""The engines' time around the cursor, as lines; the pane only shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudbg.render import timeline
from npudbg.session.lines import Line, line

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.tui.port import Port

_AROUND = 24
_LEAST = 64


class EngineChart:
    """A window of cycles that moves with the cursor."""

    def __init__(self, session: Session, port: Port) -> None:
        """Chart the engines of a session around the debugger's cursor."""
        self.session, self.port = session, port
        self.span = 0
        self._chart: tuple[tuple[int, int, int], timeline.Busy] | None = None

    def lines(self, width: int) -> tuple[Line, list[Line]]:
        """Return title and chart of ``width`` columns; the session has commands."""
        low, high, cycle = self._cycles()
        title = line((" engines ", "title"), f"cycles {low:,}..{high:,} ", ("+ - zoom", "dim"))
        key = (low, high, timeline.columns_of(width))
        if self._chart is None or self._chart[0] != key:
            self._chart = key, timeline.busy(self.session, *key)
        chart = self._chart[1]
        return title, timeline.timeline(self.session, low, high, width, cycle=cycle, chart=chart)

    def scale(self, factor: float) -> None:
        """Show more (``factor`` above 1) or fewer cycles."""
        low, high, _ = self._cycles()
        span = max((high - low) * factor, _LEAST)
        self.span = int(min(span, max(self.session.n_cycles, _LEAST)))

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
