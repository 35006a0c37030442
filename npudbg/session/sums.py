"""Sums that a narrow accumulator got wrong, as a session keeps them."""

from __future__ import annotations

from typing import Literal

import msgspec

from npudbg.session.errors import SessionError
from npudbg.session.reader import Session
from npudbg.session.records import Record

KEY = "accumulators"
"""Key of the session's extra value that holds a list of :class:`WrongSum`."""


class WrongSum(Record, frozen=True):
    """The worst sum of a node whose accumulator went wrong.

    Attributes:
        node: Index of the node.
        tensor: Name of its output.
        kind: ``overflow`` (the running sum passed 65504, the result does not) or ``stall``
            (terms were too small to change it).
        at: Coordinates of the sum in the output.
        terms: Number of terms (K).
        exact: Their sum in fp64.
        reached: What the accumulator ended with; None where that is not a finite number.
        peak: Largest magnitude of the exact running sum.
        term: overflow: the term, from 0, after which it overflowed; stall: the last one that
            changed the sum.
        absorbed: Terms other than zero that left the sum as it was.
        outputs: Elements of the output that are as wrong.
        elements: Elements of the output.
        block: Terms that are added before the accumulator takes them.
    """

    node: int
    tensor: str
    kind: Literal["overflow", "stall"]
    at: tuple[int, ...]
    terms: int
    exact: float
    reached: float | None
    peak: float
    term: int
    absorbed: int
    outputs: int
    elements: int
    block: int = 1


def read(session: Session) -> tuple[WrongSum, ...]:
    """Return the wrong sums of a run, in the order of its nodes.

    Raises:
        SessionError: What the session says of them is damaged.
    """
    try:
        return msgspec.convert(session.extra(KEY) or (), tuple[WrongSum, ...])
    except (msgspec.ValidationError, RecursionError) as error:
        raise SessionError(f"{session.path}: its record of sums is damaged ({error})") from None
