"""Metrics of each channel: what a figure over the whole tensor hides."""

from __future__ import annotations

from math import log10, sqrt

import numpy as np

from npudbg.layers.compare.pairs import Array, wide
from npudbg.layers.compare.records import Channel, Tolerance

_MAX_CHANNELS = 1 << 14
_SHOWN = 16
_SLAB = 1 << 16
"""Elements of a group of channels looked at together."""


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis of the channels: 1, or the last one of two axes; None without any."""
    if len(shape) < 2:
        return None
    axis = 1 if len(shape) > 2 or shape[0] == 1 else len(shape) - 1
    others = int(np.prod(shape, dtype=object)) // max(shape[axis], 1)
    return axis if 2 <= shape[axis] <= _MAX_CHANNELS and others >= 2 else None


def per_channel(
    got: Array, golden: Array, axis: int, tolerance: Tolerance
) -> tuple[tuple[Channel, ...], tuple[int, ...]]:
    """Return the worst channels, the worst first, and those dead in ``got`` alone."""
    count = golden.shape[axis]
    step = max(1, _SLAB * count // max(golden.size, 1))
    found: list[Channel] = []
    dead: list[int] = []
    one, other = np.moveaxis(got, axis, 0), np.moveaxis(golden, axis, 0)
    for first in range(0, count, step):
        y = wide(one[first : first + step]).reshape(min(step, count - first), -1)
        x = wide(other[first : first + step]).reshape(y.shape)
        with np.errstate(all="ignore"):
            lost = (np.isfinite(x) & ~np.isfinite(y)).sum(axis=1)
            fine = np.isfinite(x) & np.isfinite(y)
            x, y = np.where(fine, x, 0), np.where(fine, y, 0)
            error = y - x
            size = np.abs(error)
            far = (size > tolerance.atol + tolerance.rtol * np.abs(x)).sum(axis=1)
            largest = size.max(axis=1)
            noise = np.sqrt((error * error).mean(axis=1))
            signal = x.std(axis=1)
            xx, yy = (x * x).sum(axis=1), (y * y).sum(axis=1)
            xy = (x * y).sum(axis=1)
            flat = (y == y[:, :1]).all(axis=1)
        for n in range(len(x)):
            number = first + n
            constant = bool(flat[n]) and bool(signal[n] > 1e-6 * (np.abs(x[n]).max() or 1))
            if constant:
                dead.append(number)
            if not far[n] and not lost[n]:
                continue
            found.append(
                Channel(
                    index=number,
                    max_abs=float(largest[n]),
                    signal=float(signal[n]),
                    error=float(noise[n]),
                    snr_db=20 * log10(signal[n] / noise[n])
                    if signal[n] > 0 and noise[n] > 0
                    else None,
                    cosine=float(xy[n] / sqrt(xx[n]) / sqrt(yy[n]))
                    if xx[n] > 0 and yy[n] > 0
                    else None,
                    mismatches=int(far[n]) + int(lost[n]),
                    constant=constant,
                    lost=int(lost[n]),
                )
            )
    # No finite error is worse than a value that is lost.
    found.sort(key=lambda c: (-c.lost, -(c.error / c.signal if c.signal else c.error), c.index))
    return tuple(found[:_SHOWN]), tuple(dead)
