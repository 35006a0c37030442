"""The shape of a transfer: what a DMA descriptor holds of a tensor's region.

A region of a C-order tensor is a run of contiguous bytes, repeated along the axes
outside of it.  A descriptor describes a run and at most two repetitions of it (1D,
2D, 3D transfers); a region of more axes takes several descriptors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from npudbg.device.kernels.base import Box
from npudbg.targets.profile import Dma

MAX_DIMENSIONS = 3
"""Dimensions of one descriptor: run, rows, planes.  Of the simulator, no chip's own."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A region as DMA sees it.

    Attributes:
        offset: Bytes from the tensor's first byte to the region's.
        run: Contiguous bytes.
        counts: Repetitions of the run, outermost first; empty for a 1D transfer.
        pitches: Bytes from one repetition to the next, for each of ``counts``.
    """

    offset: int
    run: int
    counts: tuple[int, ...]
    pitches: tuple[int, ...]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return prod(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes moved."""
        return self.run * self.runs

    @property
    def descriptors(self) -> int:
        """How many descriptors the region takes: the axes beyond the third are a list."""
        beyond = len(self.counts) - (MAX_DIMENSIONS - 1)
        return max(prod(self.counts[: max(beyond, 0)]), 1)

    @property
    def dimensions(self) -> int:
        """Dimensions of each descriptor, 1 to 3."""
        return min(len(self.counts) + 1, MAX_DIMENSIONS)

    def bursts(self, dma: Dma) -> int:
        """Return how many bursts move it, none of them over the end of a run."""
        return self.runs * -(-self.run // dma.burst_bytes)

    def splits(self, dma: Dma, base: int) -> int:
        """Return how many bursts are cut in two by an address boundary.

        A burst crosses no boundary of ``dma.boundary_bytes`` (4 KB: AMBA AXI4, burst
        address); one that would is issued as two.  Bursts start where their run starts,
        so that those of a run at a multiple of the burst never cross.

        Args:
            dma: The engine.
            base: Address of the tensor's first byte.
        """
        page = dma.boundary_bytes
        burst = min(dma.burst_bytes, page)
        first = np.array([base + self.offset], np.int64)
        for count, pitch in zip(self.counts, self.pitches, strict=True):
            first = (first[:, None] + np.arange(count, dtype=np.int64) * pitch).reshape(-1)
        crossed = (first + self.run - 1) // page - first // page
        return int(crossed[first % burst != 0].sum())


@lru_cache(maxsize=4096)
def region_shape(shape: tuple[int, ...], box: Box, itemsize: int) -> Shape:
    """Return what a descriptor holds of a box of a C-order tensor.

    Axes that the box takes whole join the axis outside of them; axes of one element
    do not count.

    Args:
        shape: Of the tensor, elements.
        box: Start and stop by axis, as many as ``shape`` has.
        itemsize: Bytes an element.
    """
    run, at, stride = itemsize, len(shape), itemsize
    offset = 0
    dims: list[tuple[int, int]] = []
    joined = True
    while at > 0:
        at -= 1
        start, stop = box[at]
        taken = stop - start
        offset += start * stride
        if joined:
            run *= taken
            joined = taken == shape[at]
        elif taken != 1:
            if dims and dims[-1][0] * dims[-1][1] == stride:
                dims[-1] = (dims[-1][0] * taken, dims[-1][1])
            else:
                dims.append((taken, stride))
        stride *= shape[at]
    dims.reverse()
    return Shape(offset, run, tuple(n for n, _ in dims), tuple(p for _, p in dims))
