"""Scans of types of four bytes and more: float32, float64 and the wide integers."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Stats
from npudbg.session.scan_chunks import CHUNK_BYTES, chunks

_Array = npt.NDArray[Any]


class _Tally:
    """What the pieces so far held."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.float = dtype.kind == "f"
        number = float if self.float else int
        info: Any = np.finfo(dtype) if self.float else np.iinfo(dtype)
        self.low, self.high = number(info.min), number(info.max)
        self.tiny = float(info.tiny) if self.float else 1.0
        self.counts = dict.fromkeys(
            ("nan", "pos_inf", "neg_inf", "zeros", "subnormal", "at_min", "at_max"), 0
        )
        self.least: Any = None
        self.most: Any = None

    def finite(self, piece: _Array) -> tuple[_Array, Any, Any]:
        """Count what is not finite; return the rest with its range (None when empty)."""
        small, large = np.minimum.reduce(piece).item(), np.maximum.reduce(piece).item()
        # NaN propagates through both, so two reductions settle all that is not finite.
        if self.float and not (isfinite(small) and isfinite(large)):
            keep = np.isfinite(piece)
            self.counts["nan"] += int(np.count_nonzero(np.isnan(piece)))
            self.counts["pos_inf"] += int(np.count_nonzero(piece == np.inf))
            self.counts["neg_inf"] += int(np.count_nonzero(piece == -np.inf))
            piece = piece[keep]
            if not piece.size:
                return piece, None, None
            small, large = np.minimum.reduce(piece).item(), np.maximum.reduce(piece).item()
        return piece, small, large

    def range(self, piece: _Array, small: Any, large: Any) -> None:
        """Take in the range of a finite piece, and count what stands at the limits."""
        self.least = small if self.least is None else min(self.least, small)
        self.most = large if self.most is None else max(self.most, large)
        if small == self.low:
            self.counts["at_min"] += int(np.count_nonzero(piece == small))
        if large == self.high:
            self.counts["at_max"] += int(np.count_nonzero(piece == large))

    def zeros(self, piece: _Array, small: Any, large: Any, flags: npt.NDArray[np.bool_]) -> None:
        """Count the zeros of a finite piece."""
        if small <= 0 <= large:
            same = np.equal(piece, 0, out=flags[: piece.size])
            self.counts["zeros"] += int(np.count_nonzero(same))

    def subnormals(
        self,
        piece: _Array,
        small: Any,
        large: Any,
        work: _Array,
        flags: npt.NDArray[np.bool_],
    ) -> None:
        """Count zeros and subnormals of a finite floating piece."""
        if small >= self.tiny or large <= -self.tiny:
            return
        size = np.abs(piece, out=work[: piece.size])
        near = int(np.count_nonzero(np.less(size, self.tiny, out=flags[: piece.size])))
        if near:
            none = int(np.count_nonzero(np.equal(piece, 0, out=flags[: piece.size])))
            self.counts["zeros"] += none
            self.counts["subnormal"] += near - none

    def stats(self, count: int, mean: float | None = None, std: float | None = None) -> Stats:
        """Return the record."""
        if self.least is None:
            return Stats(count=count, **self.counts)
        return Stats(
            count=count,
            min=float(self.least),
            max=float(self.most),
            mean=mean,
            std=std,
            **self.counts,
        )


