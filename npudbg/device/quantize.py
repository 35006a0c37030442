"""Affine int8 quantisation: choosing parameters, to integers and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Quantization

Array = npt.NDArray[Any]
_LOW, _HIGH = -128, 127


def choose(array: Array, *, weight: bool = False) -> Quantization:
    """Return int8 parameters for an array's own range.

    Activations: asymmetric, one scale, zero inside the range.  Weights:
    symmetric, one scale per output channel (axis 0).

    Args:
        array: Floating values; non-finite ones do not widen the range.
        weight: Whether it is a weight of rank 2 or more.
    """
    if weight and array.ndim >= 2:
        flat = np.abs(array.reshape(array.shape[0], -1))
        top = np.where(np.isfinite(flat), flat, 0).max(axis=1, initial=0)
        scales = np.where(top > 0, top / 127.0, 1.0)
        return Quantization(
            scale=tuple(float(s) for s in scales), zero_point=(0,) * len(scales), axis=0
        )
    finite = array[np.isfinite(array)]
    low = min(float(finite.min(initial=0)), 0.0)
    high = max(float(finite.max(initial=0)), 0.0)
    scale = (high - low) / 255.0 or 1.0
    zero = int(np.clip(round(_LOW - low / scale), _LOW, _HIGH))
    return Quantization(scale=(scale,), zero_point=(zero,))


def _along(values: tuple[float, ...] | tuple[int, ...], q: Quantization, rank: int) -> Array:
    array = np.asarray(values)
    if q.axis is None or len(values) == 1:
        return array.reshape(()) if len(values) == 1 else array
    shape = [1] * rank
    shape[q.axis] = len(values)
    return array.reshape(shape)


def quantize(array: Array, q: Quantization) -> npt.NDArray[np.int8]:
    """Return ``clip(round(array / scale) + zero_point)`` as int8 (ties to even).

    NaN becomes the zero point: an integer has no NaN.
    """
    scale, zero = _along(q.scale, q, array.ndim), _along(q.zero_point, q, array.ndim)
    with np.errstate(invalid="ignore"):
        scaled = np.rint(array / scale) + zero
    scaled = np.where(np.isnan(scaled), np.broadcast_to(zero, scaled.shape), scaled)
    levels: npt.NDArray[np.int8] = np.clip(scaled, _LOW, _HIGH).astype(np.int8)
    return levels


def dequantize(array: Array, q: Quantization) -> Array:
    """Return ``scale * (array - zero_point)`` as float32."""
    scale, zero = _along(q.scale, q, array.ndim), _along(q.zero_point, q, array.ndim)
    return ((array.astype(np.float32) - zero) * scale).astype(np.float32)
