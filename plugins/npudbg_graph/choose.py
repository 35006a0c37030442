"""A part of the view: one vertex and what stands some steps above and below it."""

from __future__ import annotations

import difflib

from npudbg.plugins import Subject, UserError, safe
from npudbg_graph.status import resolve
from npudbg_graph.view import View


def find(view: View, name: str) -> int:
    """Return the vertex that a user names: ``#12``, ``12``, a node, an operator or a tensor.

    Raises:
        UserError: There is none.
    """
    number = name.removeprefix("#")
    if number.isascii() and number.isdigit() and int(number) in view.of_node:
        return view.of_node[int(number)]
    for kind in ("node", "tensor", "operator"):
        at = resolve(view, Subject(kind=kind, name=name))
        if at is not None:
            return at
    names = [v.name for v in view.vertices] + [v.name for v in view.values]
    close = difflib.get_close_matches(name, names[:20_000], 1)
    hint = f"; did you mean {safe(close[0])!r}?" if close else ""
    raise UserError(f"--node {safe(name)}: no such node, operator or tensor{hint}")


def around(view: View, at: int, up: int, down: int) -> View:
    """Return the view of vertex ``at`` with ``up`` steps of producers and ``down`` of consumers."""
    keep = {at}
    for steps, next_of in ((up, view.above), (down, view.below)):
        edge = {at}
        for _ in range(steps):
            edge = {other for vertex in edge for other in next_of(vertex)} - keep
            if not edge:
                break
            keep |= edge
    vertices = [view.vertices[n] for n in sorted(keep)]
    return View(view.title, view.stage, vertices, view.values, view.hidden)
