"""Element-wise kernels and normalisation by known parameters."""

from __future__ import annotations

from npudbg.device.kernels.base import Box, Kernel, Op, broadcast_box, leading_axes, whole

UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Cast",
    "CastLike",
    "BitwiseNot",
]
BINARY = [
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
    "Clip",
]
_COST = {
    "Exp": 4, "Log": 4, "Sqrt": 2, "Erf": 6, "Tanh": 6, "Sigmoid": 5, "Gelu": 8, "Pow": 6,
    "Div": 2, "Mish": 8, "Softplus": 6, "HardSwish": 2, "Sin": 6, "Cos": 6, "Tan": 8,
}  # fmt: skip


def _broadcast(op: Op, box: Box) -> list[Box | None]:
    out = op.outputs[0]
    assert out is not None
    return [None if s is None else broadcast_box(s, out, box) for s in op.operands]


def _first_only(op: Op, box: Box) -> list[Box | None]:
    return [box, *([None] * (len(op.operands) - 1))]


def _per_channel(op: Op, box: Box) -> list[Box | None] | None:
    """BatchNormalization in inference: parameters along axis 1."""
    if len([s for s in op.outputs if s is not None]) != 1 or len(box) < 1:
        return None
    channel = box[1] if len(box) > 1 else (0, 1)
    return [box, *(None if s is None else (channel,) for s in op.operands[1:])]


def _quantise(op: Op, box: Box) -> list[Box | None] | None:
    """Scale and zero point per tensor, or along ``axis``; blocked ones are not cut."""
    scale = op.operands[1]
    if scale is None or op.int("block_size", 0):
        return None
    rank = len(box)
    axis = op.int("axis", 1) % rank if rank else 0
    region = whole(scale) if len(scale) == 0 or scale == (1,) else (box[axis],)
    return [box, *(None if s is None else region for s in op.operands[1:])]


def _group(op: Op, box: Box) -> list[Box | None]:
    """Statistics over all of a sample's channel: axes from 2 on are whole."""
    shape = op.operands[0]
    assert shape is not None
    region = (*box[:2], *whole(shape)[2:])
    return [region, *(None if s is None else (box[1],) for s in op.operands[1:])]


KERNELS: dict[str, Kernel] = {
    **{
        name: Kernel(
            name.lower(), "vec",
            _first_only if name in ("CastLike",) else _broadcast,
            leading_axes, fusible=True, cost=_COST.get(name, 1),
        )
        for name in (*UNARY, *BINARY)
    },
    "BatchNormalization": Kernel(
        "batchnorm", "vec", _per_channel, leading_axes, fusible=True, cost=2
    ),
    "QuantizeLinear": Kernel("quantize", "vec", _quantise, leading_axes, cost=2),
    "DequantizeLinear": Kernel("dequantize", "vec", _quantise, leading_axes, cost=2),
    "InstanceNormalization": Kernel("instancenorm", "vec", _group, lambda op: (0, 1), cost=4),
}  # fmt: skip
