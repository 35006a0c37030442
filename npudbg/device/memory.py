"""Device memory: who lies where, and the bytes that are there.

DDR is a map from address ranges to buffers rather than one flat array: a
tensor's NumPy array *is* its DDR bytes, so nothing is copied to make a tensor
resident, and a write at an address changes the tensor that lies there.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.errors import UserError

Bytes = npt.NDArray[np.uint8]

OPEN_BUS = 0xFF
"""What a read of an address where nothing answers returns: all ones."""


class Allocator:
    """First-fit allocation of address ranges.

    Args:
        base: First address.
        nbytes: Size of the space.
        alignment: Least alignment of every allocation, in bytes.
        name: For the error message.
    """

    def __init__(self, base: int, nbytes: int, alignment: int = 64, name: str = "DDR") -> None:
        """Start with everything free."""
        self.base, self.nbytes, self.alignment, self.name = base, nbytes, alignment, name
        self._free: list[tuple[int, int]] = [(base, base + nbytes)]
        self._used: dict[int, int] = {}
        self.in_use = 0
        self.peak = 0

    def take(self, nbytes: int, alignment: int = 1) -> int:
        """Return the address of a new range.

        Raises:
            UserError: No gap is large enough.
        """
        nbytes = max(nbytes, 1)
        step = max(alignment, self.alignment)
        for i, (low, high) in enumerate(self._free):
            start = -(-low // step) * step
            if start + nbytes <= high:
                rest = [(low, start), (start + nbytes, high)]
                self._free[i : i + 1] = [r for r in rest if r[0] < r[1]]
                self._used[start] = nbytes
                self.in_use += nbytes
                self.peak = max(self.peak, self.in_use)
                return start
        raise UserError(
            f"the simulated {self.name} ({self.nbytes >> 20} MiB) has no room for {nbytes} bytes "
            f"({self.in_use >> 20} MiB in use); give a larger memory in the target profile"
        )

    def give(self, address: int) -> None:
        """Free a range."""
        nbytes = self._used.pop(address)
        self.in_use -= nbytes
        low, high = address, address + nbytes
        i = bisect.bisect_left(self._free, (low, high))
        if i < len(self._free) and self._free[i][0] == high:
            high = self._free.pop(i)[1]
        if i > 0 and self._free[i - 1][1] == low:
            low = self._free.pop(i - 1)[0]
            i -= 1
        self._free.insert(i, (low, high))


@dataclass(slots=True)
class Buffer:
    """A range of memory and its bytes."""

    address: int
    data: Bytes

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.address + self.data.size


class Memory:
    """An address space made of buffers; a later one covers what earlier ones left there."""

    def __init__(self) -> None:
        """Start empty: every read gives an open bus."""
        self._buffers: list[Buffer] = []

    def place(self, address: int, array: npt.NDArray[Any]) -> None:
        """Make an array's bytes (C-contiguous) the contents of a range."""
        new = Buffer(address, bytes_of(array))
        self._buffers = [b for b in self._buffers if b.address < address or b.end > new.end]
        self._buffers.append(new)

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return the bytes of a range; where nothing lies, an open bus."""
        out = np.full(nbytes, OPEN_BUS, np.uint8)
        for buffer in self._buffers:
            low, high = max(address, buffer.address), min(address + nbytes, buffer.end)
            if low < high:
                out[low - address : high - address] = buffer.data[
                    low - buffer.address : high - buffer.address
                ]
        return out


def bytes_of(array: npt.NDArray[Any]) -> Bytes:
    """Return an array's memory as bytes (a view; the array must be C-contiguous)."""
    return array.reshape(-1).view(np.uint8)
