"""Cycles of the matrix array: how many passes a convolution or matrix product takes.

Two models, named by the profile's ``compute.mac_model``:

* ``array``: each cycle ``mac_rows`` input channels times ``mac_cols`` output
  channels of ``mac_positions`` output positions and one tap.  Fitted to the layer tables that
  RKNN-Toolkit2 prints at build time, and exact on every convolution there.
* ``systolic``: an output-stationary array of ``mac_rows`` positions by
  ``mac_cols`` output channels, filled and drained once a fold.

A tile costs its share, so that tiles cut at multiples of :func:`granule` add up
to the whole layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from npudbg.device.kernels.base import Box, Op, extent
from npudbg.targets.profile import Compute

WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of an operand."""

_WEIGHT = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Operators that slide a window, and the operand that is their weight."""


@dataclass(frozen=True, slots=True)
class Work:
    """A convolution or matrix product, or a tile of one.

    Attributes:
        positions: Output positions (batch times pixels; rows of a matrix) of the tile.
        of_positions: Output positions of the whole layer.
        taps: Pixels of the window; 1 for a matrix product.
        depth: Input channels that one output channel sums over, taps not counted.
        columns: Output channels of the tile, one entry a group that it touches.
        depthwise: Each output channel reads one input channel of its own.
    """

    positions: int
    of_positions: int
    taps: int
    depth: int
    columns: tuple[int, ...]
    depthwise: bool = False


def columns(compute: Compute, dtype: str) -> int:
    """Return how many output channels the array takes at once for an operand type."""
    return compute.mac_cols_by_dtype.get(dtype, compute.mac_cols)


def conv_work(op: Op, out: Box, weight: int | None = None) -> Work:
    """Return the work behind a region of a convolution's output."""
    shape, whole = op.operands[_WEIGHT[op.op_type] if weight is None else weight], op.outputs[0]
    assert shape is not None and whole is not None
    tile = extent(out)
    group = max(op.int("group", 1), 1)
    per = max(whole[1] // group, 1)
    start, stop = out[1]
    depthwise = group > 1 and shape[1] == 1
    if depthwise:
        touched: tuple[int, ...] = (stop - start,)
    else:
        touched = tuple(
            min(stop, at + per) - max(start, at)
            for at in range(start // per * per, stop, per)
            if min(stop, at + per) > max(start, at)
        )
    return Work(
        tile[0] * prod(tile[2:]),
        whole[0] * prod(whole[2:]),
        prod(shape[2:]),
        shape[1],
        touched,
        depthwise,
    )


def matrix_work(op: Op, out: Box) -> Work:
    """Return the work behind a region of a matrix product's output."""
    left, whole = op.operands[0], op.outputs[0]
    assert left is not None and whole is not None
    depth = left[0] if op.int("transA", 0) and op.op_type == "Gemm" else left[-1] if left else 1
    tile = extent(out)
    return Work(prod(tile[:-1]), prod(whole[:-1]), 1, depth, (tile[-1] if tile else 1,))


def work_cycles(compute: Compute, work: Work, dtype: str) -> int:
    """Return the array's cycles for a piece of work.

    Args:
        compute: The profile's arithmetic.
        work: What is computed.
        dtype: ``fp32``, ``fp16``, ``bf16`` or ``int8``: type of the operands.
    """
    cols = columns(compute, dtype)
    if compute.mac_model == "systolic":
        # Positions fill the array's rows without regard to where one tile ends.
        folds = -(-work.of_positions // compute.mac_rows) * sum(-(-n // cols) for n in work.columns)
        whole = folds * (work.taps * work.depth + compute.mac_rows + cols - 2)
        return -(-whole * work.positions // max(work.of_positions, 1))
    steps = -(-work.positions // compute.mac_positions) * work.taps
    small = work.of_positions * work.taps < compute.min_steps
    if small:
        steps = -(-compute.min_steps * work.positions // max(work.of_positions, 1))
    if work.depthwise:
        lanes = compute.depthwise_lanes.get(dtype, cols)
        return steps * sum(-(-n // lanes) for n in work.columns)
    blocks = -(-work.depth // compute.mac_rows)
    if small:
        least = compute.mac_rows * WIDTH.get(dtype, 4)
        blocks = max(blocks, -(-compute.min_depth_bytes // least))
    return steps * blocks * sum(-(-n // cols) for n in work.columns)


def op_cycles(compute: Compute, op: Op, out: Box, dtype: str) -> int:
    """Return the array's cycles for a region of an operator's first output."""
    if op.op_type in _WEIGHT:
        return work_cycles(compute, conv_work(op, out), dtype)
    if op.op_type == "ConvTranspose":
        return _transposed(compute, op, out, dtype)
    return work_cycles(compute, matrix_work(op, out), dtype)


def _transposed(compute: Compute, op: Op, out: Box, dtype: str) -> int:
    """Every input position meets every tap; a tile takes its share of the output."""
    image, weight, whole = op.operands[0], op.operands[1], op.outputs[0]
    assert image is not None and weight is not None and whole is not None
    positions = image[0] * prod(image[2:])
    group = max(op.int("group", 1), 1)
    depth = weight[0] // group
    work = Work(positions, positions, prod(weight[2:]), depth, (weight[1],) * group)
    total = work_cycles(compute, work, dtype)
    return -(-total * prod(extent(out)) // max(prod(whole), 1))


def granule(compute: Compute, op: Op, dtype: str) -> dict[int, int]:
    """Return, by output axis, the multiple at which a cut wastes nothing of the array."""
    out = op.outputs[0]
    if out is None or len(out) < 2:
        return {}
    cols = columns(compute, dtype)
    if op.op_type not in _WEIGHT:
        return {len(out) - 1: cols}
    weight = op.operands[_WEIGHT[op.op_type]]
    depthwise = weight is not None and op.int("group", 1) > 1 and weight[1] == 1
    return {1: compute.depthwise_lanes.get(dtype, cols) if depthwise else cols}
