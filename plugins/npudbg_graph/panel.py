"""The graph as a pane: the lanes around the selection, and keys that walk along them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from npudbg.plugins import Line, PanelContext, Session, Subject, line
from npudbg_graph.lanes import Row
from npudbg_graph.render import Look, detail_lines, line_of, rows_of
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
    view: View
    look: Look | None = None
    rows: list[Row] | None = None
    row_of: dict[int, int] | None = None


_cache: weakref.WeakKeyDictionary[Session, _Drawn] = weakref.WeakKeyDictionary()


def panel_lines(context: PanelContext) -> list[Line]:
    """Return the lanes that are seen around the selection, the selected node's detail first."""
    if context.session is None:
        return [line(("no session; `npudbg graph MODEL` draws a model alone", "dim"))]
    look = Look(width=max(context.width, 20))
    drawn = _drawn(context.session)
    if drawn.look != look or drawn.rows is None:
        drawn.look, drawn.rows = look, rows_of(drawn.view, look)
        drawn.row_of = {r.item: n for n, r in enumerate(drawn.rows) if r.item is not None}
    assert drawn.row_of is not None
    view, rows = drawn.view, drawn.rows
    at = _selected(context, view)
    detail: list[Line] = []
    if at is not None and (not context.height or context.height >= _DETAIL_FROM_HEIGHT):
        detail = detail_lines(view, at, look)
        if context.height:
            detail = detail[: context.height // 2]
    start, stop = 0, len(rows)
    if context.height:
        room = context.height - len(detail)
        middle = drawn.row_of[at] if at is not None else 0
        start = max(min(middle - room // 2, len(rows) - room), 0)
        stop = start + room
    lanes = [line_of(view, row, look, current=row.item == at) for row in rows[start:stop]]
    return detail + lanes


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
