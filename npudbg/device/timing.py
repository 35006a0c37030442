"""Cycles: what a transfer and a kernel cost on the target.

All figures come from the target's profile; what it leaves out is a default of
the simulator, and every cycle shown is marked as simulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from npudbg.device.array import WIDTH, op_cycles
from npudbg.device.kernels.base import Box, Kernel, Op, volume
from npudbg.device.transfer import Shape, region_shape
from npudbg.targets.profile import Target


@dataclass(frozen=True, slots=True)
class TransferCycles:
    """Where the cycles of a transfer go: descriptors' set-up, data, bursts cut in two."""

    setup: int
    data: int
    splits: int

    @property
    def total(self) -> int:
        """Cycles of the transfer alone on its channel."""
        return self.setup + self.data + self.splits


def transfer_cycles(target: Target, shape: Shape, base: int) -> TransferCycles:
    """Return the cycles of one transfer.

    Each descriptor has its set-up; a run of several is moved in whole bursts; a burst
    over an address boundary costs what the profile says (nothing where it is silent).

    Args:
        target: The profile.
        shape: What is moved.
        base: Address in DDR of the tensor's first byte.
    """
    dma = target.dma
    moved = shape.bursts(dma) * dma.burst_bytes if shape.runs > 1 else shape.nbytes
    splits = shape.splits(dma, base) * dma.split_cycles if dma.split_cycles else 0
    setup = shape.descriptors * dma.setup_cycles
    return TransferCycles(setup, ceil(moved / dma.bytes_per_cycle), splits)


def dma_cycles(
    target: Target, shape: tuple[int, ...], box: Box, itemsize: int, base: int = 0
) -> int:
    """Return the cycles of one transfer of a region (see :func:`transfer_cycles`)."""
    return transfer_cycles(target, region_shape(shape, box, itemsize), base).total


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
