"""Executing a group byte by byte: the slow path, taken where something may be touched.

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
from npudbg.device.memory import Bytes, bytes_of
from npudbg.device.tiling import Region, Step
from npudbg.device.values import Value

Array = npt.NDArray[Any]

Compute = Callable[[int, Sequence[Array | None]], list[Array]]
"""Step number and full-size operands in the device's type -> outputs in that type."""


class Sram:
    """On-chip memory: a flat array of bytes, and what commands have written there.

    ``data`` is what the memory holds.  ``shadow`` is what it would hold if only
    commands wrote it: where the two differ, something else did.
    """

    def __init__(self, base: int, nbytes: int) -> None:
        """Power up: contents are undefined, here a pattern that shows."""
        self.base = base
        self.data = np.full(nbytes, 0xA5, np.uint8)
        self.shadow = self.data.copy()

    def view(self, address: int, nbytes: int) -> Bytes:
        """Return a writable view of a range."""
        at = address - self.base
        return self.data[at : at + nbytes]

    def write(self, address: int, data: Bytes) -> None:
        """A command writes."""
        at = address - self.base
        self.data[at : at + data.size] = data
        self.shadow[at : at + data.size] = data

    def changed(self, address: int, nbytes: int) -> bool:
        """Whether a range holds bytes that no command wrote."""
        at = address - self.base
        return not np.array_equal(self.data[at : at + nbytes], self.shadow[at : at + nbytes])


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
        """Keep the clean arrays of everything the group reads and makes."""
        self.sram, self.steps, self.values, self.compute = sram, steps, values, compute
        # Memory may change while the group runs; its clean results are of these values.
        self.clean: dict[str, Array] = {
            name: values[name].array
            for step in steps
            for name in (*step.reads, *step.writes)
            if name and values[name].is_tensor
        }
        self.observed: dict[tuple[int, int], bytes] = {}
        """Operand bytes that a kernel read and no command had written."""

    def packed(self, region: Region) -> Bytes:
        """Return a DDR tensor's region as DMA moves it."""
        array = self.values[region.tensor].array
        return bytes_of(np.ascontiguousarray(array[slices(region.box)]))

    def region(self, region: Region, address: int) -> Array:
        """Return what SRAM holds at a region's place, as an array."""
        dtype = self.values[region.tensor].array.dtype
        raw = self.sram.view(address, region.nbytes).copy()
        held: Array = raw.view(dtype).reshape(extent(region.box))
        return held

    def kernel(self, action: Action) -> None:
        """Run one kernel on what SRAM holds; results go to SRAM."""
        step = self.steps[action.step]
        same = True
        now: list[tuple[int, Region, Array]] = []
        for number, region, address in action.reads:
            held = self.region(region, address)
            now.append((number, region, held))
            same = same and held.tobytes() == self.reference(region).tobytes()
            if self.sram.changed(address, region.nbytes):
                self.observed[action.seq, number] = held.tobytes()
        if same:
            result = self.clean[action.region.tensor][slices(action.region.box)]
        else:
            result = self._from_bytes(action, step, now)
        self.sram.write(action.address, bytes_of(np.ascontiguousarray(result)))

    def _from_bytes(
        self, action: Action, step: Step, held: Sequence[tuple[int, Region, Array]]
    ) -> Array:
        operands: list[Array | None] = [None] * len(step.reads)
        for number, region, array in held:
            full = self._canvas(region.tensor)
            full[slices(region.box)] = array
            operands[number] = full
        for i, name in enumerate(step.reads):
            if operands[i] is None and name:
                # Parameters of the descriptor; or operands this tile does not touch.
                value = self.values[name]
                operands[i] = value.array if i in step.op.static else self._canvas(name)
        result: Array = self.compute(action.step, operands)[action.output]
        return result[slices(action.region.box)]

    def reference(self, region: Region) -> Array:
        """Return the clean run's values of a region."""
        part: Array = np.ascontiguousarray(self.clean[region.tensor][slices(region.box)])
        return part

    def _canvas(self, name: str) -> Array:
        array = self.values[name].array
        return np.zeros(array.shape, array.dtype)
