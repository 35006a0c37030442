"""The pane that stands on top: the verdict, all findings, and the selected one in full."""

from __future__ import annotations

from textual.containers import Horizontal

from npudbg.render.findings import finding_detail, finding_line
from npudbg.render.overview import overview_lines
from npudbg.render.verdict import verdict_lines
from npudbg.session.lines import Line, line
from npudbg.session.text import safe
from npudbg.tui.lineview import LineView
from npudbg.tui.panes import Pane
from npudbg.tui.selection import Selection
from npudbg.tui.sources import Rows


class FindingsPane(Pane):
    """The verdict, all findings, and the selected one in full."""

    title = "0 Findings"
    _followed: Selection | None = None

    def compose(self):
        """List beside (or above) detail."""
        with Horizontal(id="findings-body"):
            yield LineView(id="findings-left", classes="main")
            yield LineView(id="findings-detail", classes="quiet")

    def fill(self) -> None:
        """The verdict is line 0; the findings follow."""
        found = self.session.findings
        view = self.main

        def make(number: int, width: int) -> Line:
            if number == 0:
                first = verdict_lines(self.session, width)
                return Line(first[0].spans, None)
            return finding_line(found[number - 1], width)

        def text(number: int) -> str:
            if number == 0:
                return "verdict"
            each = found[number - 1]
            return f"{each.code} {each.name} {each.subject.name} {each.message}"

        view.show(Rows(len(found) + 1, make, text))
        self.detail(view.index)

    def rows_wanted(self, width: int) -> int:
        """Return how many rows show all findings beside the whole verdict.

        Args:
            width: Columns of the verdict.
        """
        verdict = overview_lines(self.session, max(width, 20))
        # What stands below the verdict is read by scrolling.
        ends = next((n for n, row in enumerate(verdict) if not row.text), len(verdict))
        return max(ends, len(self.session.findings) + 1)

    def follow(self, selection: Selection, *, moved: bool = False) -> None:
        """Stand on the selected finding, when it is another one than before."""
        if selection.finding is not None and not moved and selection is not self._followed:
            self.main.move_to(selection.finding + 1)
        self._followed = selection
        self.detail(self.main.index)

    def detail(self, number: int) -> None:
        """Show line ``number`` in full: the verdict, or a finding."""
        view = self.query_one("#findings-detail", LineView)
        width = max(view.scrollable_content_region.width, 20)
        found = self.session.findings
        if number == 0 or number > len(found):
            lines = overview_lines(self.session, width)
        else:
            lines = finding_detail(found[number - 1], width)
            for other in found[number - 1].related[:16]:
                name = safe(other.name or other.kind, max(width - 12, 20))
                lines.append(line(("  see   ", "dim"), name, subject=other))
        view.show_lines(lines, index=0)
