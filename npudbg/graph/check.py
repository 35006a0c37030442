"""Names of a graph: each made once, each read name made somewhere, no cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from npudbg.graph.bodies import bodies, captured_by, defined_in, label
from npudbg.graph.order import execution_order
from npudbg.session.errors import UserError
from npudbg.session.text import safe


def check_names(graph: Any, outer: Set[str] = frozenset(), where: str = "graph") -> list[int]:
    """Check the names of a GraphProto and of the bodies in it.

    Args:
        graph: The graph; its nesting has been checked before.
        outer: Names of the scopes around it.
        where: What the graph is, for messages.

    Returns:
        The execution order of its nodes.

    Raises:
        UserError: A name made twice or never, or a cycle; nodes and tensor are named.
    """
    nodes = list(graph.node)
    producers = _producers(graph, nodes, where)
    visible = defined_in(graph) | outer
    reads: list[list[str]] = []
    for index, node in enumerate(nodes):
        names = [n for n in node.input if n]
        _all_defined(names, visible, f"{where}: node {label(node, index)!r}", "reads")
        for body in bodies(node):
            check_names(body, visible, f"{where}, body of {label(node, index)!r}")
        reads.append([*names, *captured_by(node)])
    _all_defined([v.name for v in graph.output], visible, where, "gives as output")
    order, cycle = execution_order(reads, producers)
    if cycle:
        path = [label(nodes[i], i) for i in [*cycle, cycle[0]]]
        shown = path if len(path) <= 8 else [*path[:4], f"… {len(path) - 7} more …", *path[-3:]]
        raise UserError(f"{where}: nodes form a cycle: {' -> '.join(shown)}; no order can run them")
    return order


def check_fed(names: Sequence[str], what: str) -> None:
    """Refuse names that are empty or occur twice.

    Raises:
        UserError: One is or does.
    """
    seen: set[str] = set()
    for name in names:
        if not name:
            raise UserError(f"graph: {what} without a name")
        if name in seen:
            raise UserError(f"graph: {what} {safe(name)!r} is listed twice")
        seen.add(name)


def _producers(graph: Any, nodes: Sequence[Any], where: str) -> Mapping[str, int]:
    given = {value.name for value in graph.input}
    given.update(tensor.name for tensor in graph.initializer)
    given.update(sparse.values.name for sparse in graph.sparse_initializer)
    made: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in made or name in given:
                by = (
                    f"node {label(nodes[made[name]], made[name])!r}"
                    if name in made
                    else "an input or initializer"
                )
                raise UserError(
                    f"{where}: tensor {safe(name)!r} is made by node {label(node, index)!r} "
                    f"and also by {by}; every name must be made once"
                )
            made[name] = index
    return made


def _all_defined(names: Iterable[str], visible: Set[str], who: str, verb: str) -> None:
    for name in names:
        if name in visible:
            continue
        import difflib

        near = difflib.get_close_matches(name, visible, 1, 0.8)
        hint = f"; did it mean {safe(near[0])!r}?" if near else ""
        raise UserError(
            f"{who} {verb} {safe(name)!r}, which no input, initializer or node makes{hint}"
        )
