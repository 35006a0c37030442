"""Executing a group byte by byte: the slow path, taken where something was touched.

Operands come from SRAM bytes and from nowhere else.  A kernel whose operand
bytes are those of the clean run gives the clean result; any other computes from
its bytes: they are laid into zeroed operands of full size, the node runs on
these, and the tile's region is taken.  Elements outside the region cannot
matter, and every other element comes out bit-equal to a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device.emit import Action
from npudbg.device.kernels.base import extent, slices
from npudbg.device.memory import bytes_of
from npudbg.device.tiling import Region, Step
from npudbg.device.values import Value
from npudbg.session.commands import Kind

Array = npt.NDArray[Any]

Compute = Callable[[int, Sequence[Array | None]], list[Array]]
"""Step number and full-size operands in the device's type -> outputs in that type."""


class Sram:
    """On-chip memory: a flat array of bytes."""

    def __init__(self, base: int, nbytes: int) -> None:
        """Power up: contents are undefined, here a pattern that shows."""
        self.base = base
        self.data = np.full(nbytes, 0xA5, np.uint8)

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return a writable view of a range."""
        at = address - self.base
        return self.data[at : at + nbytes]


class GroupExecutor:
    """Executes the actions of one group on memory.

    Args:
        sram: The device's SRAM.
        steps: The group's kernels.
        values: Values by name; outputs hold the clean run's arrays.
        compute: Runs one step on full-size operands.
    """

    def __init__(
        self, sram: Sram, steps: Sequence[Step], values: Mapping[str, Value], compute: Compute
    ) -> None:
        """Set every stored output to memory's old contents, keeping the clean arrays."""
        self.sram, self.steps, self.values, self.compute = sram, steps, values, compute
        self.clean: dict[str, Array] = {
            name: values[name].array for step in steps for name in step.writes if name
        }
        self.touched: dict[int, bytes] = {}
        """Bytes that commands wrote, where they are not the clean ones."""

    def load(self, action: Action, source: Array) -> None:
        """DMA: a region of a DDR tensor into SRAM, packed."""
        region = action.region
        packed = np.ascontiguousarray(source[slices(region.box)])
        self.sram.view(action.address, region.nbytes)[:] = bytes_of(packed)

    def store(self, action: Action, goal: Array) -> None:
        """DMA: SRAM bytes into a region of a DDR tensor."""
        goal[slices(action.region.box)] = self.region(action.region, action.address)

    def region(self, region: Region, address: int) -> Array:
        """Return what SRAM holds at a region's place, as an array."""
        dtype = self.values[region.tensor].array.dtype
        raw = self.sram.view(address, region.nbytes).copy()
        return raw.view(dtype).reshape(extent(region.box))

    def kernel(self, action: Action) -> None:
        """Run one kernel on what SRAM holds; results go to SRAM."""
        step = self.steps[action.step]
        operands: list[Array | None] = [None] * len(step.reads)
        same = True
        for number, region, address in action.reads:
            now = self.region(region, address)
            was = self.reference(region)
            if now.tobytes() != was.tobytes():
                same = False
            full = self._canvas(region.tensor)
            full[slices(region.box)] = now
            operands[number] = full
        out_box = slices(action.region.box)
        if same:
            result = self.clean[action.region.tensor][out_box]
        else:
            self._parameters(step, operands, action)
            result = self.compute(action.step, operands)[action.output][out_box]
        packed = bytes_of(np.ascontiguousarray(result))
        self.sram.view(action.address, action.region.nbytes)[:] = packed

    def reference(self, region: Region) -> Array:
        """Return the clean run's bytes of a region."""
        array = self.clean.get(region.tensor)
        if array is None:
            array = self.values[region.tensor].array
        return np.ascontiguousarray(array[slices(region.box)])

    def written(self, action: Action) -> bytes:
        """Return what a command has just written into SRAM."""
        return self.sram.view(action.address, action.region.nbytes).tobytes()

    def differs(self, action: Action) -> bool:
        """Whether what a LOAD or KERNEL wrote is not the clean run's."""
        return self.written(action) != self.reference(action.region).tobytes()

    def _canvas(self, name: str) -> Array:
        array = self.values[name].array
        return np.zeros(array.shape, array.dtype)

    def _parameters(self, step: Step, operands: list[Array | None], action: Action) -> None:
        """Operands that no tile loads are constants of the descriptor, or not needed here."""
        for i, name in enumerate(step.reads):
            if operands[i] is None and name:
                value = self.values[name]
                operands[i] = value.array if i in step.op.static else self._canvas(name)


def is_transfer(action: Action) -> bool:
    """Whether an action is a DMA transfer."""
    return action.kind in (Kind.DMA_LOAD, Kind.DMA_STORE)
