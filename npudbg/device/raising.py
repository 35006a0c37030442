"""Nodes kept in the model's own type while the rest of the run is narrower.

A node that is raised stores its results as the model has them.  What it reads is
what the others left: an operand that was rounded stays rounded.  A constant or an
input is kept wide when all that read it are raised, as a converter does that
leaves a node in fp32.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from npudbg.device.kernels.registry import kernel_for
from npudbg.graph.ir import Graph, Node
from npudbg.session.errors import UserError
from npudbg.session.text import safe


def kept_tensors(graph: Graph, labels: Collection[str] = ()) -> frozenset[str]:
    """Return the names of the tensors that a narrow run keeps in the model's type.

    Args:
        graph: The model.
        labels: Names or labels of the raised nodes.

    Raises:
        UserError: A label that no node has.
    """
    return raised_tensors(graph, labels) | _statistics(graph)


def _statistics(graph: Graph) -> frozenset[str]:
    """Return the constants that only BatchNormalization reads beside its input.

    A variance beyond 65504 is ordinary in a trained model.  ONNX lets these four be wider
    than the input (BatchNormalization-15, type T2), and compilers fold them into one scale
    and one shift in fp32, so that none of them is ever a half.
    """
    known = {n for node in graph.nodes if node.op_type == "Constant" for n in node.outputs}
    known |= set(graph.initializers)
    found = {
        name
        for node in graph.nodes
        if node.op_type == "BatchNormalization"
        for name in node.inputs[1:5]
        if name in known
    }
    return frozenset(
        name
        for name in found
        if all(
            n.op_type == "BatchNormalization" and name != n.inputs[0] for n in graph.consumers(name)
        )
    )


def raised_tensors(graph: Graph, labels: Collection[str]) -> frozenset[str]:
    """Return the names of the tensors that raised nodes leave in the model's type.

    Args:
        graph: The model.
        labels: Names or labels of the raised nodes.

    Raises:
        UserError: A label that no node has.
    """
    if not labels:
        return frozenset()
    raised = find_nodes(graph, labels)
    wide: set[str] = set()
    for node in graph.nodes:
        kernel = kernel_for(node.op_type, node.domain)
        if kernel is not None and kernel.view:
            # Another shape of the same bytes: it has the type of what it views.
            if node.inputs[0] in wide or (
                graph.producer(node.inputs[0]) is None and node.index in raised
            ):
                wide.update(node.writes)
        elif node.index in raised:
            wide.update(node.writes)
    for name in {n for node in graph.nodes if node.index in raised for n in node.reads}:
        producer = graph.producer(name)
        known = producer is None or producer.op_type == "Constant"
        if known and all(n.index in raised for n in graph.consumers(name)):
            wide.add(name)
    return frozenset(wide)


def find_nodes(graph: Graph, labels: Collection[str]) -> set[int]:
    """Return the indices of the nodes of those names or labels.

    Raises:
        UserError: A label that no node has.
    """
    by_label: dict[str, list[Node]] = {}
    for node in graph.nodes:
        by_label.setdefault(node.label, []).append(node)
    found: set[int] = set()
    for label in labels:
        nodes = by_label.get(label)
        if nodes is None:
            near = difflib.get_close_matches(label, by_label, 1, 0.5)
            hint = f"did you mean {safe(near[0])}?" if near else "see `npudbg graph` for its nodes"
            raise UserError(f"{safe(label)}: the model has no node of that name; {hint}")
        found.update(n.index for n in nodes)
    return found
