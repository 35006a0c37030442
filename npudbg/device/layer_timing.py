"""Cycles of whole layers, the way a compiler's layer table states them.

The table's model: memory and array work at the same time, so that a layer takes
the longer of the two.  Memory time is all bytes of a layer (input, weight, bias,
output) over the bytes that DDR moves a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from npudbg.device.array import WIDTH, Work, columns, conv_work, work_cycles
from npudbg.device.kernels.base import Op, whole
from npudbg.targets.profile import Target


@dataclass(frozen=True, slots=True)
class LayerCycles:
    """Cycles of a layer: of the array, of memory."""

    npu: int
    ddr: int

    @property
    def total(self) -> int:
        """What the layer takes: the longer of the two."""
        return max(self.npu, self.ddr)


def conv_layer(target: Target, op: Op, dtype: str, *, operands: int = 0) -> LayerCycles:
    """Return the cycles of a whole convolution.

    Args:
        target: The profile.
        op: The convolution: shapes of image, weight and (if it has one) bias.
        dtype: ``fp32``, ``fp16``, ``bf16`` or ``int8``: type in device memory.
        operands: Further operands of the output's shape that a fused element-wise
            operator reads (1 for a residual).
    """
    out = op.outputs[0]
    assert out is not None
    work = conv_work(op, whole(out))
    npu = work_cycles(target.compute, work, dtype)
    nbytes = layer_bytes(target, op, work, dtype, operands=operands)
    return LayerCycles(npu, int(nbytes / target.dma.bytes_per_cycle))


def layer_bytes(target: Target, op: Op, work: Work, dtype: str, *, operands: int = 0) -> int:
    """Return the bytes that a convolution moves, padded as the chip's memory holds them."""
    image, weight, out = op.operands[0], op.operands[1], op.outputs[0]
    assert image is not None and weight is not None and out is not None
    compute, width = target.compute, WIDTH[dtype]
    pad = max(compute.weight_channel_bytes // width, 1)
    depth = weight[1] if work.depthwise else -(-weight[1] // pad) * pad
    moved = prod(image) + weight[0] * depth * prod(weight[2:]) + (1 + operands) * prod(out)
    nbytes = moved * width
    if len(op.operands) > 2 and op.operands[2] is not None:
        each = compute.bias_bytes.get(dtype, 4)
        if work.depthwise:
            each = compute.depthwise_bias_bytes.get(dtype, each)
        multiple = columns(compute, dtype)
        nbytes += -(-weight[0] // multiple) * multiple * each
    return nbytes
