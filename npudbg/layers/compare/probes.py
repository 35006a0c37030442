"""A few hundred positions of a buffer that tell one rearrangement from another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.evidence import chance_of, close
from npudbg.layers.compare.pairs import Array, Wide, wide
from npudbg.layers.compare.sources import Candidate, Positions

LEVELS = (0.0, 0.02, 0.2)
"""Tolerances tried, in deviations of the golden values: exact, rounded, noisy."""

FEWEST = 8
_PROBES = 512
_SAMPLE = 1 << 14
_BLANKS = 128
_STRIDE = 8
_PLAUSIBLE = 0.6
"""Fraction of every eighth probe that must be right within the loosest tolerance."""

_LOOKED_UP = 1 << 20


@dataclass(slots=True)
class Probes:
    """Positions of a buffer whose values are not the most common one.

    Attributes:
        golden: The golden elements in C order.
        at: Positions in the buffer: those that tell something, then some that do not.
        values: What the buffer holds there.
        telling: How many of them tell something.
        common: The golden tensor's most common value.
        spread: Deviation of the golden values that differ from it.
        chance: Probability that two of these are equal, for each of :data:`LEVELS`.
    """

    golden: Array
    at: Positions
    values: Wide
    telling: int
    common: float
    spread: float
    chance: tuple[float, ...]

    @classmethod
    def of(cls, got: Array, golden: Array) -> Probes | None:
        """Choose; None where too few elements differ from the most common value.

        Args:
            got: The buffer, of one axis.
            golden: The golden elements, of one axis.
        """
        rng = np.random.default_rng(0)
        where = _sampled(rng, got.size)
        values = wide(got[where])
        expected = wide(golden[_sampled(rng, golden.size)])
        levels, counts = np.unique(expected, return_counts=True)
        common = float(levels[counts.argmax()])
        telling = expected[np.isfinite(expected) & (expected != common)]
        usual = close(values, np.full(1, common), 0.0)
        keep = np.flatnonzero(~usual)
        if len(keep) < FEWEST or len(telling) < 2:
            return None
        keep = np.sort(rng.permutation(keep)[:_PROBES])
        # Padding holds the usual value: only there does a padded buffer differ from one
        # whose gaps are filled.
        blank = np.sort(rng.permutation(np.flatnonzero(usual))[:_BLANKS])
        chosen = np.concatenate([keep, blank])
        quarter = np.percentile(telling, [25, 75])
        spread = float(quarter[1] - quarter[0]) / 1.349 or float(telling.std())
        return cls(
            golden=golden,
            at=where[chosen],
            values=values[chosen],
            telling=len(keep),
            common=common,
            spread=spread,
            chance=tuple(chance_of(telling, share * spread) for share in LEVELS),
        )

    def in_place(self, tolerance: float) -> float:
        """Return the fraction in place as the buffer is read."""
        at = self.at[: self.telling]
        inside = at < self.golden.size
        if not inside.any():
            return 0.0
        expected = wide(self.golden[at[inside]])
        return float(close(self.values[: self.telling][inside], expected, tolerance).mean())

    def occur(self, least: float) -> bool:
        """Tell whether a fraction of them occurs anywhere in the golden tensor, to the last bit.

        If not, no rearrangement is exact.  Not looked up in a very large tensor.
        """
        if self.golden.size > _LOOKED_UP:
            return True
        return bool(np.isin(self.values[: self.telling], wide(self.golden)).mean() >= least)

    def plausible(self, tried: Iterable[Candidate]) -> Iterator[tuple[Candidate, Positions]]:
        """Give the candidates that a few probes do not refute, with the source of every probe."""
        part = slice(0, self.telling, _STRIDE)
        few, values = self.at[part], self.values[part]
        loosest = max(LEVELS) * self.spread
        for candidate in tried:
            source = candidate.source(few, self.golden.size)
            score = self._score(values, source, loosest)
            if score is None or score >= _PLAUSIBLE:
                yield candidate, candidate.source(self.at, self.golden.size)

    def score(self, source: Positions, tolerance: float) -> float | None:
        """Return the fraction that hold their source; None if too few have one.

        Of those that tell something; the others can only speak against it.
        """
        told = self._score(self.values[: self.telling], source[: self.telling], tolerance)
        blank = self._score(self.values[self.telling :], source[self.telling :], tolerance)
        return told if told is None or blank is None or blank >= _PLAUSIBLE else blank

    def as_read(self) -> Positions:
        """Return the source of every probe as the buffer is read."""
        return np.where(self.at < self.golden.size, self.at, -1)

    def _score(self, values: Wide, source: Positions, tolerance: float) -> float | None:
        valid = source >= 0
        if np.count_nonzero(valid) < FEWEST:
            return None
        expected = wide(self.golden[source[valid]])
        return float(close(values[valid], expected, tolerance).mean())


def _sampled(rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
    """Return positions in order: all, or some thousand at random."""
    if size <= _SAMPLE:
        return np.arange(size, dtype=np.int64)
    return np.unique(rng.integers(0, size, _SAMPLE, dtype=np.int64))
