"""int8 parameters and rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from npudbg.device.quantize import (
    affine,
    choose,
    choose_weight,
    dequantize,
    quantize,
    symmetric,
    value_range,
)
from npudbg.session.records import Quantization

FLOATS = st.floats(-1e6, 1e6, width=32)
ONE = Quantization(scale=(1.0,), zero_point=(0,))


@pytest.mark.parametrize(
    ("value", "even", "away"),
    [(0.5, 0, 1), (1.5, 2, 2), (2.5, 2, 3), (-0.5, 0, -1), (-1.5, -2, -2), (-2.5, -2, -3),
     (0.49999999999999994, 0, 0), (2.4, 2, 2), (-2.6, -3, -3), (500.0, 127, 127)],
)  # fmt: skip
def test_rounding(value, even, away):
    array = np.array([value])
    assert quantize(array, ONE)[0] == even
    assert quantize(array, ONE, "half-away")[0] == away


@given(st.integers(-400, 400), st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.integers(-128, 127))
def test_rounding_is_exact(quarters, scale, zero):
    """Powers of two: held against rational arithmetic."""
    value = Fraction(quarters, 4)
    ratio = value / Fraction(scale)
    q = Quantization(scale=(scale,), zero_point=(zero,))
    away = int(abs(ratio) + Fraction(1, 2)) * (1 if ratio >= 0 else -1)
    for rounding, steps in (("half-even", round(ratio)), ("half-away", away)):
        wanted = min(max(steps + zero, -128), 127)
        assert quantize(np.array([float(value)]), q, rounding)[0] == wanted


@given(arrays(np.float32, array_shapes(max_dims=3, max_side=6), elements=FLOATS))
def test_a_value_comes_back_within_half_a_step(array):
    q = choose(array)
    error = np.abs(dequantize(quantize(array, q), q) - array)
    # The zero point is rounded, so the range's ends may lie half a step outside.
    assert error.max() <= q.scale[0] * 1.001 + 1e-6 * np.abs(array).max()
    assert dequantize(quantize(np.zeros(1, "f4"), q), q)[0] == 0


@given(
    arrays(np.float32, st.tuples(*[st.integers(1, 5)] * 3), elements=FLOATS),
    st.integers(0, 2),
    st.booleans(),
)
def test_each_channel_has_the_scale_of_its_own_range(array, axis, asymmetric):
    q = choose_weight(array, axis, asymmetric=asymmetric)
    rule = affine if asymmetric else symmetric
    for i in range(array.shape[axis]):
        low, high = float(array.take(i, axis).min()), float(array.take(i, axis).max())
        assert (q.scale[i], q.zero_point[i]) == rule(low, high)
    assert q.axis == axis


@given(FLOATS, FLOATS)
def test_affine_covers_the_range(a, b):
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    scale, zero = affine(min(a, b), max(a, b))
    assert scale > 0
    assert -128 <= zero <= 127
    if high > low:
        assert scale == pytest.approx((high - low) / 255)
        assert (-128 - zero) * scale <= low + scale
        assert (127 - zero) * scale >= high - scale


def test_symmetric_uses_127():
    assert symmetric(-2.54, 1.0) == (pytest.approx(0.02), 0)


def test_what_is_not_finite_does_not_widen():
    array = np.array([np.nan, np.inf, -np.inf, 2.0, -1.0], "f4")
    assert value_range(array) == (-1.0, 2.0)
    assert value_range(np.array([np.nan])) == (0.0, 0.0)
    assert value_range(np.empty(0)) == (0.0, 0.0)
    q = choose(array)
    assert quantize(array, q)[0] == q.zero_point[0]
    assert list(quantize(array[1:3], q)) == [127, -128]