class _Moments:
    """Mean and squared deviation, joined piece by piece (the parallel form of Welford's)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.square = 0.0

    def add(self, piece: _Array, work: npt.NDArray[np.float64]) -> None:
        """Take in a finite piece; ``work`` is a buffer of at least its size."""
        wide = work[: piece.size]
        np.copyto(wide, piece, casting="unsafe")
        mean = float(np.add.reduce(wide)) / piece.size
        np.subtract(wide, mean, out=wide)
        square = float(np.einsum("i,i->", wide, wide))
        total = self.count + piece.size
        apart = mean - self.mean
        self.square += square + apart * apart * (self.count / total) * piece.size
        self.mean += apart * (piece.size / total)
        self.count = total

    def result(self) -> tuple[float | None, float | None]:
        """Return mean and standard deviation, None where float64 cannot hold them."""
        if not self.count or not isfinite(self.mean):
            return None, None
        variance = self.square / self.count
        return self.mean, sqrt(variance) if isfinite(variance) else None


def _native(array: _Array) -> np.dtype[Any]:
    """Return the type that the pieces are computed in (long double becomes float64)."""
    dtype = array.dtype.newbyteorder("=")
    return np.dtype(np.float64) if dtype.kind == "f" and dtype.itemsize > 8 else dtype


def scan_fast(array: _Array, zeros: bool) -> Stats:
    """Return range, limits and non-finite counts of a non-empty array."""
    dtype = _native(array)
    tally = _Tally(dtype)
    flags = np.empty(min(array.size, CHUNK_BYTES // dtype.itemsize), np.bool_)
    with np.errstate(all="ignore"):
        for whole in chunks(array, dtype):
            piece, small, large = tally.finite(whole)
            if small is None:
                continue
            tally.range(piece, small, large)
            if zeros:
                tally.zeros(piece, small, large, flags)
    return tally.stats(array.size)


def scan(array: _Array) -> Stats:
    """Return the full statistics of a non-empty array."""
    dtype = _native(array)
    tally, moments = _Tally(dtype), _Moments()
    most = min(array.size, CHUNK_BYTES // dtype.itemsize)
    flags = np.empty(most, np.bool_)
    wide = np.empty(most, np.float64)
    with np.errstate(all="ignore"):
        for whole in chunks(array, dtype):
            piece, small, large = tally.finite(whole)
            if small is None:
                continue
            tally.range(piece, small, large)
            if tally.float:
                tally.subnormals(piece, small, large, wide.view(dtype), flags)
            else:
                tally.zeros(piece, small, large, flags)
            moments.add(piece, wide)
    mean, std = moments.result()
    if tally.least is not None and tally.least == tally.most:
        mean, std = float(tally.least), 0.0
    return tally.stats(array.size, mean, std)


def histogram(
    array: _Array, bins: int, low: float, high: float, *, finite: bool
) -> tuple[int, ...]:
    """Return the counts of ``bins`` equal bins over the range ``low`` to ``high``.

    Args:
        array: Not empty.
        bins: Number of bins.
        low: Least finite element.
        high: Greatest finite element.
        finite: Whether every element is finite (saves looking).
    """
    dtype = _native(array)
    narrow = _fits_float32(dtype, low, high)
    work_type = np.dtype(np.float32 if narrow else np.float64)
    if low == high:  # a range of no width is taken as one around the value
        total = [0] * bins
        total[bins // 2] = sum(int(np.count_nonzero(p == low)) for p in chunks(array, dtype))
        return tuple(total)
    placed = _Bins(bins)
    most = min(array.size, CHUNK_BYTES // dtype.itemsize)
    work = np.empty(most, work_type)
    half = 0.5 if not isfinite(high - low) else 1.0
    start, width = low * half, high * half - low * half
    with np.errstate(all="ignore"):
        for whole in chunks(array, dtype):
            piece = whole
            if not finite:
                piece = piece[np.isfinite(piece)]
            place = work[: piece.size]
            if half != 1.0:
                np.multiply(piece, half, out=place, casting="unsafe")
                np.subtract(place, start, out=place)
            else:
                np.subtract(piece, work_type.type(start), out=place, casting="unsafe")
            if narrow:
                np.multiply(place, work_type.type(bins / width), out=place)
            else:
                # Not by the reciprocal: the width may be subnormal.
                np.divide(place, width, out=place)
                np.multiply(place, bins, out=place)
            placed.add(place)
    return placed.result()


def _fits_float32(dtype: np.dtype[Any], low: float, high: float) -> bool:
    """Tell whether a float32 tensor's bins may be computed in float32 without loss of range."""
    if dtype != np.float32:
        return False
    width = high - low
    return 1e-30 < width < 1e38 and width > 1e-3 * max(abs(low), abs(high))


class _Bins:
    """Counts of places from 0 to the number of bins; the upper end belongs to the last bin."""

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.few = bins < 1 << 7
        size = bins + 1
        self.pairs = np.zeros(size << 8 if self.few else 0, np.int64)
        self.single = np.zeros(max(size, 256), np.int64)
        self.index = np.empty(0, np.uint8)

    def add(self, place: _Array) -> None:
        """Count a piece."""
        size = place.size
        if not self.few:
            counts = np.bincount(place.astype(np.intp), minlength=self.single.size)
            self.single += counts
            return
        if self.index.size < size:
            self.index = np.empty(size, np.uint8)
        index = self.index[:size]
        np.copyto(index, place, casting="unsafe")
        # Two bins as one 16-bit number: half as many elements to count.
        even = size - size % 2
        self.pairs += np.bincount(index[:even].view(np.uint16), minlength=self.pairs.size)
        if size % 2:
            self.single[index[-1]] += 1

    def result(self) -> tuple[int, ...]:
        """Return the count of each bin."""
        total = self.single
        if self.few:
            table = self.pairs.reshape(self.bins + 1, 256)
            total = total + table.sum(axis=0)
            total[: self.bins + 1] += table.sum(axis=1)
        total[self.bins - 1] += total[self.bins]
        return tuple(int(n) for n in total[: self.bins])
