"""Delta debugging: the fewest items with which a property still holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(items: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a sub-sequence with which ``holds`` is true and from which nothing can be left out.

    Neighbours are left out together: first halves of the sequence, then quarters,
    down to single items.  For n items of which k matter this takes about
    ``2 k log2(n / k)`` trials, and every trial depends on the earlier ones' results
    alone: a run that is repeated asks the same questions in the same order.

    Args:
        items: The property holds with all of them.
        holds: The property; never asked of nothing.
    """
    kept = list(items)
    size = max(len(kept) // 2, 1)
    while len(kept) > 1:
        left_out = False
        at = 0
        while at < len(kept) and len(kept) > 1:
            rest = kept[:at] + kept[at + size :]
            if rest and holds(rest):
                kept, left_out = rest, True
            else:
                at += size
        if size > 1:
            size = max(min(size, len(kept)) // 2, 1)
        elif not left_out:
            break
    return kept
