"""Cycles: what a transfer and a kernel cost on the target.

All figures come from the target's profile; what it leaves out is a default of
the simulator, and every cycle shown is marked as simulated.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

from npudbg.device.array import WIDTH, op_cycles
from npudbg.device.kernels.base import Box, Kernel, Op, volume
from npudbg.targets.profile import Target


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

    A matrix kernel takes the passes of the array (:mod:`npudbg.device.array`), a
    vector kernel its elements by lanes.

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
        return compute.kernel_setup_cycles + op_cycles(compute, op, out, dtype)
    read = volume(operand) if operand is not None else 0
    work = -(-max(volume(out), read) * kernel.cost // compute.vector_lanes)
    # No unit is faster than the banks that feed it.
    memory = target.memory
    banks = memory.sram_banks * memory.bank_bytes_per_cycle
    fed = -(-(volume(out) + read) * WIDTH.get(dtype, 4) // banks)
    return compute.kernel_setup_cycles + max(work, fed)


def host_cycles(target: Target, elements: int) -> int:
    """Return the estimated device cycles that pass while the host runs an operator."""
    clock = target.clock
    seconds = clock.host_call_us * 1e-6 + elements * clock.host_ns_per_element * 1e-9
    return int(seconds * clock.device_hz)
