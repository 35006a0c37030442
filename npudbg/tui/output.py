"""Layer 4's pane: the values of every tensor, or its distance from the golden ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from npudbg.layers.output_origin import first_writer
from npudbg.render import golden, golden_row, outputs
from npudbg.render.fit import cells
from npudbg.render.verdict import deciding
from npudbg.session.commands import box_slices, space_name
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import SessionError
from npudbg.session.lines import Line, line
from npudbg.session.text import safe
from npudbg.tui.linebar import LineBar
from npudbg.tui.lineview import LineView
from npudbg.tui.panes import Pane
from npudbg.tui.selection import Selection
from npudbg.tui.sources import Lines, Rows

if TYPE_CHECKING:
    from npudbg.session.golden import GoldenRow
    from npudbg.session.reader import Session
    from npudbg.session.records import Subject

_DIVERGENCE = "O419"
_BOTH = 110
"""Columns in which the figures of both modes stand beside each other."""


class OutputPane(Pane):
    """A list of tensors in execution order, and the selected one in detail."""

    title = "4 Output"
    _seen = False

    def __init__(self, session: Session, *, id: str) -> None:
        """Show values; the golden table first where it is the gravest thing found."""
        super().__init__(session, id=id)
        self.record = golden.golden_record(session)
        finding = deciding(session)
        told = finding is None or finding.code == _DIVERGENCE
        self.golden = self.record is not None and self.record.first >= 0 and told

    def compose(self):
        """Summary and header, list, detail."""
        yield LineBar(id="output-summary")
        yield LineBar(id="output-header")
        yield LineView(classes="main")
        yield LineView(id="output-detail", classes="quiet")

    def fill(self) -> None:
        """Make the list."""
        self.set_class(self.golden, "-golden")
        header = self.query_one("#output-header", LineBar)
        if self.golden and self.record is not None:
            rows, width = self.record.rows, self.text_width
            self.row_of = {row.tensor: n for n, row in enumerate(rows)}
            self.query_one("#output-summary", LineBar).show(self._summary(width))
            both, level = self._singles(width)
            header.show(golden.golden_header(width, both=both, level=level))
            # It opens on what it was made for.
            index = self.main.index if self._seen else max(self.record.first, 0)
            self._seen = True
            self.main.show(Rows(len(rows), self._row, lambda n: rows[n].name), index=index)
            return
        self.tensors = outputs.shown_tensors(self.session)
        self.row_of = {t.id: n for n, t in enumerate(self.tensors)}
        header.show(outputs.header(self.text_width, "t: golden" if self.record else ""))
        if not self.tensors:
            self.main.show(Lines([line(("no node has made a result", "dim"))]))
            return
        self.main.show(
            Rows(
                len(self.tensors),
                lambda n, width: outputs.tensor_line(self.tensors[n], width),
                lambda n: self.tensors[n].name,
            )
        )

    def turn(self) -> bool:
        """Show the other table; return whether there is one."""
        if self.record is None:
            return False
        self.golden = not self.golden
        self.fill()
        self.follow(self.screen.selection)
        return True

    def follow(self, selection: Selection, *, moved: bool = False) -> None:
        """Stand on the selected tensor."""
        tensor = selection.tensor
        if tensor is None:
            # Nothing that is selected has values: the line that the list stands on is told.
            chosen = self.main.subject_at(self.main.index)
            tensor = chosen.tensor if chosen is not None else None
        if tensor is None or not 0 <= tensor < len(self.session.tensors):
            return
        row = self.row_of.get(tensor)
        if row is not None and not moved:
            self.main.move_to(row)
        # A tensor that is not in the list (an input, a weight) leaves no line highlighted.
        self.main.highlight(row is not None)
        view = self.query_one("#output-detail", LineView)
        try:
            lines = self._detail(tensor, row)
        except SessionError as error:
            lines = [line((f"! {error}", "error"))]
        view.show_lines(lines, index=0)

    def on_line_view_chosen(self, event: LineView.Chosen) -> None:
        """Enter in the golden table: to the command that wrote the first mismatching element."""
        if not self.golden or self.record is None or event.view is not self.main:
            return
        event.stop()
        self.screen.select(mismatch_subject(self.session, self.record.rows[event.index]))
        self.screen.action_pane(3)

    def _detail(self, tensor: int, row: int | None) -> list[Line]:
        if self.golden and self.record is not None and row is not None:
            return golden_row.golden_detail(
                self.session, self.record, self.record.rows[row], self.text_width
            )
        return outputs.tensor_detail(self.session, self.session.tensors[tensor], self.text_width)

    def _summary(self, width: int) -> Line:
        assert self.record is not None
        summary = golden.golden_summary(self.record, width)
        source = line((f"  {safe(self.record.what, 120)}  {self.record.origin}", "dim"))
        if cells(summary.text) + cells(source.text) > width:
            return summary  # the detail tells it
        return line(*summary.spans, *source.spans)

    def _row(self, number: int, width: int) -> Line:
        assert self.record is not None
        both, level = self._singles(width)
        return golden.golden_line(
            self.record.rows[number], width,
            both=both, level=level, first=number == self.record.first,
        )  # fmt: skip

    def _singles(self, width: int) -> tuple[bool, bool]:
        """Return whether single mode's figures have columns: all of them, or its level alone."""
        record = self.record
        known = record is not None and any(row.single is not None for row in record.rows)
        return known and width >= _BOTH, known and width < _BOTH


def mismatch_subject(session: Session, row: GoldenRow) -> Subject:
    """Return where a row's first mismatching element was made: its command and its address.

    The tensor's first command where none is known to have made that element.
    """
    subject = golden_row.subject_of(row)
    where = golden_row.first_mismatch(row)
    if not 0 <= row.tensor < len(session.tensors) or where is None:
        return subject
    tensor = session.tensors[row.tensor]
    if len(where) != len(tensor.shape):
        return subject
    seq = first_writer(session, tensor, where)
    if not 0 <= seq < session.n_commands:
        return subject
    subject = golden_row.subject_of(row, seq)
    made = session.command(seq)
    box = box_slices(made, len(tensor.shape))
    sizes = [each.stop - each.start for each in box]
    step = numpy_dtype(tensor.dtype).itemsize
    inside = all(s.start <= at < s.stop for s, at in zip(box, where, strict=True))
    if int(made["tensor"]) != tensor.id or int(made["nbytes"]) != math.prod(sizes) * step:
        return subject  # not the box alone, packed: where the element lies is not known
    if not inside:
        return subject
    offset = 0
    for size, each, at in zip(sizes, box, where, strict=True):
        offset = offset * size + at - each.start
    return msgspec.structs.replace(
        subject, address=int(made["dst"]) + offset * step, space=space_name(made["dst_space"])
    )
