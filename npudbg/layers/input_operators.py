"""Operators that the target refuses, or leaves to the CPU, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from npudbg.graph.ir import Graph, Node, Subgraph
from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.rewrites import CONTROL_FLOW, SEQUENCES, rewrite
from npudbg.layers.words import joined, of_node
from npudbg.session.records import Finding
from npudbg.session.text import safe
from npudbg.targets.profile import Target

_RELATED = 8
_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"}
)
_UNSIZED = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression", "StringSplit"})
"""Operators whose results have a size that depends on values."""


@dataclass(slots=True)
class _Use:
    """All uses of one operator: nodes, and how many stand inside bodies of them."""

    nodes: list[Node] = field(default_factory=list)
    inside: int = 0

    @property
    def count(self) -> int:
        return len(self.nodes) + self.inside


@rule(2, "I260", "I261", "I265")
def operators(case: Case) -> Iterator[Finding]:
    """One finding for each operator type that does not run on the device."""
    from npudbg.device.kernels.registry import has_kernel

    graph, target = case.graph, case.target
    if graph is None:
        return
    constant = foldable(graph)
    used: dict[str, _Use] = {}
    folded: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.op_type in CONTROL_FLOW or node.op_type in SEQUENCES:
            continue
        if node.index in constant:
            # A list of what is supported does not name what every compiler folds.
            if node.op_type in target.operators.unsupported:
                folded.setdefault(node.operator, []).append(node)
            continue
        if _refused(target, node.op_type, node.domain) or not has_kernel(node.op_type, node.domain):
            used.setdefault(node.operator, _Use()).nodes.append(node)
    for use in used.values():
        yield _unsupported(case, use)
    for nodes in folded.values():
        if nodes[0].op_type not in ("Constant", "Identity"):
            yield _to_fold(case, nodes)


@rule(2, "I262")
def control_flow(case: Case) -> Iterator[Finding]:
    """Branches, loops and sequences: one finding for all of them."""
    graph, target = case.graph, case.target
    if graph is None:
        return
    found: dict[str, _Use] = {}
    for node in graph.nodes:
        if node.domain == "" and (node.op_type in CONTROL_FLOW or node.op_type in SEQUENCES):
            found.setdefault(node.op_type, _Use()).nodes.append(node)
        for name, count in _inside(node).items():
            if name in CONTROL_FLOW or name in SEQUENCES:
                found.setdefault(name, _Use(nodes=[node])).inside += count
    if not found:
        return
    first = min((use.nodes[0] for use in found.values()), key=lambda n: n.index)
    total = sum(
        len([n for n in use.nodes if n.op_type == name]) + use.inside for name, use in found.items()
    )
    refused = [name for name in found if _refused(target, name, "")]
    static = target.tensor.static_shapes
    how = "unsupported" if refused or static else "run on the host"
    plural = "op" if total == 1 else "ops"
    yield finding(
        "I262",
        of_node(first),
        f"{total} control-flow/sequence {plural} {how}: {joined(found)}; first at node "
        f"{first.index} ({safe(first.label)})",
        evidence={
            "operators": {
                name: len([n for n in u.nodes if n.op_type == name]) + u.inside
                for name, u in found.items()
            },
            "count": total,
            "first_node": first.index,
            "refused": refused,
            "static_shapes": static,
        },
        fix=rewrite(first),
        severity="error" if refused else "warning" if static else "info",
        related=tuple(of_node(u.nodes[0]) for u in list(found.values())[:_RELATED]),
        origin="declared",
    )


@rule(2, "I266")
def cubic_resize(case: Case) -> Iterator[Finding]:
    """Bicubic Resize on a target that lists what it runs: seldom what its Resize means."""
    graph, operators_ = case.graph, case.target.operators
    if graph is None or not (operators_.mode == "only" or operators_.unsupported):
        return
    nodes = [
        n
        for n in graph.nodes
        if n.operator == "Resize"
        and n.attributes.get("mode") == "cubic"
        and not _refused(case.target, "Resize", "")
    ]
    if nodes:
        yield finding(
            "I266",
            of_node(nodes[0]),
            f"{len(nodes)} Resize with mode cubic, first {safe(nodes[0].label)}; instruction sets "
            "know nearest and linear as a rule",
            evidence={"count": len(nodes), "first_node": nodes[0].index},
            fix=rewrite(nodes[0]),
            certainty="suspected",
            related=tuple(of_node(n) for n in nodes[1:_RELATED]),
            origin="declared",
        )


def foldable(graph: Graph) -> set[int]:
    """Return the indices of nodes that can be computed before the run.

    Those whose operands are all constants, and Shape and Size: a run has its
    input shapes bound, so they are known unless a size depends on values.
    """
    known = set(graph.initializers)
    unsized: set[str] = set()
    found: set[int] = set()
    for node in graph.nodes:
        if node.op_type in _UNSIZED or not unsized.isdisjoint(node.reads):
            unsized.update(node.writes)
        elif node.operator in ("Shape", "Size") or (
            node.op_type not in _RANDOM and all(n in known for n in node.reads)
        ):
            found.add(node.index)
            known.update(node.writes)
    return found


def _refused(target: Target, op_type: str, domain: str) -> bool:
    """Tell whether the profile itself says that the target does not run an operator."""
    operators_ = target.operators
    if operators_.mode == "only":
        return bool(domain) or op_type not in operators_.supported
    return not domain and op_type in operators_.unsupported


def _unsupported(case: Case, use: _Use) -> Finding:
    first, target = use.nodes[0], case.target
    refused = _refused(target, first.op_type, first.domain)
    call = target.clock.host_call_us
    least = use.count * call
    evidence: dict[str, Any] = {
        "operator": safe(first.operator),
        "count": use.count,
        "first_node": first.index,
        "refused_by_profile": refused,
        "handover_us": least,
    }
    many = f"{use.count} nodes, first " if use.count > 1 else ""
    what = (
        f"{safe(first.op_type)} is not supported by {safe(target.name)}"
        if refused
        else f"no device kernel for {safe(first.operator)}"
    )
    return finding(
        "I260" if refused else "I261",
        of_node(first),
        f"{many}{safe(first.label)}: {what}; it runs on the CPU, with at least {least:g} us for "
        f"handing over ({use.count} x {call:g} us)",
        evidence=evidence,
        fix=rewrite(first),
        related=_others(use.nodes),
        origin="estimated",
    )


def _to_fold(case: Case, nodes: Sequence[Node]) -> Finding:
    first = nodes[0]
    return finding(
        "I265",
        of_node(first),
        f"{len(nodes)} {safe(first.op_type)} with constant operands, first {safe(first.label)}; "
        f"{safe(case.target.name)} does not run it, and a compiler that does not fold it stops",
        evidence={
            "operator": safe(first.operator),
            "count": len(nodes),
            "first_node": first.index,
        },
        fix="fold constants before converting (export with do_constant_folding, or simplify)",
        related=_others(nodes),
        origin="declared",
    )


def _others(nodes: Sequence[Node]) -> tuple[Any, ...]:
    return tuple(of_node(n) for n in nodes[1:_RELATED])


def _inside(node: Node) -> dict[str, int]:
    """Return operators within the bodies of a node."""
    total: dict[str, int] = {}
    for name in node.attributes:
        if getattr(node.attributes, "heavy", None) and name in node.attributes.heavy:  # type: ignore[attr-defined]
            continue
        value = node.attributes[name]
        for body in value if isinstance(value, list) else [value]:
            if isinstance(body, Subgraph):
                for operator, count in body.operators.items():
                    total[operator] = total.get(operator, 0) + count
    return total
