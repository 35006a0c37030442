"""Pixels to model values: what a declared normalisation makes of 0 to 255, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import HostTensor, Preprocessing

Array = npt.NDArray[Any]
_CHANNELS = (1, 3, 4)
_SPATIAL = 8
_PIXELS = 10_000


@dataclass(frozen=True, slots=True)
class Normalisation:
    """``(pixel * factor - mean) / std``, per channel.

    Attributes:
        factor: What pixels are multiplied with.
        full: The largest pixel value (255; 65535 for images of 16 bits).
        mean: One a channel, or one for all.
        std: The same.
    """

    factor: float
    full: float
    mean: Array
    std: Array

    def once(self, values: Array | float) -> Array:
        """Return the values normalised, one row a channel."""
        return np.asarray((np.asarray(values) * self.factor - self.mean) / self.std)

    def shift(self, values: Array) -> Array:
        """Return the values with mean and std applied, but no factor."""
        return np.asarray((values - self.mean) / self.std)

    def undo(self, values: Array) -> Array:
        """Return the pixels that give these values."""
        return np.asarray((values * self.std + self.mean) / self.factor)

    def reversed(self) -> Normalisation:
        """Return the same with the channels' statistics in reverse order."""
        return Normalisation(self.factor, self.full, self.mean[::-1], self.std[::-1])

    def __str__(self) -> str:
        """Return the formula."""
        scaled = "x" if self.factor == 1 else f"x/{1 / self.factor:.6g}"
        return f"({scaled} - mean) / std"


def declared(said: Preprocessing | None) -> Normalisation | None:
    """Return the normalisation that the user stated, or None.

    A scale above 1 divides (255), one below multiplies (1/255).  Without one,
    statistics of the size of 1 are those of pixels already divided by 255, as
    most frameworks write them; larger ones are in pixels.
    """
    if said is None or (said.mean is None and said.std is None and said.scale is None):
        return None
    mean = np.array(said.mean if said.mean is not None else (0.0,), np.float64)
    std = np.array(said.std if said.std is not None else (1.0,), np.float64)
    if said.scale:
        factor = abs(said.scale) if abs(said.scale) <= 1 else 1 / abs(said.scale)
    else:
        factor = 1 / 255 if max(np.abs(mean).max(), np.abs(std).max()) <= 1.5 else 1.0
    full = 255.0 if factor >= 1 / 512 else 65535.0
    count = max(len(mean), len(std))
    return Normalisation(
        factor,
        full,
        np.broadcast_to(mean, count) if len(mean) == 1 else mean,
        np.broadcast_to(std, count) if len(std) == 1 else std,
    )


def channel_axis(host: HostTensor, layout: str | None) -> int | None:
    """Return the axis of an image's channels, or None where it is no image."""
    return image_axis(host.record.shape, layout)


def image_axis(shape: Sequence[int], layout: str | None) -> int | None:
    """Return the axis of the channels of a shape, or None where it is no image's."""
    if layout and len(layout) == len(shape) and "C" in layout:
        return layout.index("C")
    if len(shape) not in (3, 4):
        return None
    first, last = len(shape) - 3, len(shape) - 1
    if shape[first] in _CHANNELS and min(shape[first + 1 :]) >= _SPATIAL:
        return first
    if shape[last] in _CHANNELS and min(shape[first:last]) >= _SPATIAL:
        return last
    return None


def ends_of(array: Array, axis: int | None) -> tuple[Array, Array]:
    """Return the lowest and highest value of each channel (NaN where it holds one)."""
    others = None if axis is None else tuple(a for a in range(array.ndim) if a != axis)
    low, high = array.min(axis=others), array.max(axis=others)
    return np.atleast_1d(low).astype(np.float64), np.atleast_1d(high).astype(np.float64)


def sample_pixels(array: Array, axis: int) -> Array:
    """Return some ten thousand pixels, ``(pixels, channels)``, from all over an image."""
    last = np.moveaxis(array, axis, -1)
    count = last.size // last.shape[-1]
    where = np.unravel_index(np.arange(0, count, max(1, count // _PIXELS)), last.shape[:-1])
    return last[where].astype(np.float64)


def whole_share(pixels: Array, full: float, itemsize: int) -> float:
    """Return the share of values that are whole numbers from 0 to ``full``."""
    slack = 0.02 if itemsize >= 4 else 0.3
    near = np.abs(pixels - np.round(pixels)) <= slack
    return float(np.count_nonzero(near & (pixels >= -slack) & (pixels <= full + slack))) / max(
        pixels.size, 1
    )
