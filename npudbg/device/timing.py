"""Cycles: what a transfer and a kernel cost on the target.

All figures come from the target's profile; what it leaves out is a default of
the simulator, and every cycle shown is marked as simulated.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

from npudbg.device.kernels.base import Box, Kernel, Op, extent, volume
from npudbg.targets.profile import Target

WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of an operand."""


@lru_cache(maxsize=4096)
def contiguous_runs(shape: tuple[int, ...], box: Box) -> tuple[int, int]:
    """Return how many contiguous runs a box of a C-order tensor has, and elements a run."""
    run = 1
    at = len(shape)
    while at > 0:
        at -= 1
        start, stop = box[at]
        run *= stop - start
        if stop - start != shape[at]:
            break
    count = prod(stop - start for start, stop in box[:at])
    return max(count, 1), run


def dma_cycles(target: Target, shape: tuple[int, ...], box: Box, itemsize: int) -> int:
    """Return the cycles of one transfer of a region: set-up, then whole bursts a run."""
    runs, elements = contiguous_runs(shape, box)
    nbytes = elements * itemsize
    burst = target.dma.burst_bytes
    moved = runs * (-(-nbytes // burst) * burst if runs > 1 else nbytes)
    return target.dma.setup_cycles + ceil(moved / target.dma.bytes_per_cycle)


def linear_dma_cycles(target: Target, nbytes: int) -> int:
    """Return the cycles of one contiguous transfer."""
    return target.dma.setup_cycles + ceil(nbytes / target.dma.bytes_per_cycle)


def kernel_cycles(
    target: Target, kernel: Kernel, op: Op, out: Box, operand: Box | None, dtype: str
) -> int:
    """Return the cycles of one kernel on one tile.

    A matrix kernel takes one pass of the array per output position and
    ``ceil(inputs / rows) * ceil(outputs / columns)`` blocks of channels; a
    vector kernel takes its elements by lanes.

    Args:
        target: The profile.
        kernel: The kernel.
        op: Shapes and attributes.
        out: Region of the first output.
        operand: Region of the first operand, if it reads one.
        dtype: ``fp32``, ``fp16``, ``bf16`` or ``int8``: width of the operands.
    """
    compute = target.compute
    if kernel.engine == "mac":
        cols = compute.mac_cols_by_dtype.get(dtype, compute.mac_cols)
        return compute.kernel_setup_cycles + _mac_cycles(op, out, compute.mac_rows, cols)
    read = volume(operand) if operand is not None else 0
    work = -(-max(volume(out), read) * kernel.cost // compute.vector_lanes)
    # No unit is faster than the banks that feed it.
    memory = target.memory
    banks = memory.sram_banks * memory.bank_bytes_per_cycle
    fed = -(-(volume(out) + read) * WIDTH.get(dtype, 4) // banks)
    return compute.kernel_setup_cycles + max(work, fed)


def _mac_cycles(op: Op, out: Box, rows: int, cols: int) -> int:
    shape = extent(out)
    if op.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        weight = op.operands[3 if op.op_type == "QLinearConv" else 1]
        assert weight is not None
        positions = shape[0] * prod(shape[2:])
        group = op.int("group", 1)
        # A depthwise convolution fills one row of the array: its group is narrower.
        blocks = -(-weight[1] // rows) * -(-shape[1] // cols)
        if group > 1 and weight[1] > 1:
            blocks = max(group, 1) * -(-weight[1] // rows) * -(-(weight[0] // group) // cols)
        return positions * prod(weight[2:]) * blocks
    if op.op_type == "ConvTranspose":
        image, weight = op.operands[0], op.operands[1]
        out_shape = op.outputs[0]
        assert image is not None and weight is not None and out_shape is not None
        positions = image[0] * prod(image[2:])
        blocks = -(-weight[0] // rows) * -(-weight[1] // cols)
        total = positions * prod(weight[2:]) * blocks
        return -(-total * volume(out) // max(prod(out_shape), 1))
    left = op.operands[0]
    assert left is not None
    depth = left[0] if op.int("transA", 0) and op.op_type == "Gemm" else left[-1] if left else 1
    lines = prod(shape[:-1]) if shape else 1
    return lines * -(-depth // rows) * -(-(shape[-1] if shape else 1) // cols)


def host_cycles(target: Target, elements: int) -> int:
    """Return the estimated device cycles that pass while the host runs an operator."""
    clock = target.clock
    seconds = clock.host_call_us * 1e-6 + elements * clock.host_ns_per_element * 1e-9
    return int(seconds * clock.device_hz)
