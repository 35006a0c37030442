"""Scans of types of one and two bytes, by their bit patterns.

NumPy's float16 arithmetic is 20 to 135 times slower than memory, and extension
types (bfloat16, the float8s, int4) have none worth the name.  But there are at
most 65,536 patterns: counting them is the whole distribution, exact in every
figure; and the patterns of a floating type, read as integers, are ordered, so
that two integer reductions find its range and all that is not finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Stats
from npudbg.session.scan_chunks import chunks

_Array = npt.NDArray[Any]
_PIECE = 1 << 17
"""Bytes a piece where patterns are counted, which NumPy does on 64-bit copies of them."""

_ONE = np.ones((), np.int32)

_DRAIN = 1 << 30
"""Elements after which a table of 32-bit counts (half the size of the whole) is emptied."""

_SAMPLE = 16
_MOSTLY = 0.85
"""Part of a piece from which leaving one pattern out costs less than counting it."""

_FEW = 1 << 15
"""Up to so many elements, looking each value up is quicker than a table of 65,536 counts."""


def covers(array: _Array) -> bool:
    """Tell whether the elements have one or two bytes."""
    return array.dtype.itemsize <= 2


@lru_cache(maxsize=16)
def _values(dtype: np.dtype[Any]) -> npt.NDArray[np.float64]:
    """Return the value of every bit pattern of a native-order type."""
    patterns = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    values: npt.NDArray[np.float64]
    if dtype.kind == "b":
        values = np.minimum(patterns, 1).astype(np.float64)
    else:
        with np.errstate(all="ignore"):  # signalling NaNs
            values = patterns.view(dtype).astype(np.float64)
    values.setflags(write=False)
    return values


@lru_cache(maxsize=16)
def _limits(dtype: np.dtype[Any]) -> tuple[float, float, float]:
    """Return the least and the greatest finite value, and the smallest normal one (or 0)."""
    values = _values(dtype)
    finite = values[np.isfinite(values)]
    if dtype.kind in "biu" or "int" in dtype.name:
        return float(finite.min()), float(finite.max()), 0.0
    if dtype.name == "float16":
        tiny = float(np.finfo(dtype).tiny)
    else:
        import ml_dtypes

        info: Any = ml_dtypes.finfo
        tiny = float(info(dtype).smallest_normal)
    return float(finite.min()), float(finite.max()), tiny


def _patterns(array: _Array) -> _Array:
    """Return the elements' bits as unsigned integers of the same byte order."""
    bits = np.dtype(f"u{array.dtype.itemsize}")
    if array.dtype.byteorder in "<>":
        bits = bits.newbyteorder(array.dtype.byteorder)
    return array.view(bits)


