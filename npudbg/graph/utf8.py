"""Names must be text: protobuf hands over bytes where a string is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npudbg.graph.bodies import bodies
from npudbg.session.errors import UserError
from npudbg.session.text import safe


def check_text(model: Any) -> None:
    """Refuse a model with a name that is not UTF-8; its nesting has been checked before.

    Raises:
        UserError: One is not.
    """
    _all_text((model.producer_name, model.producer_version), "the producer's name")
    _all_text((entry.domain for entry in model.opset_import), "an operator set")
    _graph(model.graph)
    for function in model.functions:
        _all_text((function.name, function.domain, *function.input, *function.output), "a function")
        _all_text((entry.domain for entry in function.opset_import), "an operator set")
        _nodes(function.node)


def _graph(graph: Any) -> None:
    _all_text((graph.name,), "the graph")
    for group in (graph.input, graph.output, graph.value_info):
        _all_text((value.name for value in group), "an input, output or value")
    _all_text((tensor.name for tensor in graph.initializer), "an initializer")
    for sparse in graph.sparse_initializer:
        _all_text((sparse.values.name, sparse.indices.name), "an initializer")
    _nodes(graph.node)


def _nodes(nodes: Iterable[Any]) -> None:
    for node in nodes:
        _all_text((node.name, node.op_type, node.domain, *node.input, *node.output), "a node")
        _all_text((a.name for a in node.attribute), "an attribute")
        for body in bodies(node):
            _graph(body)


def _all_text(values: Iterable[object], what: str) -> None:
    for value in values:
        if not isinstance(value, str):
            raise UserError(
                f"{what} has a name that is not UTF-8 text ({safe(value)}); the file is damaged, "
                "or export it with plain names"
            )
