"""Drawing a graph as lanes of text, like ``git log --graph``, and exactly.

How to read it (and how the tests read it back):

* A vertical line is one tensor, alive from the node that writes it to the last node
  that reads it.  It always goes straight on; only its own ends bend.
* A horizontal line in a node's row leads to that row's node from each lane that it
  touches (``├ ┤ ┼ ╰ ╯ ┴``).  A lane it only passes is drawn unbroken: ``─│─``.
* Below a node that writes several tensors stands one more row, whose horizontal
  line leads from that node to the new lanes (``╮ ╭ ┬``).

The number of lanes is bounded.  An edge that finds no lane is not drawn but named
at both of its ends (:attr:`Row.more_to`, :attr:`Row.more_from`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Item(NamedTuple):
    """One node to draw: the tensors it reads and writes, by number."""

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the drawing.

    Attributes:
        text: The lanes.
        item: The item whose row this is, or None for a row of lines only.
        column: Where in ``text`` the item's mark stands.
        more_from: Items it reads from by an edge that is not drawn.
        more_to: Items that read from it by an edge that is not drawn.
        below: The lanes alive after an item, for text put below its last row.
    """

    text: str
    item: int | None = None
    column: int = 0
    more_from: tuple[int, ...] = ()
    more_to: tuple[int, ...] = ()
    below: str = ""


MARK = "●"


def draw(items: Sequence[Item], *, max_lanes: int = 12, marks: Sequence[str] = ()) -> list[Row]:
    """Draw items, given in an order in which producers stand before consumers.

    Args:
        items: What to draw.
        max_lanes: Most lanes side by side (at least 1).
        marks: One character an item; :data:`MARK` by default.
    """
    return _Drawing(items, max(max_lanes, 1), marks).run()


class _Drawing:
    def __init__(self, items: Sequence[Item], max_lanes: int, marks: Sequence[str]) -> None:
        self.items = items
        self.marks = marks
        self.lanes: list[int | None] = [None] * max_lanes
        self.column_of: dict[int, int] = {}
        self.producer: dict[int, int] = {}
        for index, item in enumerate(items):
            for tensor in item.writes:
                self.producer.setdefault(tensor, index)
        self.readers: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            for tensor in dict.fromkeys(item.reads):
                if tensor in self.producer:
                    self.readers.setdefault(tensor, []).append(index)
        # Only a tensor all of whose readers come later can have a lane.
        self.last_use = {
            tensor: readers[-1]
            for tensor, readers in self.readers.items()
            if readers[0] > self.producer[tensor]
        }
        self.rows: list[Row] = []
        self.dead_end: int | None = None
        self.undrawn = set(self.readers) - set(self.last_use)

    def run(self) -> list[Row]:
        for index in range(len(self.items)):
            self._item(index)
        return self.rows

    def _item(self, index: int) -> None:
        reads = [t for t in dict.fromkeys(self.items[index].reads) if t in self.producer]
        inputs = {self.column_of[t] for t in reads if t in self.column_of}
        ending = {self.column_of[t] for t in reads if t in self.column_of and self._ends(t, index)}
        column = min(ending) if ending else self._free(len(self.lanes))
        if column == self.dead_end:
            self._pass()
        cells = self._node_cells(column, inputs, ending, index)
        for at in ending:
            tensor = self.lanes[at]
            if tensor is not None:
                del self.column_of[tensor]
            self.lanes[at] = None

        targets = self._open_lanes(index, column)
        more_from = sorted({self.producer[t] for t in reads if t in self.undrawn})
        more_to = sorted(
            {
                reader
                for t in self._written(index)
                if t not in self.column_of
                for reader in self.readers.get(t, ())
            }
        )
        below = _join((self._straight(self._width()), 0, 0))
        self.rows.append(
            Row(_join(cells), index, 2 * column, tuple(more_from), tuple(more_to), below)
        )
        self.dead_end = None if targets else column
        if targets - {column}:
            self._fork(column, targets)

    def _ends(self, tensor: int, index: int) -> bool:
        return self.last_use[tensor] == index

    def _written(self, index: int) -> list[int]:
        """Return the tensors that this item is the producer of."""
        mine = dict.fromkeys(self.items[index].writes)
        return [t for t in mine if self.producer[t] == index]

    def _open_lanes(self, index: int, column: int) -> set[int]:
        """Give each tensor written a lane, the first one the node's own column."""
        targets: set[int] = set()
        for tensor in self._written(index):
            if tensor not in self.readers:
                continue
            at = len(self.lanes)
            if tensor in self.last_use:
                own = column < len(self.lanes) and self.lanes[column] is None
                at = column if own else self._free(at)
            if at == len(self.lanes):
                self.undrawn.add(tensor)
                continue
            self.lanes[at] = tensor
            self.column_of[tensor] = at
            targets.add(at)
        return targets

    def _free(self, otherwise: int) -> int:
        return next((n for n, t in enumerate(self.lanes) if t is None), otherwise)

    def _width(self, *columns: int) -> int:
        live = [n for n, t in enumerate(self.lanes) if t is not None]
        return max([*live, *columns], default=0) + 1

    def _straight(self, width: int) -> list[str]:
        live = [n < len(self.lanes) and self.lanes[n] is not None for n in range(width)]
        return ["│" if on else " " for on in live]

    def _node_cells(
        self, column: int, inputs: set[int], ending: set[int], index: int
    ) -> tuple[list[str], int, int]:
        cells = self._straight(self._width(column))
        low, high = min([*inputs, column]), max([*inputs, column])
        for at in range(low, high + 1):
            if at in inputs and at != column:
                outer = at in (low, high)
                left_side = at < column
                if at in ending:
                    cells[at] = ("╰" if left_side else "╯") if outer else "┴"
                else:
                    cells[at] = ("├" if left_side else "┤") if outer else "┼"
            elif cells[at] == " ":
                cells[at] = "─"
        cells[column] = self.marks[index] if self.marks else MARK
        return cells, low, high

    def _fork(self, column: int, targets: set[int]) -> None:
        cells = self._straight(self._width(column))
        low, high = min([*targets, column]), max([*targets, column])
        for at in range(low, high + 1):
            if at == column:
                cells[at] = _fork_root(at in targets, at > low, at < high)
            elif at in targets:
                cells[at] = "┬" if low < at < high else ("╭" if at < column else "╮")
            elif cells[at] == " ":
                cells[at] = "─"
        self.rows.append(Row(_join((cells, low, high))))

    def _pass(self) -> None:
        """Add a row of straight lanes, so that a node does not hang below a dead end."""
        width = self._width()
        self.rows.append(Row(_join((self._straight(width), 0, 0))))
        self.dead_end = None


def _fork_root(down: bool, left: bool, right: bool) -> str:
    if down:
        return "┼" if left and right else ("┤" if left else "├")
    return "┴" if left and right else ("╯" if left else "╰")


def _join(drawn: tuple[list[str], int, int]) -> str:
    cells, low, high = drawn
    parts = []
    for at, cell in enumerate(cells):
        parts.append(cell)
        parts.append("─" if low <= at < high else " ")
    return "".join(parts).rstrip()
