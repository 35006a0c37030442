"""Scans of types of four bytes and more: float32, float64 and the wide integers."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Stats
from npudbg.session.scan_bins import Bins
from npudbg.session.scan_chunks import CHUNK_BYTES, chunks

_Array = npt.NDArray[Any]

_ONCE = 1 << 20
"""Bytes a piece that is looked at once: the fewer calls, the better."""

_RANGED = 1 << 18
"""Bytes a piece where only the range is looked for, in two reductions."""


class _Tally:
    """What the pieces so far held."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.float = dtype.kind == "f"
        number = float if self.float else int
        info: Any = np.finfo(dtype) if self.float else np.iinfo(dtype)
        self.low, self.high = number(info.min), number(info.max)
        self.tiny = float(info.tiny) if self.float else 1.0
        # The bit pattern of the smallest normal number.
        self.normal = 1 << int(info.nmant) if self.float else 1
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

    def small(self, piece: _Array, small: Any, large: Any, flags: npt.NDArray[np.bool_]) -> None:
        """Count the zeros, and the subnormals if there can be any."""
        if self.float and small < self.tiny and large > -self.tiny:
            self.near_zero(piece, flags)
        elif not self.float:
            self.zeros(piece, small, large, flags)

    @property
    def nonfinite(self) -> int:
        """Elements that are not finite."""
        return self.counts["nan"] + self.counts["pos_inf"] + self.counts["neg_inf"]

    def near_zero(self, piece: _Array, flags: npt.NDArray[np.bool_]) -> None:
        """Count zeros and subnormals of a finite floating piece."""
        # As integers, the least signed pattern is the negative value of smallest size, the
        # least unsigned one the positive value of smallest size: mostly there is nothing more
        # to do than these two reductions.
        bits = piece.dtype.itemsize
        signed = int(np.minimum.reduce(piece.view(f"i{bits}"))) + (1 << (8 * bits - 1))
        if signed >= self.normal and int(np.minimum.reduce(piece.view(f"u{bits}"))) >= self.normal:
            return
        same = np.equal(piece, 0, out=flags[: piece.size])
        none = int(np.count_nonzero(same))
        self.counts["zeros"] += none
        below = np.less(piece, self.tiny, out=flags[: piece.size])
        near = int(np.count_nonzero(below))
        near -= int(np.count_nonzero(np.less_equal(piece, -self.tiny, out=below)))
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


_BLOCK = 1 << 13
"""Longest dot product: OpenBLAS computes it in the calling thread (it starts others at 10,000)."""

_CANCELLED = 1e-4
"""Part of the squares left after subtracting the mean's below which they are summed again."""


def _squares(wide: npt.NDArray[np.float64]) -> float:
    return float(sum(b.dot(b) for b in (wide[n : n + _BLOCK] for n in range(0, wide.size, _BLOCK))))


