"""Affine int8 quantisation: choosing parameters, to integers and back."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Quantization

Array = npt.NDArray[Any]
Rounding = Literal["half-even", "half-away"]
_LOW, _HIGH = -128, 127
_LEVELS = _HIGH - _LOW


def affine(low: float, high: float) -> tuple[float, int]:
    """Return scale and zero point of int8 for values from ``low`` to ``high``.

    The range is widened to hold zero, which must be exact: padding is made of it.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / _LEVELS
    if not scale > 0 or not np.isfinite(scale):
        return 1.0, 0
    return scale, int(np.clip(round(_LOW - low / scale), _LOW, _HIGH))


def symmetric(low: float, high: float) -> tuple[float, int]:
    """Return scale and zero point (0) of int8 for values from ``low`` to ``high``."""
    top = max(abs(low), abs(high))
    return (top / _HIGH if top > 0 else 1.0), 0


def value_range(array: Array) -> tuple[float, float]:
    """Return the least and the greatest finite value; 0 and 0 where there is none."""
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        finite = array[np.isfinite(array)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return low, high


def choose(array: Array, *, weight: bool = False) -> Quantization:
    """Return int8 parameters for an array's own range.

    Activations: asymmetric, one scale, zero inside the range.  Weights:
    symmetric, one scale per output channel (axis 0).

    Args:
        array: Floating values; non-finite ones do not widen the range.
        weight: Whether it is a weight of rank 2 or more.
    """
    if weight and array.ndim >= 2:
        return choose_weight(array, 0, asymmetric=False)
    scale, zero = affine(*value_range(array))
    return Quantization(scale=(scale,), zero_point=(zero,))


def choose_weight(array: Array, axis: int | None, *, asymmetric: bool) -> Quantization:
    """Return int8 parameters of a weight.

    Args:
        array: The weight.
        axis: Axis of its output channels, each with a scale of its own; None for one
            scale in all.
        asymmetric: Whether the zero point lies where the range asks for it, instead of
            at 0.
    """
    rule = affine if asymmetric else symmetric
    rows = [array] if axis is None else np.moveaxis(array, axis, 0)
    pairs = [rule(*value_range(row)) for row in rows]
    return Quantization(
        scale=tuple(scale for scale, _ in pairs), zero_point=tuple(z for _, z in pairs), axis=axis
    )


def _along(values: tuple[float, ...] | tuple[int, ...], q: Quantization, rank: int) -> Array:
    array = np.asarray(values)
    if q.axis is None or len(values) == 1:
        return array.reshape(()) if len(values) == 1 else array
    shape = [1] * rank
    shape[q.axis] = len(values)
    return array.reshape(shape)


def quantize(
    array: Array, q: Quantization, rounding: Rounding = "half-even"
) -> npt.NDArray[np.int8]:
    """Return ``clip(round(array / scale) + zero_point)`` as int8.

    NaN becomes the zero point: an integer has no NaN.

    Args:
        array: Floating values.
        q: Scale and zero point.
        rounding: Where a value half-way between two integers goes: to the even one, or
            away from zero.
    """
    scale, zero = _along(q.scale, q, array.ndim), _along(q.zero_point, q, array.ndim)
    with np.errstate(invalid="ignore"):
        ratio = array / scale
        if rounding == "half-away":
            whole = np.trunc(ratio)
            # Adding 0.5 first would carry 0.49999999999999994 up.
            steps = whole + np.copysign(np.abs(ratio - whole) >= 0.5, ratio)
        else:
            steps = np.rint(ratio)
        scaled = steps + zero
    scaled = np.where(np.isnan(scaled), np.broadcast_to(zero, scaled.shape), scaled)
    levels: npt.NDArray[np.int8] = np.clip(scaled, _LOW, _HIGH).astype(np.int8)
    return levels


def dequantize(array: Array, q: Quantization) -> Array:
    """Return ``scale * (array - zero_point)`` as float32."""
    scale, zero = _along(q.scale, q, array.ndim), _along(q.zero_point, q, array.ndim)
    return ((array.astype(np.float32) - zero) * scale).astype(np.float32)
