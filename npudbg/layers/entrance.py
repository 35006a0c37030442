"""What a model does first with an input: it shows what layout and range it was made for."""

from __future__ import annotations

from dataclasses import dataclass

from npudbg.graph.ir import Array, Graph, Node

_THROUGH = frozenset({"Identity", "Cast", "QuantizeLinear", "DequantizeLinear", "Dropout"})
_NORMALISING = frozenset(
    {"Sub", "Div", "Mul", "Add", "BatchNormalization", "InstanceNormalization", "LpNormalization"}
)
_MAX_STEPS = 16


@dataclass(frozen=True, slots=True)
class Affine:
    """Parameters of a quantisation per tensor: ``real = scale * (q - zero_point)``."""

    scale: float
    zero_point: int
    low: int
    high: int
    node: Node


@dataclass(frozen=True, slots=True)
class Entrance:
    """The way of one input into the model.

    Attributes:
        permutation: Axes of the Transposes it goes through first, as one; None without.
        transpose: The first of these.
        conv: The Conv that reads it, or None.
        channels: Input channels that this Conv demands.
        normalises: Whether constants are subtracted or multiplied first.
        quantized: Parameters of the first QuantizeLinear, if they are one each.
        dequantized: The same of a DequantizeLinear that reads the input itself.
    """

    permutation: tuple[int, ...] | None = None
    transpose: Node | None = None
    conv: Node | None = None
    channels: int | None = None
    normalises: bool = False
    quantized: Affine | None = None
    dequantized: Affine | None = None


def entrance(graph: Graph | None, name: str) -> Entrance:
    """Follow an input until its order or its values are used."""
    if graph is None:
        return Entrance()
    permutation: tuple[int, ...] | None = None
    transpose: Node | None = None
    quantized: Affine | None = None
    dequantized: Affine | None = None
    value = name
    for step in range(_MAX_STEPS):
        readers = [n for n in graph.consumers(value) if n.inputs and n.inputs[0] == value]
        conv = next((n for n in readers if n.operator in ("Conv", "QLinearConv")), None)
        if conv is not None:
            return Entrance(
                permutation, transpose, conv, _channels(graph, conv), False, quantized, dequantized
            )
        if any(_normalises(graph, n, value) for n in graph.consumers(value)):
            return Entrance(permutation, transpose, None, None, True, quantized, dequantized)
        onward = [n for n in readers if n.operator in _THROUGH or n.operator == "Transpose"]
        if len(onward) != 1 or not onward[0].outputs:
            break
        node = onward[0]
        if node.operator == "Transpose":
            perm = node.attributes.get("perm")
            if perm is None:
                break
            order = tuple(int(p) for p in perm)
            before = permutation or tuple(range(len(order)))
            if sorted(order) != list(range(len(before))):
                break
            permutation, transpose = tuple(before[p] for p in order), transpose or node
        elif node.operator == "QuantizeLinear" and quantized is None:
            quantized = affine(graph, node)
        elif node.operator == "DequantizeLinear" and step == 0:
            dequantized = affine(graph, node)
        value = node.outputs[0]
    return Entrance(permutation, transpose, None, None, False, quantized, dequantized)


def affine(graph: Graph, node: Node) -> Affine | None:
    """Return a quantisation's parameters where they are constants, one for the whole tensor."""
    scale = _constant(graph, node.inputs[1]) if len(node.inputs) > 1 else None
    if scale is None or scale.size != 1:
        return None
    zero = _constant(graph, node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if zero is None:
        low, high, point = 0, 255, 0  # the operator's default: uint8
    else:
        if zero.size != 1 or zero.dtype.kind not in "iu" or zero.dtype.itemsize > 2:
            return None
        bits = 8 * zero.dtype.itemsize
        low = -(1 << (bits - 1)) if zero.dtype.kind == "i" else 0
        high, point = low + (1 << bits) - 1, int(zero.reshape(-1)[0])
    step = float(scale.reshape(-1)[0])
    return Affine(step, point, low, high, node) if step > 0 else None


def _constant(graph: Graph, name: str) -> Array | None:
    found = graph.initializers.get(name)
    if found is not None:
        return found.array() if found.nbytes <= 1 << 16 else None
    node = graph.producer(name)
    if node is None or node.operator != "Constant":
        return None
    value = node.attributes.get("value")
    return value if hasattr(value, "dtype") else None


def _is_constant(graph: Graph, name: str) -> bool:
    if name in graph.initializers:
        return True
    node = graph.producer(name)
    return node is not None and node.operator == "Constant"


def _normalises(graph: Graph, node: Node, value: str) -> bool:
    if node.operator not in _NORMALISING:
        return False
    if node.operator in ("InstanceNormalization", "LpNormalization"):
        return True
    return all(_is_constant(graph, n) for n in node.inputs if n and n != value)


def _channels(graph: Graph, conv: Node) -> int | None:
    place = 3 if conv.op_type == "QLinearConv" else 1
    if len(conv.inputs) <= place:
        return None
    name = conv.inputs[place]
    for _ in range(4):  # the weight may come through a DequantizeLinear or an Identity
        weight = graph.initializers.get(name)
        if weight is not None:
            if len(weight.shape) < 3:
                return None
            return int(weight.shape[1]) * int(conv.attributes.get("group", 1) or 1)
        node = graph.producer(name)
        if node is None or not node.inputs or node.operator not in _THROUGH:
            return None
        name = node.inputs[0]
    return None
