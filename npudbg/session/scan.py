"""One pass over a tensor's values: NaN, Inf, zeros, limits, range, mean, deviation.

The pass goes in chunks that stay in the processor's cache, so that memory is
read once whatever is counted, and no temporary is as large as the tensor.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Stats

CHUNK = 1 << 16
"""Elements a chunk: 256 KB of float32, half of a usual second-level cache."""


def scan(array: npt.NDArray[Any]) -> Stats | None:
    """Return the statistics of an array, or None for values that are not numbers.

    Min, max, mean and deviation are those of the finite elements.

    Args:
        array: Any shape, dtype and byte order; strings and objects give None.
    """
    dtype = array.dtype
    if dtype.kind in "OSUMmT" or (dtype.kind == "V" and not _is_float(dtype)):
        return _scan_extension_int(array) if dtype.kind == "V" else None
    flat = array.reshape(-1)
    if not flat.size:
        return Stats(count=0)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        flat = np.ascontiguousarray(flat).view(part)
        return _scan_float(flat)
    if dtype.kind in "biu":
        return _scan_int(flat)
    return _scan_float(flat)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def _scan_extension_int(array: npt.NDArray[Any]) -> Stats | None:
    if "int" not in array.dtype.name:
        return None
    bits = int(array.dtype.name.lstrip("uint"))
    low, high = (
        (0, 2**bits - 1)
        if array.dtype.name.startswith("u")
        else (
            -(2 ** (bits - 1)),
            2 ** (bits - 1) - 1,
        )
    )
    return _scan_int(array.reshape(-1).astype(np.int8), low, high)


def _scan_int(flat: npt.NDArray[Any], low: int | None = None, high: int | None = None) -> Stats:
    if flat.dtype.kind == "b":
        flat, low, high = flat.view(np.uint8), 0, 1
    if low is None or high is None:
        info = np.iinfo(flat.dtype)
        low, high = int(info.min), int(info.max)
    zeros = at_min = at_max = 0
    total = square = 0.0
    least, most = int(flat[0]), int(flat[0])
    for at in range(0, flat.size, CHUNK):
        part = flat[at : at + CHUNK]
        zeros += part.size - int(np.count_nonzero(part))
        small, large = int(part.min()), int(part.max())
        if small == low:
            at_min += int(np.count_nonzero(part == low))
        if large == high:
            at_max += int(np.count_nonzero(part == high))
        least, most = min(least, small), max(most, large)
        wide = part.astype(np.float64)
        total += float(wide.sum())
        square += float(np.einsum("i,i->", wide, wide))  # BLAS would start threads
    return _stats(
        flat.size, total, square, flat.size, least, most,
        zeros=zeros, at_min=at_min, at_max=at_max,
    )  # fmt: skip


def _scan_float(flat: npt.NDArray[Any]) -> Stats:
    import ml_dtypes

    info = np.finfo(flat.dtype) if flat.dtype.kind == "f" else ml_dtypes.finfo(flat.dtype)
    limit, tiny = float(info.max), float(info.tiny)
    nan = inf = ninf = zeros = subnormal = at_min = at_max = finite = 0
    total = square = 0.0
    least, most = np.inf, -np.inf
    exact = np.float64 if flat.dtype.itemsize >= 8 else np.float32
    with np.errstate(all="ignore"):
        for at in range(0, flat.size, CHUNK):
            part = flat[at : at + CHUNK]
            if part.dtype != exact:
                part = part.astype(exact)
            small, large = float(part.min()), float(part.max())
            if not (np.isfinite(small) and np.isfinite(large)):
                nan += int(np.count_nonzero(np.isnan(part)))
                inf += int(np.count_nonzero(part == np.inf))
                ninf += int(np.count_nonzero(part == -np.inf))
                part = part[np.isfinite(part)]
                if not part.size:
                    continue
                small, large = float(part.min()), float(part.max())
            finite += part.size
            least, most = min(least, small), max(most, large)
            none = part.size - int(np.count_nonzero(part))
            zeros += none
            if small < tiny and large > -tiny:
                subnormal += int(np.count_nonzero(np.abs(part) < tiny)) - none
            if large >= limit:
                at_max += int(np.count_nonzero(part == limit))
            if small <= -limit:
                at_min += int(np.count_nonzero(part == -limit))
            wide = part.astype(np.float64, copy=False)
            total += float(wide.sum())
            square += float(np.einsum("i,i->", wide, wide))  # BLAS would start threads
    return _stats(
        flat.size, total, square, finite, least, most, nan=nan, pos_inf=inf, neg_inf=ninf,
        zeros=zeros, subnormal=subnormal, at_min=at_min, at_max=at_max,
    )  # fmt: skip


def _stats(
    count: int,
    total: float,
    square: float,
    finite: int,
    least: float,
    most: float,
    **counts: int,
) -> Stats:
    if not finite:
        return Stats(count=count, **counts)
    mean = total / finite
    variance = max(square / finite - mean * mean, 0.0)
    return Stats(
        count=count,
        min=float(least),
        max=float(most),
        mean=mean,
        std=sqrt(variance) if np.isfinite(variance) else None,
        **counts,
    )
