"""Conditions that are known before the run: the branch that is taken runs in place.

A compiler for a device without control flow specialises a model for the inputs
at hand.  So does npudbg: an ``If`` whose condition follows from constants,
shapes and the given inputs is replaced by the nodes of the branch it takes, and
they can be tiled, stepped through and judged like all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npudbg.graph.ir import Array, Graph
from npudbg.session.text import safe

_MAX_ROUNDS = 64
_MAX_ANCESTORS = 256
_MAX_VALUE = 1 << 20


def specialise(graph: Graph, inputs: Mapping[str, Array]) -> tuple[Graph, list[str]]:
    """Return the graph with known conditions resolved, and a note for each.

    Args:
        graph: The model; returned as it is when no condition is known.
        inputs: The inputs of the run, by name.
    """
    from npudbg.graph.loader import from_proto

    if not any(n.op_type == "If" and not n.domain for n in graph.nodes):
        return graph, []
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    notes: list[str] = []
    hopeless: set[str] = set()
    for _ in range(_MAX_ROUNDS):
        found = next(
            (
                (at, node)
                for at, node in enumerate(model.graph.node)
                if node.op_type == "If" and node.domain in ("", "ai.onnx")
                and node.output[0] not in hopeless
            ),
            None,
        )  # fmt: skip
        if found is None:
            break
        at, node = found
        taken = _condition(model, node.input[0], inputs)
        if taken is None:
            hopeless.add(node.output[0])
            continue
        branch = "then_branch" if taken else "else_branch"
        _splice(model.graph, at, node, next(a.g for a in node.attribute if a.name == branch))
        label = node.name or node.output[0]
        notes.append(f"{safe(label)}: its condition is {taken} for these inputs; {branch} runs")
    if not notes:
        return graph, []
    special = from_proto(
        model,
        path=Path(graph.path) if graph.path else None,
        name=graph.name,
        sha256=graph.sha256,
        nbytes=graph.nbytes,
    )
    return special, notes


def _condition(model: Any, name: str, inputs: Mapping[str, Array]) -> bool | None:
    """Evaluate a condition from what is known; None if more would have to run."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    graph = model.graph
    producers = {o: n for n in graph.node for o in n.output if o}
    constants = {t.name: t for t in graph.initializer}
    wanted, needed, feeds = [name], dict[str, Any](), dict[str, Array]()
    leaves: list[Any] = []
    while wanted:
        value = wanted.pop()
        if value in needed or value in feeds or any(c.name == value for c in leaves):
            continue
        if value in inputs:
            feeds[value] = np.asarray(inputs[value])
        elif value in constants:
            if np.prod(constants[value].dims, dtype=np.int64) > _MAX_VALUE:
                return None
            leaves.append(constants[value])
        elif value in producers:
            node = producers[value]
            if any(a.HasField("g") or a.graphs for a in node.attribute):
                return None
            needed[value] = node
            if len(needed) > _MAX_ANCESTORS:
                return None
            wanted.extend(i for i in node.input if i)
        else:
            return None
    keep = {id(n) for n in needed.values()}
    part = onnx.GraphProto(name="condition")
    part.node.extend(n for n in graph.node if id(n) in keep or any(o in needed for o in n.output))
    part.initializer.extend(leaves)
    types = {v.name: v for v in graph.input}
    part.input.extend(types[n] for n in feeds if n in types)
    part.output.append(onnx.ValueInfoProto(name=name))
    if name in feeds:
        return bool(feeds[name].reshape(-1)[0])
    small = onnx.ModelProto(ir_version=model.ir_version, graph=part)
    small.opset_import.extend(model.opset_import)
    try:
        (result,) = ReferenceEvaluator(small).run([name], feeds)
        return bool(np.asarray(result).reshape(-1)[0])
    except Exception:  # whatever the evaluator cannot do is left to the run
        return None


def _splice(graph: Any, at: int, node: Any, body: Any) -> None:
    """Put a branch's nodes in the place of the If."""
    from onnx import helper

    outer = {v.name for v in (*graph.input, *graph.initializer)}
    outer |= {o for n in graph.node for o in n.output}
    defined = {o for n in body.node for o in n.output if o}
    defined |= {t.name for t in body.initializer}
    names = {n: f"{node.name or node.output[0]}/{n}" for n in defined if n in outer}
    tail = []
    for inner, result in zip(body.output, node.output, strict=False):
        if not result:
            continue
        if inner.name in defined and names.get(inner.name, "") not in node.output:
            names[inner.name] = result
        else:  # handed through from outside, or given twice
            tail.append((names.get(inner.name, inner.name), result))
    for each in body.node:
        _rename(each, names)
    for each in body.initializer:
        each.name = names.get(each.name, each.name)
    for each in body.value_info:
        each.name = names.get(each.name, each.name)
    before, after = list(graph.node[:at]), list(graph.node[at + 1 :])
    del graph.node[:]
    graph.node.extend(before)
    graph.node.extend(body.node)
    graph.node.extend(helper.make_node("Identity", [s], [d]) for s, d in tail)
    graph.node.extend(after)
    graph.initializer.extend(body.initializer)
    graph.value_info.extend(v for v in body.value_info if v.name not in outer)


def _rename(node: Any, names: Mapping[str, str]) -> None:
    if not names:
        return
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            if name in names:
                field[i] = names[name]
    for attribute in node.attribute:
        for body in (
            (attribute.g, *attribute.graphs) if attribute.HasField("g") else (attribute.graphs)
        ):
            for inner in body.node:
                _rename(inner, names)
            for output in body.output:
                output.name = names.get(output.name, output.name)
