"""By how much a buffer's data stand too late or too early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from npudbg.layers.compare.evidence import narrow
from npudbg.layers.compare.pairs import Array
from npudbg.layers.compare.sources import Candidate

_WINDOW = 32
_ANCHORS = 6
_LENGTH = 8
_REACH = 1 << 19
"""Elements within which a window is looked for: whole batch entries may be further off."""

_ENTRIES = 4


def shifted(
    got: Array, golden: Array, shape: tuple[int, ...], shifts: list[int]
) -> Iterator[Candidate]:
    """Give the candidates of shifts by whole elements, and by whole batch entries.

    Args:
        got: The buffer, of one axis.
        golden: The golden elements, of one axis.
        shape: Shape of the golden tensor.
        shifts: In elements; positive where the data stand late.
    """
    size = golden.size
    batch = size // shape[0] if len(shape) > 1 and shape[0] > 1 else 0
    entries = range(1, min(shape[0], _ENTRIES + 1)) if batch else range(0)
    for shift in dict.fromkeys([*shifts, *(n * batch for n in entries)]):
        if abs(shift) > size * 3 // 4:
            continue
        late = batch > 0 and shift > 0 and shift % batch == 0
        count = shift // batch if late else 0
        nbytes = abs(shift) * golden.dtype.itemsize
        way = "late" if shift > 0 else "early"
        text = f"{way} by {abs(shift)} elements ({nbytes} bytes)"
        if late:
            text = f"{count} batch entr{'y' if count == 1 else 'ies'} late (axis 0)"
        yield Candidate(
            kind="batch-late" if late else "shifted",
            text=text,
            shape=(got.size,),
            steps=(1,),
            start=-shift,
            axis=0 if late else None,
            shift=shift,
        )


def byte_shifts(got: memoryview, golden: memoryview) -> list[int]:
    """Return shifts in bytes (not 0) that more than one window of the golden bytes agrees on."""
    votes: Counter[int] = Counter()
    for anchor in _anchors(len(golden), _WINDOW):
        window = bytes(golden[anchor : anchor + _WINDOW])
        if len(set(window)) < _LENGTH:
            continue
        begin = max(0, anchor - 4 * _REACH)
        at = bytes(got[begin : anchor + 4 * _REACH]).find(window)
        if at >= 0:
            votes[begin + at - anchor] += 1
    return [shift for shift, count in votes.most_common(3) if count > 1 and shift]


def element_shifts(got: Array, golden: Array, tolerance: float) -> list[int]:
    """Return shifts in elements (not 0) at which windows match within a tolerance.

    Args:
        got: One axis.
        golden: One axis.
        tolerance: Largest difference that counts as equal.
    """
    votes: Counter[int] = Counter()
    for anchor in _anchors(golden.size, _LENGTH):
        window = narrow(golden[anchor : anchor + _LENGTH], got)
        if len(np.unique(window)) < _LENGTH // 2 or not np.isfinite(window).all():
            continue
        begin = max(0, anchor - _REACH)
        values = narrow(got[begin : anchor + _REACH], golden)
        at = np.arange(max(values.size - _LENGTH + 1, 0))
        # The value that stands out leaves the fewest places to look at further.
        rare = np.argsort(-np.abs(window - np.median(window)), kind="stable")
        with np.errstate(all="ignore"):
            for n in rare:
                held = values[n : n + at.size] if n == rare[0] else values[at + n]
                at = at[np.abs(held - window[n]) <= tolerance]
        votes.update(begin + int(n) - anchor for n in at[:64])
    return [shift for shift, count in votes.most_common(4) if count > 1 and shift]


def _anchors(size: int, length: int) -> list[int]:
    last = size - length
    if last < 0:
        return []
    return sorted({last * n // (_ANCHORS + 1) for n in range(1, _ANCHORS + 1)})
