"""Kernels that only move or rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence

from npudbg.device.kernels.base import Box, Kernel, Op, all_whole, broadcast_box, no_axes, whole


def _others(op: Op, first: Box) -> list[Box | None]:
    """The first operand's box; the others are parameters in the descriptor."""
    return [first, *(None for _ in op.operands[1:])]


def _permutation(op: Op) -> list[int]:
    shape = op.operands[0]
    assert shape is not None
    return op.ints("perm", list(range(len(shape)))[::-1])


def _transpose(op: Op, box: Box) -> list[Box | None]:
    perm = _permutation(op)
    region: list[tuple[int, int]] = [(0, 0)] * len(perm)
    for out_axis, in_axis in enumerate(perm):
        region[in_axis] = box[out_axis]
    return [tuple(region)]


def _concat(op: Op, box: Box) -> list[Box | None]:
    out = op.outputs[0]
    assert out is not None
    axis = op.int("axis", 0) % len(out)
    start, boxes = 0, list[Box | None]()
    for shape in op.operands:
        if shape is None:
            boxes.append(None)
            continue
        low, high = max(box[axis][0] - start, 0), min(box[axis][1] - start, shape[axis])
        boxes.append((*box[:axis], (low, high), *box[axis + 1 :]) if low < high else None)
        start += shape[axis]
    return boxes


def slice_steps(op: Op) -> list[tuple[int, int]] | None:
    """Return first element and step per axis of a Slice, or None if not known yet."""
    shape = op.operands[0]
    if shape is None:
        return None
    steps = [(0, 1)] * len(shape)
    if op.opset < 10:
        starts = op.ints("starts", ())
        axes: Sequence[int]
        axes = op.ints("axes", range(len(starts)))
        strides = [1] * len(starts)
    else:
        values = [op.static.get(i) for i in range(1, 5)]
        given = [i < len(op.operands) and op.operands[i] is not None for i in range(1, 5)]
        if any(g and v is None for g, v in zip(given, values, strict=True)):
            return None
        first = values[0]
        if first is None:
            return None
        starts = first.reshape(-1).tolist()
        axes = values[2].reshape(-1).tolist() if values[2] is not None else range(len(starts))
        strides = values[3].reshape(-1).tolist() if values[3] is not None else [1] * len(starts)
    for start, axis, step in zip(starts, axes, strides, strict=True):
        n = shape[axis]
        start = start + n if start < 0 else start
        start = min(max(start, 0), n - 1 if step < 0 else n)
        steps[axis] = (start, step)
    return steps


def _slice(op: Op, box: Box) -> list[Box | None] | None:
    steps = slice_steps(op)
    if steps is None:
        return None
    region = []
    for (start, stop), (first, step) in zip(box, steps, strict=True):
        ends = (first + start * step, first + (stop - 1) * step)
        region.append((min(ends), max(ends) + 1) if stop > start else (0, 0))
    return _others(op, tuple(region))


def _split(op: Op, box: Box) -> list[Box | None]:
    shape = op.operands[0]
    assert shape is not None
    axis = op.int("axis", 0) % len(shape)
    return _others(op, (*box[:axis], (0, shape[axis]), *box[axis + 1 :]))


def _split_axes(op: Op) -> list[int]:
    shape = op.operands[0] or ()
    axis = op.int("axis", 0) % len(shape) if shape else 0
    return [a for a in range(len(shape)) if a != axis]


def _pad(op: Op, box: Box) -> list[Box | None] | None:
    shape, out = op.operands[0], op.outputs[0]
    if shape is None or out is None:
        return None
    rank = len(shape)
    if op.text("mode", "constant") != "constant":
        return all_whole(op, box)
    if op.opset < 11:
        before = op.ints("pads", [0] * 2 * rank)[:rank]
    else:
        pads = op.static.get(1)
        if pads is None or (len(op.operands) > 2 and op.operands[2] and 2 not in op.static):
            return None
        values = pads.reshape(-1).tolist()
        before = [0] * rank
        axes = op.static.get(3)
        if len(op.operands) > 3 and op.operands[3] is not None and axes is None:
            return None
        named = range(rank) if axes is None else axes.reshape(-1).tolist()
        for i, axis in enumerate(named):
            before[axis] = values[i]
    region = []
    for (start, stop), shift, n in zip(box, before, shape, strict=True):
        low, high = min(max(start - shift, 0), n), min(max(stop - shift, 0), n)
        region.append((low, high))
    return _others(op, tuple(region))


def _pad_axes(op: Op) -> Sequence[int]:
    out = op.outputs[0]
    return range(len(out or ())) if op.text("mode", "constant") == "constant" else ()


def _expand(op: Op, box: Box) -> list[Box | None]:
    shape, out = op.operands[0], op.outputs[0]
    assert shape is not None and out is not None
    return _others(op, broadcast_box(shape, out, box))


def _gather(op: Op, box: Box) -> list[Box | None]:
    data, indices = op.operands[0], op.operands[1]
    assert data is not None and indices is not None
    axis = op.int("axis", 0) % len(data)
    k = len(indices)
    return [(*box[:axis], (0, data[axis]), *box[axis + k :]), box[axis : axis + k]]


def _every(op: Op) -> Sequence[int]:
    return range(len(op.outputs[0] or ()))


def _resize(op: Op, box: Box) -> list[Box | None]:
    """Axes that keep their size may be cut; resized ones are whole."""
    shape, out = op.operands[0], op.outputs[0]
    assert shape is not None and out is not None
    kept = _kept_axes(op)
    return _others(op, tuple(box[a] if a in kept else (0, n) for a, n in enumerate(shape)))


def _kept_axes(op: Op) -> list[int]:
    shape, out = op.operands[0], op.outputs[0]
    if shape is None or out is None or len(shape) != len(out):
        return []
    # A region of interest can crop an axis whose size stays; leave such models whole.
    if op.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return []
    return [a for a in range(min(2, len(out))) if shape[a] == out[a]]


def _batch_only(op: Op, box: Box) -> list[Box | None]:
    shape = op.operands[0]
    assert shape is not None
    return _others(op, (box[0], *whole(shape)[1:]))


VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")

KERNELS: dict[str, Kernel] = {
    **{n: Kernel(n.lower(), "-", all_whole, no_axes, view=True) for n in VIEWS},
    "Transpose": Kernel("transpose", "vec", _transpose, _every),
    "Concat": Kernel("concat", "vec", _concat, _every),
    "Slice": Kernel("slice", "vec", _slice, _every),
    "Split": Kernel("split", "vec", _split, _split_axes),
    "Pad": Kernel("pad", "vec", _pad, _pad_axes),
    "Expand": Kernel("expand", "vec", _expand, _every),
    "Gather": Kernel("gather", "vec", _gather, _every),
    "Resize": Kernel("resize", "vec", _resize, _kept_axes, cost=4),
    "Upsample": Kernel("resize", "vec", _resize, _kept_axes, cost=4),
    "DepthToSpace": Kernel("depth2space", "vec", _batch_only, lambda op: (0,)),
    "SpaceToDepth": Kernel("space2depth", "vec", _batch_only, lambda op: (0,)),
    "Tile": Kernel("tile", "vec", all_whole, no_axes),
}
