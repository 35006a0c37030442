"""Kernels that look along whole axes: reductions, softmax, layer normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from npudbg.device.kernels.base import Box, Kernel, Op, whole


def reduced_axes(op: Op) -> list[int] | None:
    """Return the axes that a reduction runs along, or None if only known at run time."""
    shape = op.operands[0]
    if shape is None:
        return None
    rank = len(shape)
    axes = op.attributes.get("axes")
    if len(op.operands) > 1 and op.operands[1] is not None:
        value = op.static.get(1)
        if value is None:
            return None
        axes = value.reshape(-1).tolist()
    if axes is None or len(axes) == 0:
        return [] if op.int("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({int(a) % rank for a in axes})


def _reduce_region(op: Op, box: Box, axes: Sequence[int]) -> Box:
    shape = op.operands[0]
    assert shape is not None
    region, at = [], 0
    keep = op.int("keepdims", 1)
    for axis, n in enumerate(shape):
        if axis in axes:
            region.append((0, n))
            at += 1 if keep else 0
        else:
            region.append(box[at])
            at += 1
    return tuple(region)


def _reduce(op: Op, box: Box) -> list[Box | None] | None:
    axes = reduced_axes(op)
    if axes is None:
        return None
    return [_reduce_region(op, box, axes), *(None for _ in op.operands[1:])]


def _arg(op: Op, box: Box) -> list[Box | None]:
    shape = op.operands[0]
    assert shape is not None
    return [_reduce_region(op, box, [op.int("axis", 0) % len(shape)])]


def _reduce_axes(op: Op) -> list[int]:
    """Output axes that were not reduced."""
    out, axes = op.outputs[0], reduced_axes(op)
    if out is None or axes is None:
        return []
    keep = op.int("keepdims", 1)
    return [a for a in range(len(out)) if not (keep and a in axes)]


def _arg_axes(op: Op) -> list[int]:
    out, shape = op.outputs[0], op.operands[0]
    if out is None or not shape:
        return []
    axis = op.int("axis", 0) % len(shape)
    return [a for a in range(len(out)) if not (op.int("keepdims", 1) and a == axis)]


def _along(op: Op) -> list[int]:
    """Axes that a softmax needs whole (all from ``axis`` on before opset 13)."""
    shape = op.operands[0]
    assert shape is not None
    rank = max(len(shape), 1)
    axis = op.int("axis", -1 if op.opset >= 13 else 1) % rank
    return [axis] if op.opset >= 13 else list(range(axis, rank))


def _softmax(op: Op, box: Box) -> list[Box | None]:
    shape = op.operands[0]
    assert shape is not None
    along = _along(op)
    return [tuple((0, n) if a in along else box[a] for a, n in enumerate(shape))]


def _softmax_axes(op: Op) -> list[int]:
    shape = op.operands[0]
    along = _along(op)
    return [a for a in range(len(shape or ())) if a not in along]


def _layer_norm(op: Op, box: Box) -> list[Box | None] | None:
    shape = op.operands[0]
    if shape is None or any(o is not None and o != shape for o in op.outputs):
        return None
    axis = op.int("axis", -1) % len(shape)
    region = (*box[:axis], *whole(shape)[axis:])
    return [region, *(None if s is None else whole(s) for s in op.operands[1:])]


def _layer_norm_axes(op: Op) -> list[int]:
    shape = op.operands[0]
    simple = shape is not None and all(o is None or o == shape for o in op.outputs)
    return list(range(op.int("axis", -1) % len(shape))) if shape and simple else []


def _scan_along(op: Op, box: Box) -> list[Box | None] | None:
    shape, axis = op.operands[0], op.static.get(1)
    if shape is None or axis is None:
        return None
    along = int(axis.reshape(-1)[0]) % len(shape)
    return [tuple((0, n) if a == along else box[a] for a, n in enumerate(shape)), None]


def _scan_axes(op: Op) -> list[int]:
    shape, axis = op.operands[0], op.static.get(1)
    if shape is None or axis is None:
        return []
    along = int(axis.reshape(-1)[0]) % len(shape)
    return [a for a in range(len(shape)) if a != along]


_REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
]

KERNELS: dict[str, Kernel] = {
    **{n: Kernel(n.lower(), "vec", _reduce, _reduce_axes) for n in _REDUCTIONS},
    "ArgMax": Kernel("argmax", "vec", _arg, _arg_axes),
    "ArgMin": Kernel("argmin", "vec", _arg, _arg_axes),
    "Softmax": Kernel("softmax", "vec", _softmax, _softmax_axes, cost=8),
    "LogSoftmax": Kernel("logsoftmax", "vec", _softmax, _softmax_axes, cost=9),
    "Hardmax": Kernel("hardmax", "vec", _softmax, _softmax_axes, cost=2),
    "LayerNormalization": Kernel("layernorm", "vec", _layer_norm, _layer_norm_axes, cost=6),
    "RMSNormalization": Kernel("rmsnorm", "vec", _layer_norm, _layer_norm_axes, cost=4),
    "CumSum": Kernel("cumsum", "vec", _scan_along, _scan_axes),
}
