"""Where a tensor's box lies: packed in SRAM, scattered in DDR; bytes, not elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import MAX_BOX_RANK
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.records import TensorRecord

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MOST_BYTES = 1 << 46
"""No real tensor is larger; a record that says so is damaged."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A C-contiguous tensor as boxes see it.

    Attributes:
        dims: The leading axes that a box can name.
        inner: Bytes of one step along the last of them (an element, or the whole
            of the further axes).
        itemsize: Bytes of an element.
    """

    dims: tuple[int, ...]
    inner: int
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return prod(self.dims) * self.inner

    def box(self, row: Any) -> tuple[tuple[int, int], ...]:
        """Return a command row's box, kept within the tensor."""
        named = row["box"][: len(self.dims)].tolist()
        return tuple(
            (min(max(start, 0), size), min(max(stop, 0), size))
            for (start, stop), size in zip(named, self.dims, strict=True)
        )

    def first(self, box: tuple[tuple[int, int], ...]) -> int:
        """Return the offset in bytes of a box's first element in the whole tensor."""
        at = 0
        for (start, _), size in zip(box, self.dims, strict=True):
            at = at * size + start
        return at * self.inner

    def packed_nbytes(self, box: tuple[tuple[int, int], ...]) -> int:
        """Return the bytes of a box when it is packed."""
        return prod(max(stop - start, 0) for start, stop in box) * self.inner

    def scattered(self, box: tuple[tuple[int, int], ...], packed: Ints) -> Ints:
        """Return where bytes of a packed box lie in the whole tensor.

        Args:
            box: The region.
            packed: Positions within the packed box, each in range.
        """
        if not self.dims:
            return packed
        extent = tuple(stop - start for start, stop in box)
        coords = np.unravel_index(packed // self.inner, extent)
        shifted = tuple(c + start for c, (start, _) in zip(coords, box, strict=True))
        flat = np.ravel_multi_index(shifted, self.dims)
        return np.asarray(flat * self.inner + packed % self.inner, np.int64)

    def gathered(self, box: tuple[tuple[int, int], ...], whole: Ints) -> tuple[Ints, Bools]:
        """Return where bytes of the whole tensor lie in a packed box, and which are in it.

        Args:
            box: The region.
            whole: Offsets within the whole tensor; those out of range are not in the box.
        """
        inside = (whole >= 0) & (whole < self.nbytes)
        if not self.dims:
            return np.where(inside, whole, 0), inside
        coords = self.coords(np.where(inside, whole, 0))
        at = np.zeros(len(whole), np.int64)
        for axis, (start, stop) in enumerate(box):
            inside &= (coords[axis] >= start) & (coords[axis] < stop)
            at = at * max(stop - start, 0) + (coords[axis] - start)
        return at * self.inner + np.where(inside, whole, 0) % self.inner, inside

    def coords(self, whole: Ints) -> tuple[Ints, ...]:
        """Return the leading coordinates of offsets (in bytes, in range) in the tensor."""
        return tuple(np.asarray(c) for c in np.unravel_index(whole // self.inner, self.dims))


def layout_of(tensor: TensorRecord) -> Layout | None:
    """Return a tensor's layout; None for what is no plain tensor, or has no bytes."""
    try:
        itemsize = numpy_dtype(tensor.dtype).itemsize
    except TypeError:
        return None
    lead, rest = tensor.shape[:MAX_BOX_RANK], tensor.shape[MAX_BOX_RANK:]
    if any(size < 0 for size in tensor.shape) or not 0 < prod(tensor.shape) <= _MOST_BYTES:
        return None
    return Layout(tuple(lead), itemsize * prod(rest), itemsize)
