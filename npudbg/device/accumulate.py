"""Sums in a register of fp16: what a matrix or vector unit without a wide accumulator does.

Products of fp16 operands are exact in fp32 (22 of 24 bits).  ``block`` of them are added in
fp32, as an adder tree does; the block's sum is added to the register and the result rounded
to fp16.  With ``block`` 1 that is one rounding a term: 1 + 1 + ... stops at 2048, the first
integer whose neighbour fp16 cannot hold (11 significant bits, IEEE 754-2019 table 3.5), and
a running sum past 65504 is lost even where the terms after it would bring it back.

All outputs advance together, one term at a time, in pieces that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device.rounding import Mode, narrowed

Array = npt.NDArray[Any]
F16 = np.dtype(np.float16)
LARGEST = np.float32(65504.0)
TINY = np.float32(2.0**-14)
"""Smallest normal fp16 value."""

PIECE = 1 << 16
"""Sums that advance together: 64 Ki of them are 256 KiB of fp32."""


@dataclass(frozen=True, slots=True)
class Register:
    """How an accumulator rounds.

    Attributes:
        block: Terms added in fp32 before the register takes them.
        saturate: Overflow gives 65504 instead of infinity.
        flush: Subnormal sums become zero.
        rounding: Where a sum between two fp16 values goes.
    """

    block: int = 1
    saturate: bool = False
    flush: bool = False
    rounding: Mode = "half-even"

    def put(self, total: Array) -> None:
        """Round fp32 sums to what the register holds, in place."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.saturate:
                np.clip(total, -LARGEST, LARGEST, out=total)
            total[...] = narrowed(total, F16, self.rounding)
            if self.flush:
                total[np.abs(total) < TINY] = 0


Term = Callable[[Array], None]
"""Writes one fp32 term of every sum into the array it is given."""


def running(shape: tuple[int, ...], terms: Iterable[Term], register: Register) -> Array:
    """Return sums as the register holds them after the last term.

    Args:
        shape: Of the sums.
        terms: One callable for each place along the summed axis, in order.
        register: How sums are rounded.

    Returns:
        float32 values that fp16 can hold.
    """
    total = np.zeros(shape, np.float32)
    term = np.empty(shape, np.float32)
    group = total if register.block == 1 else np.zeros(shape, np.float32)
    held = 0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for write in terms:
            write(term)
            group += term
            held += 1
            if held == register.block:
                held = 0
                if group is not total:
                    total += group
                    group[...] = 0
                register.put(total)
        if held:
            total += group
            register.put(total)
    return total


@dataclass(frozen=True, slots=True)
class Trace:
    """One sum, term by term.

    Attributes:
        length: Number of terms (K).
        exact: Their sum in fp64.
        reached: What the register ends with.
        peak: Largest magnitude of the exact running sum.
        overflow: First term (from 0) after which the register overflowed, or -1.
        last: Last term that changed the register, or -1.
        lost: Terms other than zero that left it as it was; whole blocks of them.
        lost_sum: Their sum in fp64.
    """

    length: int
    exact: float
    reached: float
    peak: float
    overflow: int
    last: int
    lost: int
    lost_sum: float


def trace(terms: Array, register: Register) -> Trace:
    """Follow one sum.

    Args:
        terms: The fp32 terms in order, one axis.
        register: How sums are rounded.
    """
    terms = terms.astype(np.float32, copy=False).reshape(-1)
    exact = np.cumsum(terms, dtype=np.float64)
    total = np.zeros(1, np.float32)
    overflow = last = -1
    lost, lost_sum = 0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for low in range(0, len(terms), register.block):
            part = terms[low : low + register.block]
            before = total.copy()
            # Added one by one, as the sums above do, for the same last bit.
            group = np.float32(0.0)
            for each in part:
                group = np.float32(group + each)
            total += group
            wide = abs(float(total[0]))
            register.put(total)
            if overflow < 0 and not (wide <= LARGEST and np.isfinite(total[0])):
                overflow = low + len(part) - 1
            if total[0] != before[0]:
                last = low + len(part) - 1
            elif group:
                lost += int(np.count_nonzero(part))
                lost_sum += float(group)
    return Trace(
        len(terms),
        float(exact[-1]) if len(exact) else 0.0,
        float(total[0]),
        float(np.abs(exact).max(initial=0.0)),
        overflow,
        last,
        lost,
        lost_sum,
    )
