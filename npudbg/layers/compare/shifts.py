"""By how much a buffer's data stand too late or too early."""

from __future__ import annotations

from collections import Counter

import numpy as np

from npudbg.layers.compare.pairs import Array, wide

_WINDOW = 32
_ANCHORS = 6
_LENGTH = 8
_MOST = 1 << 22


def byte_shifts(got: bytes | memoryview, golden: bytes | memoryview) -> list[int]:
    """Return shifts in bytes (not 0) that more than one window of the golden bytes agrees on."""
    where = bytes(got)
    votes: Counter[int] = Counter()
    for anchor in _anchors(len(golden), _WINDOW):
        window = bytes(golden[anchor : anchor + _WINDOW])
        if len(set(window)) < _LENGTH:
            continue
        at = where.find(window)
        if at >= 0:
            votes[at - anchor] += 1
    return [shift for shift, count in votes.most_common(3) if count > 1 and shift]


def element_shifts(got: Array, golden: Array, tolerance: float) -> list[int]:
    """Return shifts in elements (not 0) at which windows match within a tolerance.

    Args:
        got: One axis.
        golden: One axis.
        tolerance: Largest difference that counts as equal.
    """
    if got.size > _MOST or not got.size:
        return []
    values = wide(got)
    votes: Counter[int] = Counter()
    for anchor in _anchors(golden.size, _LENGTH):
        window = wide(golden[anchor : anchor + _LENGTH])
        if len(np.unique(window)) < _LENGTH // 2 or not np.isfinite(window).all():
            continue
        at = np.arange(max(values.size - _LENGTH + 1, 0))
        for n, value in enumerate(window):
            at = at[np.abs(values[at + n] - value) <= tolerance]
        votes.update(int(n) - anchor for n in at[:64])
    return [shift for shift, count in votes.most_common(4) if count > 1 and shift]


def _anchors(size: int, length: int) -> list[int]:
    last = size - length
    if last < 0:
        return []
    return sorted({last * n // (_ANCHORS + 1) for n in range(1, _ANCHORS + 1)})
