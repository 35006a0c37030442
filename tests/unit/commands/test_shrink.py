"""Delta debugging: nothing needed is lost, nothing else stays, and with few trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from npudbg.commands.reducing.shrink import shrink


@given(st.integers(1, 200), st.data())
def test_a_set_of_needed_items_is_found_exactly(n: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=8))
    trials = 0

    def holds(items: Sequence[int]) -> bool:
        nonlocal trials
        trials += 1
        assert list(items) == sorted(items)
        return needed <= set(items)

    assert shrink(range(n), holds) == sorted(needed)
    assert trials <= 4 * len(needed) * (math.log2(n) + 2) + 4


@given(st.integers(2, 60), st.integers(1, 9))
def test_nothing_can_be_left_out_of_the_result(n: int, modulus: int) -> None:
    def holds(items: Sequence[int]) -> bool:  # far from monotone
        return sum(items) % modulus == sum(range(n)) % modulus

    kept = shrink(range(n), holds)
    assert holds(kept)
    for i in range(len(kept)):
        rest = kept[:i] + kept[i + 1 :]
        assert not rest or not holds(rest)
