"""Later lowering stages of a session's graph: which nodes were fused, and into what."""

from __future__ import annotations

from typing import Any

from npudbg.plugins import Session, UserError, safe
from npudbg_graph.view import Vertex, View


def fused(view: View, session: Session, stage: str) -> View:
    """Return the view of a later lowering stage, as the session recorded it.

    Raises:
        UserError: The session has no such stage, or its record is damaged.
    """
    if stage == view.stage:
        return view
    stages = session.extra("stages")
    if not isinstance(stages, dict) or not isinstance(stages.get(stage), list):
        known = ", ".join(safe(s, 20) for s in stages) if isinstance(stages, dict) else "none"
        raise UserError(
            f"{session.path}: no stage {safe(stage, 20)!r} in this session; it has: {known}"
        )
    vertices = [v for v in view.vertices if v.kind == "input"]
    hidden = len(view.vertices) - len(vertices)
    taken: set[int] = set()
    for group in stages[stage]:
        members = []
        for index in _members(group, session):
            at = view.of_node.get(index)
            if at is not None and at not in taken:
                taken.add(at)
                members.append(view.vertices[at])
        if members:
            vertices.append(_group(group, members, view))
    return View(view.title, stage, vertices, view.values, view.hidden + hidden - len(taken))


def _members(group: Any, session: Session) -> list[int]:
    nodes = group.get("nodes") if isinstance(group, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(n, int) for n in nodes):
        raise UserError(f"{session.path}: the record of its lowering stages is damaged")
    return nodes


def _group(group: dict[str, Any], members: list[Vertex], view: View) -> Vertex:
    inside = {v for m in members for v in m.writes}
    places = {view.of_node[n] for m in members for n in m.nodes}
    last = members[-1]
    kept = tuple(
        v
        for v in dict.fromkeys(v for m in members for v in m.writes)
        if v in last.writes
        or view.values[v].role == "output"
        or any(reader not in places for reader in view.consumers.get(v, ()))
    )
    seqs = [m.first_seq for m in members if m.first_seq >= 0]
    worst = next((m for m in members if m.state != "ok"), last)
    return Vertex(
        "group" if len(members) > 1 else "node",
        last.name if len(members) == 1 else f"{members[0].name} … {last.name}",
        "+".join(m.op for m in members),
        reads=tuple(dict.fromkeys(v for m in members for v in m.reads if v not in inside)),
        writes=kept,
        weights=tuple(dict.fromkeys(v for m in members for v in m.weights)),
        nodes=tuple(n for m in members for n in m.nodes),
        kernel=str(group.get("kernel") or last.kernel),
        engine=str(group.get("engine") or last.engine),
        state=worst.state,
        note=worst.note,
        first_seq=min(seqs, default=-1),
        last_seq=max((m.last_seq for m in members), default=-1),
    )
