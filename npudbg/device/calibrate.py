"""Calibration: ranges over sample inputs, and the int8 parameters that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device.calibration import Calibration, Scheme
from npudbg.device.quantize import affine, choose_weight, value_range
from npudbg.device.reference import Reference
from npudbg.graph.ir import Graph, Node
from npudbg.session.errors import UserError
from npudbg.session.records import Quantization

Array = npt.NDArray[Any]

MOVES = frozenset(
    "MaxPool GlobalMaxPool Flatten Reshape Squeeze Unsqueeze Transpose Identity Slice Expand"
    " DepthToSpace SpaceToDepth Tile Gather".split()
)
"""Operators whose results are values of their first operand: no new parameters."""

_HALF = frozenset({"Softmax", "LogSoftmax"})
_MATRIX = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_ENDS = frozenset({"BatchNormalization", "Relu", "Clip", "LeakyRelu", "PRelu"})


def calibrate(
    graph: Graph, samples: Iterable[Mapping[str, Array]], scheme: Scheme | None = None
) -> Calibration:
    """Run samples through the model as it is, and choose parameters from what they show.

    Args:
        graph: The model.
        samples: Inputs by name, one mapping a run.
        scheme: How to quantise; by default asymmetric, weights by channel.

    Raises:
        UserError: No sample at all, or ONNX Runtime refuses one.
    """
    scheme = scheme or Scheme()
    ranges: dict[str, tuple[float, float]] = {}
    count = 0
    model = Reference(graph)
    for sample in samples:
        count += 1
        for name, value in sample.items():
            _widen(ranges, name, value)
        for _, results in model.run(sample):
            for name, value in results.items():
                _widen(ranges, name, value)
    if not count:
        raise UserError("calibration: no sample; give at least one input")
    half = _half(graph)
    activations = {name: _parameters(*pair) for name, pair in ranges.items() if name not in half}
    for node in graph.nodes:
        if node.op_type in MOVES and not node.domain and node.inputs[0] in activations:
            activations.update(
                (n, activations[node.inputs[0]]) for n in node.writes[:1] if n in activations
            )
    weights: dict[str, Quantization] = {}
    factors: dict[str, tuple[float, ...]] = {}
    for name, users in _weights(graph).items():
        weights[name], factor = _weight(graph, name, users, scheme)
        if factor is not None:
            factors[name] = tuple(float(f) for f in factor)
    return Calibration(
        scheme=scheme,
        samples=count,
        ranges=ranges,
        activations=activations,
        weights=weights,
        factors=factors,
        ends=_ends(graph),
        half=half,
    )


def _widen(ranges: dict[str, tuple[float, float]], name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return
    low, high = value_range(value)
    known = ranges.get(name)
    ranges[name] = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))


def _parameters(low: float, high: float) -> Quantization:
    scale, zero = affine(low, high)
    return Quantization(scale=(scale,), zero_point=(zero,))


def _half(graph: Graph) -> frozenset[str]:
    half: set[str] = set()
    for node in graph.nodes:
        if node.op_type in _HALF or (node.op_type in MOVES and node.inputs[0] in half):
            half.update(node.writes[:1])
    return frozenset(half)


def _only_reader(graph: Graph, name: str) -> Node | None:
    readers = graph.consumers(name)
    inner = all(name != output.name for output in graph.outputs)
    return readers[0] if len(readers) == 1 and inner else None


def _ends(graph: Graph) -> dict[str, str]:
    """Tensors that a fused convolution never writes, each with the tensor that it does."""
    ends: dict[str, str] = {}
    for node in reversed(graph.nodes):
        if node.op_type in _MATRIX or node.op_type in ("BatchNormalization", "Add"):
            name = node.outputs[0]
            reader = _only_reader(graph, name)
            if reader is not None and reader.op_type in _ENDS and reader.inputs[0] == name:
                ends[name] = ends.get(reader.outputs[0], reader.outputs[0])
    return ends


# -- weights ---------------------------------------------------------------------------------


def _weights(graph: Graph) -> dict[str, list[Node]]:
    """Constants that are the second operand of matrix operators and nothing else."""
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if node.op_type not in _MATRIX or node.domain or name not in graph.initializers:
            continue
        readers = graph.consumers(name)
        alone = all(n.op_type in _MATRIX and n.inputs.index(name) == 1 for n in readers)
        known = graph.initializers[name]
        if alone and known.dtype == "<f4" and len(known.shape) >= 2:
            found[name] = list(readers)
    return found


def _weight(
    graph: Graph, name: str, users: list[Node], scheme: Scheme
) -> tuple[Quantization, Array | None]:
    array = graph.initializers[name].array()
    axes = {_output_axis(node, array.ndim) for node in users}
    axis = axes.pop() if len(axes) == 1 else None
    factor = _shared_factor(graph, users) if axis is not None else None
    folded = array
    if factor is not None:
        assert axis is not None
        if factor.shape != (array.shape[axis],) or not np.all(factor > 0):
            factor = None
        else:
            folded = array * factor.reshape([-1 if a == axis else 1 for a in range(array.ndim)])
    by_channel = axis if scheme.weights == "channel" else None
    chosen = choose_weight(folded, by_channel, asymmetric=scheme.asymmetric)
    if factor is None:
        return chosen, None
    scales = chosen.scale if len(chosen.scale) > 1 else chosen.scale * len(factor)
    zeros = chosen.zero_point if len(chosen.scale) > 1 else chosen.zero_point * len(factor)
    own = Quantization(
        scale=tuple(s / float(f) for s, f in zip(scales, factor, strict=True)),
        zero_point=zeros,
        axis=axis,
    )
    return own, factor


def _output_axis(node: Node, rank: int) -> int | None:
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1 if int(node.attributes.get("group", 1)) == 1 else None
    if node.op_type == "Gemm":
        return 0 if int(node.attributes.get("transB", 0)) else 1
    return rank - 1 if rank == 2 else None


def _shared_factor(graph: Graph, users: list[Node]) -> Array | None:
    """What batch normalisation multiplies each output channel with, if all users agree."""
    found = [_factor(graph, node) for node in users]
    first = found[0]
    if first is None or any(f is None or not np.array_equal(f, first) for f in found):
        return None
    return first


def _factor(graph: Graph, node: Node) -> Array | None:
    reader = _only_reader(graph, node.outputs[0])
    if reader is None or reader.op_type != "BatchNormalization":
        return None
    names = (reader.inputs[1], reader.inputs[4])
    if any(n not in graph.initializers for n in names):
        return None
    gamma, variance = (graph.initializers[n].array().astype(np.float64) for n in names)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor: Array = np.abs(gamma / np.sqrt(variance + reader.attributes.get("epsilon", 1e-5)))
    return factor if np.all(np.isfinite(factor)) else None
