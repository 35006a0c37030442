"""The metrics of two tensors of one shape, in one pass of float64 over pieces."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10, sqrt

import numpy as np

from npudbg.layers.compare.channels import channel_axis, per_channel
from npudbg.layers.compare.pairs import PIECE, Array, Wide, pairs, wide
from npudbg.layers.compare.records import Metrics, Tolerance


class _Joint:
    """Moments of two variables, joined piece by piece so that no large mean cancels them."""

    def __init__(self) -> None:
        self.count = 0
        self.mean_x = self.mean_y = 0.0
        self.xx = self.yy = self.xy = 0.0

    def add(self, x: Wide, y: Wide) -> None:
        """Take in a piece."""
        n, both = x.size, self.count + x.size
        mean_x, mean_y = float(x.mean()), float(y.mean())
        dx, dy = x - mean_x, y - mean_y
        apart_x, apart_y = mean_x - self.mean_x, mean_y - self.mean_y
        weight = self.count / both * n
        self.xx += _dot(dx, dx) + apart_x * apart_x * weight
        self.yy += _dot(dy, dy) + apart_y * apart_y * weight
        self.xy += _dot(dx, dy) + apart_x * apart_y * weight
        self.mean_x += apart_x * n / both
        self.mean_y += apart_y * n / both
        self.count = both

    def line(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return slope, intercept, residual and correlation of y over x."""
        if self.count < 2 or not self.xx > 0:
            return None, None, None, None
        slope = self.xy / self.xx
        intercept = self.mean_y - slope * self.mean_x
        if not self.yy > 0:
            return slope, intercept, None, None
        correlation = max(-1.0, min(1.0, self.xy / sqrt(self.xx) / sqrt(self.yy)))
        return slope, intercept, 1 - correlation * correlation, correlation


def _dot(x: Wide, y: Wide) -> float:
    # Not ndarray.dot: a BLAS may start threads for it.
    return float(np.einsum("i,i->", x, y))


def measure(got: Array, golden: Array, tolerance: Tolerance) -> Metrics:
    """Return the metrics of two tensors of real numbers and of one shape."""
    at = compared = mismatches = bad_got = bad_golden = 0
    max_abs, max_at, max_rel = 0.0, 0, 0.0
    power_golden = power_got = power_error = product = total = 0.0
    ranges = [np.inf, -np.inf, np.inf, -np.inf]
    joint = _Joint()
    for one, other in pairs(got, golden):
        fine_one, fine_other = np.isfinite(one), np.isfinite(other)
        fine = fine_one & fine_other
        x, y = other, one
        if not fine.all():
            bad_got += int(one.size - np.count_nonzero(fine_one))
            bad_golden += int(one.size - np.count_nonzero(fine_other))
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            mismatches += int(np.count_nonzero(~fine & ~same))
            x, y = other[fine], one[fine]
        if not x.size:
            at += one.size
            continue
        error = y - x
        size = np.abs(error)
        mismatches += int(np.count_nonzero(size > tolerance.atol + tolerance.rtol * np.abs(x)))
        where = int(size.argmax())
        if size[where] > max_abs:
            max_abs = float(size[where])
            max_at = at + (where if fine.all() else int(np.flatnonzero(fine)[where]))
        nonzero = x != 0
        if nonzero.any():
            max_rel = max(max_rel, float((size[nonzero] / np.abs(x[nonzero])).max()))
        power_golden += _dot(x, x)
        power_got += _dot(y, y)
        power_error += _dot(error, error)
        product += _dot(x, y)
        total += float(error.sum())
        ranges = [
            min(ranges[0], float(y.min())), max(ranges[1], float(y.max())),
            min(ranges[2], float(x.min())), max(ranges[3], float(x.max())),
        ]  # fmt: skip
        joint.add(x, y)
        compared += x.size
        at += one.size
    slope, intercept, residual, correlation = joint.line()
    axis = channel_axis(golden.shape)
    channels, dead = ((), ()) if axis is None else per_channel(got, golden, axis, tolerance)
    return Metrics(
        elements=int(golden.size),
        compared=compared,
        max_abs=max_abs,
        max_abs_at=tuple(int(i) for i in np.unravel_index(max_at, golden.shape))
        if golden.size
        else (),
        max_rel=max_rel,
        cosine=_cosine(product, power_golden, power_got),
        correlation=correlation,
        snr_db=snr(power_golden, power_error),
        euclidean=sqrt(power_error),
        bias=total / compared if compared else 0.0,
        slope=slope,
        intercept=intercept,
        residual=residual,
        mismatches=mismatches,
        nonfinite_got=bad_got,
        nonfinite_golden=bad_golden,
        argmax_equal=argmax_equal(got, golden),
        got_range=(ranges[0], ranges[1]) if compared else None,
        golden_range=(ranges[2], ranges[3]) if compared else None,
        channel_axis=axis,
        channels=channels,
        dead_channels=dead,
    )


def snr(signal: float, error: float) -> float | None:
    """Return the ratio of two powers in dB, or None where one of them is 0."""
    return 10 * log10(signal / error) if signal > 0 and error > 0 else None


def _cosine(product: float, one: float, other: float) -> float | None:
    if not (one > 0 and other > 0):
        return None
    return max(-1.0, min(1.0, product / sqrt(one) / sqrt(other)))


def argmax_equal(got: Array, golden: Array) -> float | None:
    """Return the fraction of rows with their largest element at the same place.

    Classes stand on the last axis of a tensor of two axes, else on axis 1.  A
    golden element as large as the golden maximum counts as the same place.
    """
    if golden.ndim < 1 or golden.size < 2:
        return None
    axis = golden.ndim - 1 if golden.ndim < 3 else 1
    if golden.shape[axis] < 2:
        return None
    rows = right = 0
    for one, other in _slabs(np.moveaxis(got, axis, -1), np.moveaxis(golden, axis, -1)):
        values, best = wide(one), wide(other)
        values[np.isnan(values)] = -np.inf
        best[np.isnan(best)] = -np.inf
        chosen = values.argmax(axis=-1)[..., None]
        same = np.take_along_axis(best, chosen, -1)[..., 0] == best.max(axis=-1)
        rows += same.size
        right += int(np.count_nonzero(same))
    return right / rows if rows else None


def _slabs(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Give both arrays in parts of some thousand elements; the last axis stays whole."""
    if one.ndim < 2 or one.size <= PIECE:
        yield one, other
        return
    step = max(1, PIECE * one.shape[0] // one.size)
    for first in range(0, one.shape[0], step):
        if step > 1 or one.ndim < 3:
            yield one[first : first + step], other[first : first + step]
        else:
            yield from _slabs(one[first], other[first])
