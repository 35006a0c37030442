"""What a model's graph alone shows: unbounded sizes, and nodes that cost for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudbg.plugins import Case, Finding, Graph, Subject, finding, safe

_SOURCE = "graph"
UNBOUNDED = (1 << 63) - 1
"""The largest int64: a converter's way to say that an axis has no upper bound."""
_LARGEST = 1 << 48
"""No axis of a real tensor is longer than this many elements."""
_LISTED = 20
CODES = ("G601", "G602", "G603", "G604", "G605")


def judge_graph(case: Case) -> Iterator[Finding]:
    """Judge the model of a case; silent without one."""
    if case.graph is None:
        return
    yield from unbounded(case.graph)
    yield from transpose_pairs(case.graph)
    yield from identity_chains(case.graph)
    yield from batch_norms(case.graph)


def unbounded(graph: Graph) -> Iterator[Finding]:
    """Report the first node that reads a value of an unbounded size."""
    values = {v.name: v for v in (*graph.inputs, *graph.defaults)}
    values |= _stated(graph)
    bad = {
        name: [n for n, size in enumerate(v.shape or ()) if _is_unbounded(size)]
        for name, v in values.items()
    }
    bad = {name: axes for name, axes in bad.items() if axes}
    if not bad:
        return
    for node in graph.nodes:
        for place, name in enumerate(node.inputs):
            if name in bad:
                axes = bad[name]
                size = (values[name].shape or ())[axes[0]]
                yield finding(
                    "G601",
                    Subject(kind="node", name=node.label, node=node.index),
                    f"first node with unbounded shape: {safe(node.label, 60)} "
                    f"({node.op_type}, input {place}: {safe(name, 60)}), axis {axes[0]} is {size}; "
                    f"{UNBOUNDED} means 'no upper bound', not a size",
                    evidence={
                        "input": place,
                        "tensor": name,
                        "axes": axes,
                        "size": size,
                        "values_unbounded": len(bad),
                    },
                    related=(Subject(kind="tensor", name=name),),
                    fix="give the axis a size: export with static shapes, or "
                    f"--dim {safe(name, 40)}.{axes[0]}=N",
                    origin="declared",
                    source=_SOURCE,
                )
                return


def open_shapes(graph: Graph, bound: set[str]) -> Iterator[Finding]:
    """Report the first node that reads an input with an axis that nothing binds.

    Args:
        graph: The model.
        bound: Symbols, or ``input.AXIS``, that the user bound.
    """
    for node in graph.nodes:
        for place, name in enumerate(node.inputs):
            contract = graph.input(name)
            if contract is None or name in graph.initializers:
                continue
            axes = [
                n
                for n, size in enumerate(contract.shape or ())
                if not isinstance(size, int) and size not in bound and f"{name}.{n}" not in bound
            ]
            if axes or contract.shape is None:
                yield finding(
                    "G605",
                    Subject(kind="node", name=node.label, node=node.index),
                    f"first node with unbounded shape: {safe(node.label, 60)} "
                    f"({node.op_type}, input {place}: {safe(name, 60)}); "
                    "the target takes static shapes only",
                    evidence={"input": place, "tensor": name, "axes": axes},
                    related=(Subject(kind="tensor", name=name),),
                    fix=f"bind it: --dim {safe(name, 40)}.{axes[0] if axes else 0}=N",
                    origin="declared",
                    source=_SOURCE,
                )
                return


def transpose_pairs(graph: Graph) -> Iterator[Finding]:
    """Report Transposes that undo one another."""
    pairs = []
    for node in graph.nodes:
        if node.operator != "Transpose" or not node.inputs:
            continue
        before = graph.producer(node.inputs[0])
        if before is None or before.operator != "Transpose":
            continue
        if _undo(_perm(before), _perm(node)):
            pairs.append((before, node))
    if pairs:
        yield _group(
            "G602",
            [second for _, second in pairs],
            f"{len(pairs)} pairs of Transpose undo one another, first "
            f"{safe(pairs[0][0].label, 40)} and {safe(pairs[0][1].label, 40)}",
            {"pairs": [[a.label, b.label] for a, b in pairs[:_LISTED]], "count": len(pairs)},
            "remove both: each copies the whole tensor for nothing",
        )


def identity_chains(graph: Graph) -> Iterator[Finding]:
    """Report nodes that hand on their input unchanged."""
    idle = [
        n
        for n in graph.nodes
        if n.operator == "Identity"
        and n.inputs
        and n.inputs[0] not in graph.initializers
        and (before := graph.producer(n.inputs[0])) is not None
        and before.operator != "Constant"
    ]
    if idle:
        yield _group(
            "G603",
            idle,
            f"{len(idle)} Identity nodes between other nodes, first {safe(idle[0].label, 60)}",
            {"nodes": [n.label for n in idle[:_LISTED]], "count": len(idle)},
            "simplify the model: a compiler that does not fold them loads and stores each tensor",
        )


def batch_norms(graph: Graph) -> Iterator[Finding]:
    """Report BatchNormalization nodes that stand as nodes of their own."""
    plain, apart = [], []
    for node in graph.nodes:
        if node.operator != "BatchNormalization" or not node.inputs:
            continue
        before = graph.producer(node.inputs[0])
        if before is None or len(graph.consumers(node.inputs[0])) != 1:
            continue
        if before.op_type in ("Conv", "ConvTranspose", "Gemm"):
            plain.append(node)
        elif before.op_type in ("Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSwish", "Identity"):
            apart.append((before, node))
    if plain or apart:
        text = f"{len(plain) + len(apart)} BatchNormalization nodes are not folded into a Conv"
        if apart:
            text += (
                f"; {len(apart)} stand behind an activation ({apart[0][0].op_type} before "
                f"{safe(apart[0][1].label, 40)}) and cannot be"
            )
        nodes = [*plain, *(n for _, n in apart)]
        yield _group(
            "G604",
            nodes,
            text,
            {
                "foldable": len(plain),
                "behind_activation": len(apart),
                "nodes": [n.label for n in nodes[:_LISTED]],
            },
            "export in evaluation mode with constant folding; train Conv-BatchNorm-activation",
        )


def _group(code: str, nodes: list[Any], text: str, evidence: dict[str, Any], fix: str) -> Finding:
    subjects = [Subject(kind="node", name=n.label, node=n.index) for n in nodes[:_LISTED]]
    return finding(
        code,
        subjects[0],
        text,
        evidence=evidence,
        fix=fix,
        related=tuple(subjects[1:]),
        origin="declared",
        source=_SOURCE,
    )


def _stated(graph: Graph) -> dict[str, Any]:
    """Return the shapes that the file itself states (no inference: it costs time)."""
    from npudbg.plugins import value_contract

    proto = getattr(graph.model, "graph", None)
    infos = list(getattr(proto, "value_info", ())) + list(getattr(proto, "output", ()))
    return {info.name: value_contract(info) for info in infos}


def _is_unbounded(size: object) -> bool:
    return isinstance(size, int) and size >= _LARGEST


def _undo(first: list[int] | None, second: list[int] | None) -> bool:
    """Whether two permutations leave every axis where it was; None reverses the axes."""
    if first is None and second is None:
        return True
    rank = len(first or second or ())
    reverse = list(range(rank))[::-1]
    first, second = first or reverse, second or reverse
    return len(first) == len(second) and [first[a] for a in second] == list(range(rank))


def _perm(node: Any) -> list[int] | None:
    perm = node.attributes.get("perm")
    return [int(a) for a in perm] if perm is not None else None
