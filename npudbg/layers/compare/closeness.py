"""How close a tensor is to its golden values, in one pass that keeps no full-size copy.

What every tensor of a run is measured with; :mod:`~npudbg.layers.compare.metrics` looks
closer, at channels and at the line through the values, and takes some three times longer.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.channels import channel_axis, per_channel
from npudbg.layers.compare.metrics import argmax_equal
from npudbg.layers.compare.pairs import PIECE
from npudbg.layers.compare.records import Channel, Tolerance
from npudbg.session.golden import ChannelCloseness, Closeness

_KEPT = 6
"""Worst channels that a session keeps of a tensor."""


def closeness(
    got: npt.NDArray[Any], golden: npt.NDArray[Any], *, atol: float, rtol: float
) -> Closeness:
    """Compare two arrays of equal shape; sums are taken in float64."""
    a, b = flat_real(got), flat_real(golden)
    mismatches = nonfinite = 0
    max_abs = max_rel = noise = signal = other = inner = 0.0
    first = -1
    for at in range(0, a.size, PIECE):
        x = a[at : at + PIECE].astype(np.float64)
        y = b[at : at + PIECE].astype(np.float64)
        with np.errstate(all="ignore"):
            both = np.isfinite(x) & np.isfinite(y)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            d = np.where(both, np.abs(x - y), 0.0)
            bad = np.where(both, d > atol + rtol * np.abs(y), ~same)
            lost = int(np.count_nonzero(~np.isfinite(x) & np.isfinite(y)))
            x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
            relative = np.divide(d, np.abs(y), out=np.zeros_like(d), where=y != 0)
        wrong = int(np.count_nonzero(bad))
        if wrong and first < 0:
            first = at + int(np.argmax(bad))
        mismatches += wrong
        nonfinite += lost
        max_abs = max(max_abs, float(d.max(initial=0.0)))
        max_rel = max(max_rel, float(relative.max(initial=0.0)))
        # add.reduce, not dot: a threaded product is slower on chunks of this size.
        noise += float(np.add.reduce(d * d))
        signal += float(np.add.reduce(y * y))
        other += float(np.add.reduce(x * x))
        inner += float(np.add.reduce(x * y))
    norms = math.sqrt(signal) * math.sqrt(other)
    return Closeness(
        count=int(a.size),
        mismatches=mismatches,
        nonfinite=nonfinite,
        max_abs=math.inf if nonfinite else max_abs,
        max_rel=math.inf if nonfinite else max_rel,
        cosine=None if nonfinite else _cosine(inner, norms, noise),
        snr=None if nonfinite else _snr(signal, noise),
        euclidean=math.sqrt(noise),
        first=first,
        atol=atol,
        rtol=rtol,
    )


def closer(
    found: Closeness,
    got: npt.NDArray[Any],
    golden: npt.NDArray[Any],
    *,
    scores: bool = False,
) -> Closeness:
    """Add what figures over a whole tensor hide: its worst channels, and who wins.

    Args:
        found: How the two compare.
        got: The device's values.
        golden: Golden values, same shape.
        scores: They are scores of classes: tell how often the same class wins.
    """
    if golden.dtype.kind == "c":
        return found
    axis = channel_axis(golden.shape)
    channels: tuple[Channel, ...] = ()
    if axis is not None and found.max_abs:
        # Any error counts: a lost channel may lie within what large neighbours tolerate.
        channels = per_channel(got, golden, axis, Tolerance(atol=0.0, rtol=0.0))[0]
    kept = tuple(_kept(each) for each in channels[:_KEPT])
    worst = kept[0] if kept else None
    return msgspec.structs.replace(
        found,
        argmax_equal=argmax_equal(got, golden) if scores else None,
        channel=-1 if worst is None else worst.index,
        channel_axis=axis if worst is not None else None,
        channel_snr=None if worst is None else worst.snr,
        channel_max_abs=0.0 if worst is None else worst.max_abs,
        channels=kept,
    )


def _kept(found: Channel) -> ChannelCloseness:
    """Return what is kept of a channel; no mean over the rest may hide a value that is lost."""
    return ChannelCloseness(
        index=found.index,
        max_abs=math.inf if found.lost else found.max_abs,
        snr=None if found.lost else found.snr_db,
        cosine=None if found.lost else found.cosine,
        constant=found.constant,
        lost=found.lost,
    )


def flat_real(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array's numbers flat in C order; a complex one as pairs."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _cosine(inner: float, norms: float, noise: float) -> float | None:
    if not norms > 0:
        return None
    # Equal values read 1, whatever the rounding of the sums.
    return 1.0 if noise == 0 else max(-1.0, min(1.0, inner / norms))


def _snr(signal: float, noise: float) -> float | None:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else None
