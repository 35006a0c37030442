"""The graph as a pane: the lanes around the selection, and keys that walk along them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from npudbg.plugins import Line, PanelContext, Session, Subject, line
from npudbg_graph.lanes import Row
from npudbg_graph.render import Look, detail_lines, line_of, rows_of, with_detail
from npudbg_graph.status import judge, origin, resolve, subject_of
from npudbg_graph.view import View, from_session

KEYS = {
    "u": "up: the producer (the dirty one first)",
    "d": "down: the consumer",
    "h": "the next vertex with a consumer in common",
    "l": "the next vertex with a producer in common",
    "o": "origin: where the NaN, Inf or hang began",
    "x": "the first command of the node",
    "t": "the tensor that the node writes",
}
_DETAIL_FROM_HEIGHT = 12


@dataclass(slots=True)
class _Drawn:
    """A session's graph, drawn once for a width."""

    view: View
    look: Look = field(default_factory=Look)
    rows: list[Row] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    row_of: dict[int, int] = field(default_factory=dict)

    def draw(self, look: Look) -> None:
        """Draw, unless that is done."""
        if self.rows and self.look == look:
            return
        self.look, self.rows = look, rows_of(self.view, look)
        self.lines = [line_of(self.view, row, look) for row in self.rows]
        self.row_of = {r.item: n for n, r in enumerate(self.rows) if r.item is not None}


_cache: weakref.WeakKeyDictionary[Session, _Drawn] = weakref.WeakKeyDictionary()


def panel_lines(context: PanelContext) -> list[Line]:
    """Return the lanes, with what is known of the selected node below its row.

    With a height, only the rows around the selection.
    """
    if context.session is None:
        return [line(("no session; `npudbg graph MODEL` draws a model alone", "dim"))]
    drawn = _drawn(context.session)
    look = Look(width=max(context.width, 20))
    drawn.draw(look)
    at = _selected(context, drawn.view)
    low, high = 0, len(drawn.rows)
    if context.height:
        # Room for the detail is taken from the rows, not more than half of it.
        extra = 0 if at is None else len(detail_lines(drawn.view, at, look))
        room = context.height - min(extra, context.height // 2)
        middle = 0 if at is None else drawn.row_of[at]
        low = max(min(middle - room // 2, high - room), 0)
        high = min(low + room, high)
    lines = drawn.lines[low:high]
    if at is None:
        return lines
    row = drawn.row_of[at]
    lines[row - low] = line_of(drawn.view, drawn.rows[row], look, current=True)
    if context.height == 0 or context.height >= _DETAIL_FROM_HEIGHT:
        lines = with_detail(drawn.view, drawn.rows[low:high], lines, at, look)
    return lines[: context.height] if context.height else lines


def on_key(context: PanelContext, key: str) -> Subject | None:
    """Return what a key of :data:`KEYS` selects, or None where there is nothing further."""
    if context.session is None:
        return None
    view = _drawn(context.session).view
    at = _selected(context, view)
    if key == "o":
        goal = origin(view, at)
        return None if goal is None else subject_of(view, goal)
    if at is None:
        return None
    vertex = view.vertices[at]
    if key == "x":
        if vertex.first_seq < 0:
            return None
        return Subject(kind="command", seq=vertex.first_seq, node=vertex.nodes[-1])
    if key == "t":
        if not vertex.writes:
            return None
        value = min(vertex.writes, key=lambda v: not view.values[v].dirty)
        tensor = view.values[value].tensor
        return Subject(kind="tensor", name=view.values[value].name, tensor=tensor)
    steps = {
        "u": view.above(at)[:1],
        "d": view.below(at)[:1],
        "h": _next(at, [p for c in view.below(at) for p in view.above(c)]),
        "l": _next(at, [c for p in view.above(at) for c in view.below(p)]),
    }
    goals = steps.get(key, [])
    return subject_of(view, goals[0]) if goals else None


def _next(at: int, ring: list[int]) -> list[int]:
    ring = sorted(set(ring))
    if at not in ring or len(ring) < 2:
        return []
    return [ring[(ring.index(at) + 1) % len(ring)]]


def _selected(context: PanelContext, view: View) -> int | None:
    """Return the vertex selected; without a selection, the one at the cursor."""
    at = resolve(view, context.selection, context.session)
    if at is None and context.selection is None:
        at = resolve(view, Subject(kind="command", seq=context.seq), context.session)
    return at


def _drawn(session: Session) -> _Drawn:
    drawn = _cache.get(session)
    if drawn is None:
        view = from_session(session)
        judge(view, session.findings)
        drawn = _cache[session] = _Drawn(view)
    return drawn