def _occurring(array: _Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the values that occur and how often each does (a value may come more than once)."""
    dtype = array.dtype.newbyteorder("=")
    patterns = _patterns(array)
    if dtype.itemsize == 1:
        counts = _count_bytes(patterns)
    elif array.size < _FEW:
        return _values(dtype)[patterns.reshape(-1)], np.ones(array.size, np.int64)
    else:
        counts = _count_pairs(chunks(patterns, nbytes=_PIECE))
    which = np.flatnonzero(counts)
    return _values(dtype)[which], counts[which]


def _count_pairs(pieces: Iterable[npt.NDArray[np.uint16]]) -> npt.NDArray[np.int64]:
    """Return the count of each of the 65,536 patterns."""
    counts = np.zeros(1 << 16, np.int64)
    few = np.zeros(1 << 16, np.int32)
    seen = 0
    index = np.empty(0, np.intp)
    for piece in pieces:
        seen += piece.size
        if seen > _DRAIN:
            counts += few
            few[:] = 0
            seen = piece.size
        if index.size < piece.size:
            index = np.empty(piece.size, np.intp)
        piece = _without_common(piece, counts)
        np.copyto(index[: piece.size], piece)
        # Unlike bincount this makes no table of 512 KB a piece to be added to the whole.
        np.add.at(few, index[: piece.size], _ONE)
    return counts + few


def _without_common(
    piece: npt.NDArray[np.uint16], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint16]:
    """Count the pattern that most of a piece consists of, if one is, and return the rest.

    Adding to one place over and over waits for itself each time (measured: 25 read passes
    for a tensor of zeros where a tensor of noise takes 12).
    """
    sample = piece[:: max(piece.size // _SAMPLE, 1)].tolist()
    often = sample[len(sample) // 2]
    if piece.size < _FEW or sample.count(often) < _MOSTLY * len(sample):
        return piece
    rest: npt.NDArray[np.uint16] = piece[piece != often]
    counts[often] += piece.size - rest.size
    return rest


def _count_bytes(patterns: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the count of each of the 256 bytes."""
    if patterns.size < 1 << 18:
        return np.bincount(patterns.reshape(-1), minlength=256)
    last = np.zeros(256, np.int64)

    def halves() -> Iterator[npt.NDArray[np.uint16]]:
        # Two bytes as one 16-bit number: half as many elements to count.
        for piece in chunks(patterns, nbytes=_PIECE):
            even = piece.size - piece.size % 2
            if piece.size % 2:
                last[piece[-1]] += 1
            yield piece[:even].view(np.uint16)

    table = _count_pairs(halves()).reshape(256, 256)
    last += table.sum(axis=0)
    last += table.sum(axis=1)
    return last


def scan(array: _Array) -> Stats:
    """Return the full statistics of a non-empty array."""
    return _stats(array, *_occurring(array))


def scan_histogram(
    array: _Array, bins: int
) -> tuple[Stats, tuple[tuple[int, ...], float, float] | None]:
    """Return statistics and histogram of a non-empty array from one count."""
    values, often = _occurring(array)
    return _stats(array, values, often), _binned(values, often, bins)


def histogram(array: _Array, bins: int) -> tuple[tuple[int, ...], float, float] | None:
    """Return counts and range of a non-empty array, or None if nothing in it is finite."""
    return _binned(*_occurring(array), bins)


def _binned(
    values: npt.NDArray[np.float64], often: npt.NDArray[np.int64], bins: int
) -> tuple[tuple[int, ...], float, float] | None:
    keep = np.isfinite(values)
    if not keep.any():
        return None
    values, often = values[keep], often[keep]
    low, high = float(values.min()), float(values.max())
    if low == high:  # a range of no width is taken as one around the value
        place = np.full(len(values), bins // 2)
    else:
        place = ((values - low) / (high - low) * bins).astype(np.intp)
    total = np.bincount(np.minimum(place, bins - 1), often, minlength=bins)
    return tuple(int(n) for n in total), low, high


def _stats(array: _Array, values: npt.NDArray[np.float64], often: npt.NDArray[np.int64]) -> Stats:
    low, high, tiny = _limits(array.dtype.newbyteorder("="))

    def total(which: npt.NDArray[np.bool_]) -> int:
        return int(often[which].sum())

    counts = {
        "nan": total(np.isnan(values)),
        "pos_inf": total(values == np.inf),
        "neg_inf": total(values == -np.inf),
        "zeros": total(values == 0),
        "subnormal": total((np.abs(values) < tiny) & (values != 0)),
        "at_min": total(values == low),
        "at_max": total(values == high),
    }
    keep = np.isfinite(values)
    if not keep.any():
        return Stats(count=array.size, **counts)
    values, weight = values[keep], often[keep].astype(np.float64)
    elements = float(weight.sum())
    mean = float((values * weight).sum()) / elements
    apart = values - mean
    return Stats(
        count=array.size,
        min=float(values.min()),
        max=float(values.max()),
        mean=mean,
        std=sqrt(float((apart * apart * weight).sum()) / elements),
        **counts,
    )


def scan_fast(array: _Array, zeros: bool) -> Stats:
    """Return range, limits and non-finite counts of a non-empty array."""
    dtype = array.dtype.newbyteorder("=")
    if dtype.kind in "iu":
        return _fast(array, dtype, zeros, integer=True)
    if dtype.itemsize == 2:
        return _fast(array, dtype, zeros, integer=False)
    full = scan(array)
    return Stats(
        count=full.count, nan=full.nan, pos_inf=full.pos_inf, neg_inf=full.neg_inf,
        zeros=full.zeros if zeros else 0, at_min=full.at_min, at_max=full.at_max,
        min=full.min, max=full.max,
    )  # fmt: skip


def _fast(array: _Array, dtype: np.dtype[Any], zeros: bool, *, integer: bool) -> Stats:
    """Scan by integer reductions over pieces."""
    values = _values(dtype)
    low, high, _ = _limits(dtype)
    counts = dict.fromkeys(("nan", "pos_inf", "neg_inf", "zeros", "at_min", "at_max"), 0)
    least, most = np.inf, -np.inf
    signed = np.dtype(f"i{dtype.itemsize}")
    for whole in chunks(_patterns(array)):
        piece = whole
        if integer:
            own = piece.view(dtype)
            small, large = float(np.minimum.reduce(own)), float(np.maximum.reduce(own))
        else:
            ends = _float_range(piece, signed, values)
            if ends is None:
                # Something here is not finite: count it and go on without.
                real = values[piece.astype(np.intp)]
                counts["nan"] += int(np.count_nonzero(np.isnan(real)))
                counts["pos_inf"] += int(np.count_nonzero(real == np.inf))
                counts["neg_inf"] += int(np.count_nonzero(real == -np.inf))
                piece = piece[np.isfinite(real)]
                if not piece.size:
                    continue
                ends = _float_range(piece, signed, values)
                assert ends is not None
            small, large = ends
        least, most = min(least, small), max(most, large)
        if small == low:
            counts["at_min"] += int(np.count_nonzero(piece == _pattern(values, low)))
        if large == high:
            counts["at_max"] += int(np.count_nonzero(piece == _pattern(values, high)))
        if zeros and small <= 0 <= large:
            counts["zeros"] += piece.size - int(np.count_nonzero(piece.view(signed)))
            if not integer and int(np.minimum.reduce(piece.view(signed))) == -(1 << 15):
                counts["zeros"] += int(np.count_nonzero(piece == 1 << 15))
    if least > most:
        return Stats(count=array.size, **counts)
    return Stats(count=array.size, min=least + 0.0, max=most + 0.0, **counts)


def _pattern(values: npt.NDArray[np.float64], value: float) -> int:
    return int(np.flatnonzero(values == value)[0])


def _float_range(
    piece: npt.NDArray[np.uint16], signed: np.dtype[Any], values: npt.NDArray[np.float64]
) -> tuple[float, float] | None:
    """Return the range of 16-bit floating patterns, or None if one of them is not finite.

    Read as unsigned, the greatest pattern is the negative value of largest size
    (or -Inf, -NaN); read as signed, it is the largest positive one (or Inf, NaN).
    """
    top = int(np.maximum.reduce(piece.view(signed)))
    bottom = int(np.maximum.reduce(piece))
    if bottom < 1 << 15:  # no negative one: the least is the smallest pattern
        bottom = int(np.minimum.reduce(piece))
    if top < 0:  # no positive one: the greatest is the negative one of smallest size
        top = int(np.minimum.reduce(piece.view(signed))) + (1 << 16)
    large, small = float(values[top]), float(values[bottom])
    if not (np.isfinite(large) and np.isfinite(small)):
        return None
    return small, large
