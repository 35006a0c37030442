"""Histogram of a tensor's finite elements, piece by piece, over a known range."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]

_MOST_PAIRED = 256
"""Bins from which the number of one, and of the end beyond the last, is no byte."""

_ONE = np.ones((), np.int64)


class Bins:
    """Counts of equal bins from ``low`` to ``high``; the upper end belongs to the last bin.

    Args:
        bins: Number of bins.
        dtype: Type of the pieces, four bytes or more.
        low: Least element.
        high: Greatest element.
    """

    def __init__(self, bins: int, dtype: np.dtype[Any], low: float, high: float) -> None:
        self.bins = bins
        self.flat = low == high
        self.seen = 0
        # The width of float64's whole range is no float64: then all is halved.
        self.half = 1.0 if isfinite(float(high) - float(low)) else 0.5
        self.start = float(low) * self.half
        self.width = float(high) * self.half - self.start
        self.narrow = dtype == np.float32 and _fits_float32(float(low), float(high))
        self.type = np.dtype(np.float32 if self.narrow else np.float64)
        self.pairs = np.zeros(1 << 16 if bins < _MOST_PAIRED else 0, np.int64)
        self.single = np.zeros(bins + 1, np.int64)
        self.place = np.empty(0, self.type)
        self.bytes = np.empty(0, np.uint8)
        self.index = np.empty(0, np.intp)

    def add(self, piece: _Array) -> None:
        """Count a piece of finite elements within the range."""
        self.seen += piece.size
        if self.flat:
            return
        if self.place.size < piece.size:
            self.place = np.empty(piece.size, self.type)
            self.bytes = np.empty(piece.size, np.uint8)
            self.index = np.empty(piece.size // 2, np.intp)
        place = self.place[: piece.size]
        with np.errstate(all="ignore"):
            if self.half != 1.0:
                np.multiply(piece, self.half, out=place, dtype=self.type, casting="unsafe")
                np.subtract(place, self.start, out=place)
            else:
                # NumPy 1.26 would subtract in the array's type, whatever the number's.
                np.subtract(
                    piece, self.type.type(self.start), out=place, dtype=self.type, casting="unsafe"
                )
            if self.narrow:
                np.multiply(place, self.type.type(self.bins / self.width), out=place)
            else:
                # Not by the reciprocal: the width may be subnormal.
                np.divide(place, self.width, out=place)
                np.multiply(place, self.bins, out=place)
        self._count(place)

    def _count(self, place: _Array) -> None:
        half = place.size // 2 if self.pairs.size else 0
        if half:
            # Two bins as the bytes of one number: half as many elements to count, in the
            # corner of a table that the cache holds.
            both = self.bytes[: 2 * half]
            np.copyto(both, place[: 2 * half], casting="unsafe")
            np.copyto(self.index[:half], both.view(np.uint16))
            np.add.at(self.pairs, self.index[:half], _ONE)
        rest = place[2 * half :]
        if rest.size:
            self.single += np.bincount(rest.astype(np.intp), minlength=self.single.size)

    def result(self) -> tuple[int, ...]:
        """Return the count of each bin; a range of no width is taken as one around the value."""
        total = self.single.copy()
        if self.flat:
            total[self.bins // 2] = self.seen
        elif self.pairs.size:
            table = self.pairs.reshape(256, 256)[: self.bins + 1, : self.bins + 1]
            total += table.sum(axis=0)
            total += table.sum(axis=1)
        total[self.bins - 1] += total[self.bins]
        return tuple(int(n) for n in total[: self.bins])


def _fits_float32(low: float, high: float) -> bool:
    """Tell whether bins of this range may be computed in float32 without loss."""
    width = high - low
    return 1e-30 < width < 1e38 and width > 1e-3 * max(abs(low), abs(high))
