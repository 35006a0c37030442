"""Arithmetic on shape and strides alone: ranges, overlap, permutation, misplaced elements.

No array is touched here, so the same functions serve a live array and a record
of one.  Strides are in bytes, as NumPy's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

_OVERLAP_LIMIT = 1 << 22
"""Most elements that the exact overlap test enumerates (32 MB of offsets)."""

_COUNT_LIMIT = 1 << 25
"""Most distinct offsets that :func:`misplaced` keeps before it gives up."""


def c_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of a packed C-order array."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def byte_range(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Return the first and one past the last byte touched, relative to element 0.

    A zero-size array touches nothing: ``(0, 0)``.
    """
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize


def overlaps(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool | None:
    """Tell whether two elements share a byte (stride 0, a sliding window, …).

    Returns:
        True or False, or None where deciding it would enumerate more than four
        million offsets (only contrived strides get there).
    """
    size = prod(shape)
    if size <= 1 or itemsize == 0:
        return False
    axes = sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1)
    if axes[0][0] == 0:
        return True
    low, high = byte_range(shape, strides, itemsize)
    if size * itemsize > high - low:
        return True  # more bytes than places for them
    # From below: axes that only repeat a dense block make one larger block.
    block = itemsize
    while axes and axes[0][0] == block:
        block *= axes.pop(0)[1]
    # From above: an axis that steps over all the rest cannot make elements meet.
    while axes and axes[-1][0] >= block + sum(s * (n - 1) for s, n in axes[:-1]):
        axes.pop()
    if not axes:
        return False
    if prod(n for _, n in axes) > _OVERLAP_LIMIT:
        return None
    offsets = np.zeros(1, np.int64)
    for stride, extent in axes:
        offsets = (offsets[:, None] + np.arange(extent, dtype=np.int64) * stride).ravel()
    offsets.sort()
    return bool((np.diff(offsets) < block).any())


def permutation(
    shape: Sequence[int], strides: Sequence[int], itemsize: int
) -> tuple[int, ...] | None:
    """Return the axes for ``transpose`` that make the array C-contiguous, or None.

    The identity where it already is (axes of one element and zero-size arrays
    never count against it, as in NumPy).
    """
    identity = tuple(range(len(shape)))
    if 0 in shape or is_c_order(shape, strides, itemsize):
        return identity
    # Axes of one element, whose stride means nothing, keep their place.
    places = [axis for axis in identity if shape[axis] > 1]
    by_stride = iter(sorted(places, key=lambda axis: -strides[axis]))
    order = tuple(next(by_stride) if shape[a] > 1 else a for a in identity)
    moved = [shape[a] for a in order], [strides[a] for a in order]
    return order if is_c_order(moved[0], moved[1], itemsize) else None


def is_c_order(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Tell whether the elements lie packed in C order."""
    if 0 in shape:
        return True
    packed = c_strides(shape, itemsize)
    return all(n == 1 or s == p for n, s, p in zip(shape, strides, packed, strict=True))


def misplaced(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Count the elements that a raw copy from element 0 takes from a wrong place.

    A driver that copies ``nbytes`` from the address of element 0 puts byte
    ``offset`` where C order wants it.  Element ``i`` comes out right by position
    when its own offset ``sum(i * stride)`` equals its C-order offset.

    Returns:
        ``(wrong, total)``: exact, without enumerating the elements (the longest
        axis is solved for, the others are counted by distinct offset).
    """
    total = prod(shape)
    if total == 0:
        return 0, 0
    packed = c_strides(shape, itemsize)
    steps = [(n, s - p) for n, s, p in zip(shape, strides, packed, strict=True) if n > 1]
    free = prod(n for n, step in steps if step == 0)
    steps = sorted((n, step) for n, step in steps if step != 0)
    if not steps:
        return 0, total
    extent, step = steps.pop()
    values = np.zeros(1, np.int64)
    counts = np.ones(1, np.int64)
    for n, d in steps:
        if len(values) * n > _COUNT_LIMIT:
            raise MemoryError("too many distinct offsets to count the misplaced elements")
        every = (values[:, None] + np.arange(n, dtype=np.int64) * d).ravel()
        weight = np.repeat(counts, n)
        values, inverse = np.unique(every, return_inverse=True)
        # Integer sums: bincount's weights would go through float64.
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, inverse.ravel(), weight)
    # values + i * step == 0 for exactly one i, if it is whole and within the axis.
    index, rest = np.divmod(-values, step)
    right = int(counts[(rest == 0) & (index >= 0) & (index < extent)].sum()) * free
    return total - right, total