class _Moments:
    """Mean and squared deviation, joined piece by piece (the parallel form of Welford's)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.square = 0.0

    def add(self, piece: _Array, work: npt.NDArray[np.float64]) -> None:
        """Take in a finite piece; ``work`` is a buffer of at least its size."""
        size = piece.size
        wide = work[:size]
        np.copyto(wide, piece, casting="unsafe")
        total = float(np.add.reduce(wide))
        mean = total / size
        square = _squares(wide)
        spread = square - total * mean
        if not spread > _CANCELLED * square:
            np.subtract(wide, mean, out=wide)
            spread = _squares(wide)
        both = self.count + size
        apart = mean - self.mean
        self.square += spread + apart * apart * (self.count / both) * size
        self.mean += apart * (size / both)
        self.count = both

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


def scan_limits(array: _Array) -> Stats:
    """Return limits and non-finite counts of a non-empty array."""
    tally = _Tally(_native(array))
    with np.errstate(all="ignore"):
        for whole in chunks(array, tally.dtype, _ONCE):
            if tally.float and _squares_fit(whole):
                continue
            piece, small, large = tally.finite(whole)
            if small is not None:
                tally.range(piece, small, large)
    return Stats(count=array.size, **tally.counts)


def _squares_fit(piece: _Array) -> bool:
    """Whether the squares of all elements have a finite sum: then none is at a limit or beyond.

    Squares cannot cancel, so that NaN and Inf show, and the square of a type's limit is Inf.
    """
    rows = piece.size // _BLOCK
    whole, rest = piece[: rows * _BLOCK].reshape(rows, 1, _BLOCK), piece[rows * _BLOCK :]
    # One dot product a row, of a length that BLAS computes in the calling thread.
    sums = np.matmul(whole, whole.transpose(0, 2, 1))
    return bool(np.isfinite(sums).all() and np.isfinite(rest.dot(rest)))


def scan_fast(array: _Array, zeros: bool) -> Stats:
    """Return range, limits and non-finite counts of a non-empty array."""
    tally = _Tally(_native(array))
    _ranged(tally, array, _buffers(array.size, tally.dtype)[0] if zeros else None)
    return tally.stats(array.size)


def scan(array: _Array) -> Stats:
    """Return the full statistics of a non-empty array."""
    dtype = _native(array)
    tally, moments = _Tally(dtype), _Moments()
    flags, wide = _buffers(array.size, dtype)
    with np.errstate(all="ignore"):
        for whole in chunks(array, dtype):
            piece, small, large = tally.finite(whole)
            if small is None:
                continue
            tally.range(piece, small, large)
            tally.small(piece, small, large, flags)
            moments.add(piece, wide)
    return _whole(tally, moments, array.size)


def scan_histogram(array: _Array, bins: int) -> tuple[Stats, tuple[int, ...] | None]:
    """Return statistics and counts of a non-empty array from two looks at the memory."""
    dtype = _native(array)
    tally, moments = _Tally(dtype), _Moments()
    _ranged(tally, array, None)
    if tally.least is None:
        return tally.stats(array.size), None
    placed = Bins(bins, dtype, tally.least, tally.most)
    flags, wide = _buffers(array.size, dtype)
    with np.errstate(all="ignore"):
        for piece in _finite(array, dtype, tally.nonfinite):
            tally.small(piece, tally.least, tally.most, flags)
            moments.add(piece, wide)
            placed.add(piece)
    return _whole(tally, moments, array.size), placed.result()


def histogram(
    array: _Array, bins: int, stats: Stats | None
) -> tuple[tuple[int, ...], Stats] | None:
    """Return counts and range of a non-empty array, or None if nothing in it is finite.

    Args:
        array: Not empty.
        bins: Number of bins.
        stats: What a scan of the array gave, if there was one.
    """
    dtype = _native(array)
    known = stats or scan_fast(array, False)
    if known.min is None or known.max is None:
        return None
    placed = Bins(bins, dtype, known.min, known.max)
    with np.errstate(all="ignore"):
        for piece in _finite(array, dtype, known.nonfinite):
            placed.add(piece)
    return placed.result(), known


def _ranged(tally: _Tally, array: _Array, flags: npt.NDArray[np.bool_] | None) -> None:
    """Count all but zeros and subnormals; zeros too where there is a buffer for it."""
    low, high = tally.low, tally.high
    least, most = high, low
    minimum, maximum = np.minimum.reduce, np.maximum.reduce
    with np.errstate(all="ignore"):
        for whole in chunks(array, tally.dtype, _RANGED if flags is None else CHUNK_BYTES):
            if flags is None:
                # The way of nearly every piece (a NaN is not less than anything), kept short:
                # a microsecond is a fifteenth of reading a piece.
                small, large = minimum(whole).item(), maximum(whole).item()
                if low < small and large < high:
                    least = min(least, small)
                    most = max(most, large)
                    continue
            piece, small, large = tally.finite(whole)
            if small is None:
                continue
            tally.range(piece, small, large)
            if flags is not None:
                tally.zeros(piece, small, large, flags)
    if least <= most:
        tally.least = least if tally.least is None else min(tally.least, least)
        tally.most = most if tally.most is None else max(tally.most, most)


def _finite(array: _Array, dtype: np.dtype[Any], nonfinite: int) -> Iterator[_Array]:
    """Give the finite elements in pieces that are not empty."""
    for piece in chunks(array, dtype):
        kept = piece[np.isfinite(piece)] if nonfinite else piece
        if kept.size:
            yield kept


def _buffers(
    size: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    most = min(size, CHUNK_BYTES // dtype.itemsize)
    return np.empty(most, np.bool_), np.empty(most, np.float64)


def _whole(tally: _Tally, moments: _Moments, count: int) -> Stats:
    mean, std = moments.result()
    if tally.least is not None and tally.least == tally.most:
        mean, std = float(tally.least), 0.0
    return tally.stats(count, mean, std)
