"""What is known before the device runs: constants, shapes, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npudbg.device.noderunner import NodeError, NodeRunner, parse_type
from npudbg.device.values import Value
from npudbg.graph.ir import Graph, Node

_RANDOM = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split()
)
_DATA_SHAPES = frozenset(
    "NonZero NonMaxSuppression Unique Compress Loop Scan If SequenceAt SplitToSequence"
    " ConcatFromSequence Range OneHot TopK Reshape Expand Tile ConstantOfShape Resize Pad Slice"
    " StringSplit Upsample".split()
)
_ALWAYS = frozenset("NonZero NonMaxSuppression Unique Compress Loop Scan If SequenceAt".split())
_MAX_FOLDED = 1 << 24


def fold(node: Node, value: Callable[[str], Value], runner: NodeRunner) -> list[Any] | None:
    """Return a node's outputs if they are known at compile time, else None."""
    if node.captured or node.op_type in _RANDOM:
        return None
    if node.op_type == "Constant" and not node.domain:
        constant = constant_of(node)
        return None if constant is None else [constant]
    if not node.inputs or not all(node.inputs[:1]):
        return None
    operands = [value(n) if n else None for n in node.inputs]
    first = operands[0]
    if node.op_type in ("Shape", "Size") and not node.domain and first is not None:
        if first.data_shape or first.shape is None:
            return None
        return [_shape_of(node, first.shape)]
    if not all(v is None or (v.static and v.is_tensor) for v in operands):
        return None
    feeds = {
        n: _plain(v) for n, v in zip(node.inputs, operands, strict=True) if n and v is not None
    }
    if sum(f.nbytes for f in feeds.values()) > _MAX_FOLDED:
        return None
    try:
        results, _ = runner.run(node.proto, feeds)
    except NodeError:
        return None  # it fails where it stands, with its name
    if any(isinstance(r, np.ndarray) and r.nbytes > _MAX_FOLDED for r in results):
        return None
    return results


def constants(graph: Graph) -> dict[str, None]:
    """Return the names whose values follow from the model alone, in the model's order.

    Initializers, what Constant nodes hold and what is made of nothing else: such
    tensors lie in device memory like weights.
    """
    found = dict.fromkeys(graph.initializers)
    for node in graph.nodes:
        constant = node.op_type == "Constant" and not node.domain
        follows = bool(node.inputs) and all(n in found for n in node.inputs if n)
        if constant or (follows and not node.captured and node.op_type not in _RANDOM):
            found.update(dict.fromkeys(node.writes))
    return found


def _plain(value: Value) -> Any:
    """The model's own values of a constant (a weight kept in the device's type is widened)."""
    if value.model_dtype is not None and value.array.dtype != value.model_dtype:
        from npudbg.device.numerics import Numerics

        return Numerics().load(value.stored, value.model_dtype)
    return value.data


def constant_of(node: Node) -> Any:
    """Return the value of a Constant node; None for one that is sparse or says none."""
    attributes = node.attributes
    for name in attributes:
        if name == "value":
            return np.asarray(attributes[name], order="C")
        if name in ("value_float", "value_floats"):
            return np.asarray(attributes[name], np.float32)
        if name in ("value_int", "value_ints"):
            return np.asarray(attributes[name], np.int64)
        if name in ("value_string", "value_strings"):
            return np.asarray(attributes[name], object)
    return None


def _shape_of(node: Node, shape: tuple[int, ...]) -> Any:
    if node.op_type == "Size":
        return np.asarray(np.prod(shape, dtype=np.int64), np.int64)
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    return np.asarray(shape[slice(start, end)], np.int64)


def shape_depends_on_values(node: Node, reads: Sequence[Value]) -> bool:
    """Whether the shapes of a node's outputs depend on values that only a run knows."""
    if node.op_type in _ALWAYS or any(v.data_shape for v in reads):
        return True
    if node.op_type in _DATA_SHAPES:
        return any(not v.static for v in reads[1:]) or (
            node.op_type in ("Range", "ConstantOfShape") and any(not v.static for v in reads)
        )
    return bool(node.domain) and any(not v.static for v in reads)


def declared_type(value: Value, graph: Graph) -> Any:
    """Return the TypeProto of a value that is not a plain tensor, where it is known."""
    if value.is_tensor:
        return None
    if value.kind and not value.kind.startswith("tensor"):
        return parse_type(value.kind)
    for info in (*graph.model.graph.input, *graph.model.graph.value_info):
        if info.name == value.name and not info.type.HasField("tensor_type"):
            return info.type
    return None
