"""Whether a rearrangement explains a buffer: what it puts in place that was not."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, log2

import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.pairs import Array

Narrow = npt.NDArray[np.float32] | npt.NDArray[np.float64]

IN_PLACE = 0.9
"""Fraction of the telling elements in place as read from which nothing is wrong."""

AFTER = 0.97
_BITS = 40.0
"""Evidence that chance must not reach: some hundred candidates use up about ten bits."""

_HELD = 0.25
_SINGLE = 2


def narrow(array: Array, *others: Array) -> Narrow:
    """Return an array as float32 if that holds every value of it and of the others.

    float64 otherwise.  Half the bytes are half the time.
    """
    with np.errstate(all="ignore"):
        if all(_fits(a) for a in (array, *others)):
            return array.astype(np.float32, copy=False)
        return array.astype(np.float64, copy=False)


def _fits(array: Array) -> bool:
    kind, width = array.dtype.kind, array.dtype.itemsize
    return width <= _SINGLE or (width == 4 and kind == "f")


def close(one: Narrow, other: Narrow, tolerance: float) -> npt.NDArray[np.bool_]:
    """Return where two arrays are equal within a tolerance; NaN equals NaN."""
    with np.errstate(all="ignore"):
        near: npt.NDArray[np.bool_] = one == other
        if tolerance:
            near |= np.abs(one - other) <= tolerance
        if not near.all():
            near |= np.isnan(one) & np.isnan(other)
    return near


@dataclass(slots=True)
class Evidence:
    """Elements of a buffer beside those that a rearrangement puts there.

    Attributes:
        common: The golden tensor's most common value; both sides holding it tell nothing.
        tolerance: Largest difference that counts as equal.
        count: Elements that the rearrangement says something of.
        equal: Of these, equal within the tolerance.
        exact: Equal to the last bit.
        telling: Those that tell something.
        right: Of these, equal.
        already: Telling ones that are in place as they are read.
        gained: Right ones that are not in place as they are read.
        rest: Elements it says nothing of (padding).
        blank: Whether all of these hold one value.
    """

    common: float
    tolerance: float
    count: int = 0
    equal: int = 0
    exact: int = 0
    telling: int = 0
    right: int = 0
    already: int = 0
    gained: int = 0
    rest: int = 0
    blank: bool = True
    _fill: float | None = None

    def add(self, got: Narrow, golden: Narrow, was: npt.NDArray[np.bool_]) -> None:
        """Take in a piece.

        Args:
            got: The buffer's elements.
            golden: What the rearrangement puts there.
            was: Whether they are in place as the buffer is read.
        """
        near = close(got, golden, self.tolerance)
        tell = self._differs(got) | self._differs(golden)
        good = near & tell
        self.count += got.size
        self.equal += int(np.count_nonzero(near))
        exact = near if not self.tolerance else close(got, golden, 0.0)
        self.exact += int(np.count_nonzero(exact))
        self.telling += int(np.count_nonzero(tell))
        self.right += int(np.count_nonzero(good))
        self.already += int(np.count_nonzero(was & tell))
        self.gained += int(np.count_nonzero(good & ~was))

    def add_rest(self, got: Narrow) -> None:
        """Take in elements that the rearrangement says nothing of."""
        if not got.size:
            return
        self.rest += got.size
        if self._fill is None:
            self._fill = float(got[0])
        self.blank = self.blank and bool((got == self._fill).all())

    def convinces(self, chance: float) -> bool:
        """Tell whether chance, or the buffer being in order, is no better explanation.

        Args:
            chance: Probability that two of the golden values are equal.
        """
        # Where the data were in place before, the rearrangement merely leaves out what
        # is wrong: a dead channel taken for padding.
        if not self.telling or self.already >= IN_PLACE * self.telling:
            return False
        if self.share < AFTER or self.told < AFTER:
            return False
        if self.count < _HELD * (self.count + self.rest) and not self.blank:
            return False
        return -log2(max(chance, 1e-9)) * self.gained >= _BITS

    def _differs(self, values: Narrow) -> npt.NDArray[np.bool_]:
        result: npt.NDArray[np.bool_] = (
            ~np.isnan(values) if isnan(self.common) else values != self.common
        )
        return result

    @property
    def share(self) -> float:
        """Fraction of all elements that are equal."""
        return self.equal / self.count if self.count else 0.0

    @property
    def told(self) -> float:
        """Fraction of the telling elements that are equal."""
        return self.right / self.telling if self.telling else 0.0

    @property
    def covered(self) -> float:
        """Fraction of the whole buffer that is explained."""
        return self.equal / max(self.count + self.rest, 1)


def chance_of(values: npt.NDArray[np.float64], tolerance: float) -> float:
    """Return the probability that two of the values are equal within a tolerance."""
    ordered = np.sort(values)
    above = np.searchsorted(ordered, ordered + tolerance, side="right")
    below = np.searchsorted(ordered, ordered - tolerance, side="left")
    count = len(ordered)
    return float(((above - below - 1).sum() + 1) / (count * max(count - 1, 1)))


def same_values(got: Array, golden: Array, piece: int) -> bool | None:
    """Tell whether both (of one axis) hold the same bit patterns, whatever their order.

    None where sizes or types differ.
    """
    width = got.dtype.itemsize
    if got.size != golden.size or got.dtype != golden.dtype or width > 8:
        return None
    sums = []
    for flat in (got, golden):
        bits = np.ascontiguousarray(flat).view(f"u{width}")
        total = 0
        for first in range(0, flat.size, piece):
            mixed = bits[first : first + piece].astype(np.uint64)
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
            total += int(mixed.sum(dtype=np.uint64))
        sums.append(total & (1 << 64) - 1)
    return sums[0] == sums[1]
