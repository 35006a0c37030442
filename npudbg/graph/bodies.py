"""Bodies of control-flow nodes: how deep they nest and what they read from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAX_DEPTH = 24
UNDEFINED, GRAPH, GRAPHS = 0, 5, 10  # numbers of AttributeProto.AttributeType


def bodies(node: Any) -> list[Any]:
    """Return the GraphProtos among a NodeProto's attributes."""
    found = []
    for attribute in node.attribute:
        kind = attribute.type
        if kind == GRAPH or (kind == UNDEFINED and attribute.HasField("g")):
            found.append(attribute.g)
        elif kind == GRAPHS:
            found.extend(attribute.graphs)
    return found


def check_depth(nodes: Iterable[Any], depth: int = 0) -> None:
    """Refuse bodies nested deeper than :data:`MAX_DEPTH`.

    Raises:
        UserError: They are.
    """
    if depth > MAX_DEPTH:
        raise UserError(f"graph bodies are nested more than {MAX_DEPTH} deep; flatten the model")
    for node in nodes:
        for body in bodies(node):
            check_depth(body.node, depth + 1)


def defined_in(graph: Any) -> set[str]:
    """Return the names that a GraphProto itself defines."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    names.update(name for node in graph.node for name in node.output if name)
    return names


def captured(graph: Any) -> tuple[str, ...]:
    """Return the outer names that a body reads, bodies within it included, in order."""
    own = defined_in(graph)
    found: dict[str, None] = {}
    for node in graph.node:
        found.update(dict.fromkeys(n for n in node.input if n and n not in own))
        found.update(dict.fromkeys(n for n in captured_by(node) if n not in own))
    # A branch may hand an outer value straight through.
    found.update(dict.fromkeys(v.name for v in graph.output if v.name not in own))
    return tuple(found)


def captured_by(node: Any) -> tuple[str, ...]:
    """Return the outer names that a NodeProto's bodies read."""
    inner = bodies(node)
    return tuple(dict.fromkeys(name for body in inner for name in captured(body))) if inner else ()


def operators(graph: Any) -> Counter[str]:
    """Count a GraphProto's nodes per operator, bodies included."""
    count: Counter[str] = Counter()
    for node in graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        count[f"{domain}.{node.op_type}" if domain else node.op_type] += 1
        for body in bodies(node):
            count.update(operators(body))
    return count


def label(node: Any, index: int) -> str:
    """Return a node's name for messages, safe to print."""
    return safe(node.name or f"{node.op_type}_{index}")
