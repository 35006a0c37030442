"""Lowering, before shapes: which nodes run together on one tile.

A fused group loads its operands once, runs its kernels one after the other on
the tile in SRAM and stores only what is read outside.  Every tensor of the
original graph still exists, in SRAM, and can be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npudbg.device.kernels.registry import kernel_for
from npudbg.graph.ir import Graph, Node

_MAX_GROUP = 16

Allowed = Callable[[Node], bool]


def fuse(graph: Graph, allowed: Allowed, *, enabled: bool = True) -> list[list[Node]]:
    """Return groups of nodes in an order that respects every dependency.

    A group starts at a matrix kernel or an element-wise one and takes in
    element-wise consumers whose other operands exist before the group starts.
    Whether shapes allow it is settled when they are known.

    Args:
        graph: The model.
        allowed: Whether the target runs a node on the device.
        enabled: False leaves every node alone (a serial chain).
    """
    # Constants hang on nothing: they come first, so that a group may use one that the
    # file lists behind the group's first node.
    constants = [n for n in graph.nodes if n.op_type == "Constant" and not n.domain]
    groups: list[list[Node]] = [[n] for n in constants]
    taken: set[int] = {n.index for n in constants}
    produced: dict[str, int] = {
        name: n.index for n in graph.nodes if n.index not in taken for name in n.writes
    }
    for node in graph.nodes:
        if node.index in taken:
            continue
        group = [node]
        kernel = kernel_for(node.op_type, node.domain)
        anchor = (
            kernel is not None and not kernel.view and (kernel.engine == "mac" or kernel.fusible)
        )
        if enabled and anchor and allowed(node) and len(node.writes) == 1:
            _grow(group, graph, produced, taken, allowed)
        taken.update(n.index for n in group)
        groups.append(group)
    return groups


def _grow(
    group: list[Node],
    graph: Graph,
    produced: dict[str, int],
    taken: set[int],
    allowed: Allowed,
) -> None:
    start = group[0].index
    inside = set(group[0].writes)
    frontier = list(group[0].writes)
    while frontier and len(group) < _MAX_GROUP:
        candidates = {
            c.index: c for name in frontier for c in graph.consumers(name) if c.index not in taken
        }
        frontier = []
        for _, node in sorted(candidates.items()):
            if node in group or len(group) >= _MAX_GROUP or not _joins(node, allowed):
                continue
            if all(r in inside or produced.get(r, -1) < start for r in node.reads):
                group.append(node)
                inside.update(node.writes)
                frontier.extend(node.writes)
        # A node whose second operand joined later gets another chance.
        if frontier:
            frontier = list(inside)
    group.sort(key=lambda n: n.index)


def _joins(node: Node, allowed: Allowed) -> bool:
    kernel = kernel_for(node.op_type, node.domain)
    return (
        kernel is not None
        and kernel.fusible
        and len(node.writes) == 1
        and not node.captured
        and allowed(node)
    )


def inner_tensors(graph: Graph, groups: Sequence[Sequence[Node]]) -> frozenset[str]:
    """Return the tensors that nothing outside of their fused group reads."""
    outputs = {v.name for v in graph.outputs}
    inner: set[str] = set()
    for group in groups:
        members = {n.index for n in group}
        for name in (n for node in group for n in node.writes):
            readers = graph.consumers(name)
            if readers and name not in outputs and all(r.index in members for r in readers):
                inner.add(name)
    return frozenset(inner)


def split_by_shape(
    group: Sequence[Node], shapes: Callable[[str], tuple[int, ...] | None]
) -> list[list[Node]]:
    """Cut a fused group where a follower's output is not shaped like the first's."""
    parts: list[list[Node]] = []
    for node in group:
        shape = shapes(node.writes[0]) if node.writes else None
        if parts:
            first = parts[-1][0]
            if shape is not None and shapes(first.writes[0]) == shape:
                parts[-1].append(node)
                continue
        parts.append([node])
    return parts
