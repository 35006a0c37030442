"""What is told of each vertex: where a NaN begins, what it spoils, what runs elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from npudbg.plugins import Finding, Session, Subject
from npudbg_graph.view import Value, Vertex, View

MARKS = {
    "ok": "●",
    "input": "■",
    "host": "H",
    "folded": "○",
    "NaN origin": "N",
    "Inf origin": "I",
    "NaN downstream": "n",
    "Inf downstream": "i",
    "hung": "!",
    "failed": "!",
    "skipped": "·",
    "not-run": "·",
}
"""One character a status; the row also says the status in words."""
BAD = frozenset({"NaN origin", "Inf origin", "hung", "failed"})
SPOILED = frozenset({"NaN downstream", "Inf downstream"})


def mark(vertex: Vertex) -> str:
    """Return the character that stands for a vertex."""
    if vertex.kind == "input" and vertex.status == "ok":
        return MARKS["input"]
    return MARKS.get(vertex.status, "?")


def judge(view: View, findings: Iterable[Finding] = ()) -> None:
    """Fill each vertex's status and codes.

    Clean values in and dirty values out make an origin; a dirty value in makes what
    follows downstream.  A dirty weight counts as the fault of the first node that
    reads it, since nothing computed it.
    """
    for vertex in view.vertices:
        vertex.status = _status(vertex, view.values)
    for finding in findings:
        for subject in (finding.subject, *finding.related):
            at = resolve(view, subject)
            if at is not None and finding.code not in view.vertices[at].codes:
                view.vertices[at].codes.append(finding.code)


def _status(vertex: Vertex, values: list[Value]) -> str:
    if vertex.state != "ok":
        return vertex.state if vertex.state in MARKS else "failed"
    nan = any(values[v].nan for v in vertex.writes)
    if nan or any(values[v].inf for v in vertex.writes):
        # NaN out of Inf in is still what the infinity made: downstream of it.
        spoiled = any(values[v].dirty for v in vertex.reads)
        return f"{'NaN' if nan else 'Inf'} {'downstream' if spoiled else 'origin'}"
    return vertex.kernel if vertex.kernel in ("host", "folded") else "ok"


def resolve(view: View, subject: Subject | None, session: Session | None = None) -> int | None:
    """Return the vertex that a subject belongs to, or None.

    A tensor belongs to the vertex that writes it, or else to the first that reads
    it (a weight); a command to its node.
    """
    if subject is None:
        return None
    node = subject.node
    seq = subject.seq if subject.kind == "command" and node is None else None
    if seq is not None and session is not None and 0 <= seq < session.n_commands:
        node = int(session.command(seq)["node"])
    if node is not None and node in view.of_node:
        return view.of_node[node]
    if subject.kind == "tensor" or subject.tensor is not None:
        return _of_value(view, subject)
    if subject.kind == "node":
        return next((n for n, v in enumerate(view.vertices) if v.name == subject.name), None)
    if subject.kind == "operator":
        return next((n for n, v in enumerate(view.vertices) if v.op == subject.name), None)
    return None


def _of_value(view: View, subject: Subject) -> int | None:
    wanted = [
        n
        for n, v in enumerate(view.values)
        if (subject.tensor is not None and v.tensor == subject.tensor)
        or (subject.tensor is None and v.name == subject.name)
    ]
    for value in wanted:
        if value in view.producer:
            return view.producer[value]
        for at, vertex in enumerate(view.vertices):
            if value in vertex.weights or value in vertex.reads:
                return at
    return None


def origin(view: View, at: int | None) -> int | None:
    """Return the vertex where the fault seen at ``at`` began.

    Follows dirty values upwards; from a vertex without one, or from nowhere, it is
    the first vertex at fault in execution order.  None if nothing is at fault.
    """
    if at is not None and view.vertices[at].status in SPOILED:
        seen = {at}
        while True:
            dirty = [
                view.producer[v]
                for v in view.vertices[at].reads
                if view.values[v].dirty and v in view.producer
            ]
            dirty = [p for p in dirty if p not in seen]
            if not dirty:
                return at
            at = min(dirty)
            seen.add(at)
    if at is not None and view.vertices[at].status in BAD:
        return at
    return next((n for n, v in enumerate(view.vertices) if v.status in BAD), None)


def subject_of(view: View, at: int) -> Subject:
    """Return what selecting a vertex selects."""
    vertex = view.vertices[at]
    if vertex.kind == "input":
        value = view.values[vertex.writes[0]]
        tensor = value.tensor if value.tensor >= 0 else None
        return Subject(kind="tensor", name=vertex.name, tensor=tensor)
    return Subject(kind="node", name=vertex.name, node=vertex.nodes[-1])
