"""Which element of the golden tensor stands at a position of a rearranged buffer.

It is computed for the positions asked only, so that trying hundreds of
rearrangements on a few hundred probes costs little; for all positions it is added up
from tables of the inner axes, which is several times faster than dividing each
position by the shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Valid = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One rearrangement.

    Attributes:
        kind: Name of :class:`~npudbg.layers.compare.records.LayoutMatch`.
        text: What the buffer is, for people.
        shape: Shape of the buffer.
        steps: For each axis of the buffer, golden elements a step, or the golden
            element offset of every index.
        start: Golden element at position 0.
        bounds: ``(weights, bound)``: positions where the weighted sum of the
            coordinates reaches the bound are padding.
        permutation: Golden axes in buffer order.
        axis: Golden axis that is padded, packed or reversed.
        pitch: Elements of the padded axis.
        block: C2.
        shift: Elements by which the data stand late.
    """

    kind: str
    text: str
    shape: tuple[int, ...]
    steps: tuple[int | Positions, ...]
    start: int = 0
    bounds: tuple[tuple[tuple[int, ...], int], ...] = ()
    permutation: tuple[int, ...] = ()
    axis: int | None = None
    pitch: int | None = None
    block: int | None = None
    shift: int | None = field(default=None)

    def source(self, positions: Positions, size: int) -> Positions:
        """Return the golden element at each position, -1 for padding and beyond the end."""
        index = np.full(positions.shape, self.start, np.int64)
        sums = [np.zeros(positions.shape, np.int64) for _ in self.bounds]
        rest = positions
        for axis in range(len(self.shape) - 1, -1, -1):
            rest, at = np.divmod(rest, self.shape[axis])
            step = self.steps[axis]
            index += step * at if isinstance(step, int) else step[at]
            for total, (weights, _) in zip(sums, self.bounds, strict=True):
                if weights[axis]:
                    total += weights[axis] * at
        valid = (rest == 0) & (index >= 0) & (index < size)
        for total, (_, bound) in zip(sums, self.bounds, strict=True):
            valid &= total < bound
        return np.where(valid, index, -1)

    def pieces(self, size: int, limit: int) -> Iterator[tuple[int, Positions, Valid]]:
        """Give all positions of the buffer in order, a piece at a time.

        Args:
            size: Elements of the golden tensor.
            limit: Most elements of a piece.

        Yields:
            The first position of the piece; for each of its positions the golden
            element, and whether there is one.
        """
        inner, axis = 1, len(self.shape)
        while axis > 0 and inner * self.shape[axis - 1] <= limit:
            axis -= 1
            inner *= self.shape[axis]
        table = self._table({a: (0, self.shape[a]) for a in range(axis, len(self.shape))})
        outer = self.shape[: max(axis - 1, 0)]
        count = self.shape[axis - 1] if axis else 1
        chunk = max(1, limit // max(inner, 1))
        first = 0
        for at in np.ndindex(outer):
            base = self._corner(at)
            for begin in range(0, count, chunk):
                end = min(begin + chunk, count)
                own = self._table({axis - 1: (begin, end)} if axis else {})
                index, *sums = (
                    (one[:, None] + other[None, :] + corner).reshape(-1)
                    for one, other, corner in zip(own, table, base, strict=True)
                )
                valid = (index >= 0) & (index < size)
                for total, (_, bound) in zip(sums, self.bounds, strict=True):
                    valid &= total < bound
                yield first, index, valid
                first += index.size

    def _table(self, ranges: dict[int, tuple[int, int]]) -> list[Positions]:
        """Return golden offsets, and each bound's sums, over ranges of axes in C order."""
        parts = [np.zeros(1, np.int64) for _ in range(1 + len(self.bounds))]
        for axis, (begin, end) in ranges.items():
            at = np.arange(begin, end, dtype=np.int64)
            step = self.steps[axis]
            offsets = step * at if isinstance(step, int) else step[at]
            mine = [offsets, *(weights[axis] * at for weights, _ in self.bounds)]
            parts = [
                (p[:, None] + m[None, :]).reshape(-1) for p, m in zip(parts, mine, strict=True)
            ]
        return parts

    def _corner(self, at: Sequence[int]) -> list[int]:
        """Return the golden element, and each bound's sum, at some outer indices."""
        found = [self.start, *(0 for _ in self.bounds)]
        for axis, n in enumerate(at):
            step = self.steps[axis]
            found[0] += step * n if isinstance(step, int) else int(step[n])
            for number, (weights, _) in enumerate(self.bounds, 1):
                found[number] += weights[axis] * n
        return found


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return elements a step of each axis, in C order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
