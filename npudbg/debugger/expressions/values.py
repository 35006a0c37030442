"""What expressions work on: numbers, text, words with several names, arrays with holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npudbg.debugger.errors import AbsentError, DebuggerError

MOST_ELEMENTS = 1 << 26
"""Largest array that an expression touches."""


@dataclass(frozen=True)
class Word:
    """A thing with a name, a number and other names: ``node == "conv1"``, ``node == 12``.

    Attributes:
        text: How it is shown.
        number: Its number, if it has one.
        names: All names it answers to, in lower case.
    """

    text: str
    number: int | None = None
    names: frozenset[str] = frozenset()

    def same(self, other: Value) -> bool:
        """Whether ``other`` names this."""
        if isinstance(other, Word):
            return self == other
        if isinstance(other, str):
            return other == self.text or other.lower() in self.names
        return isinstance(other, (int, float)) and self.number == other


@dataclass(frozen=True, eq=False)
class ArrayValue:
    """An array, and which of its elements had been made (None: all).

    Attributes:
        array: The values.
        known: Which elements count.
        name: What it is called, for errors.
    """

    array: npt.NDArray[Any]
    known: npt.NDArray[np.bool_] | None = None
    name: str = ""

    def flat(self) -> npt.NDArray[Any]:
        """Return the elements that count, as numbers NumPy can work with.

        Raises:
            AbsentError: None has been made yet.
        """
        held = self.numeric()
        part = held.reshape(-1) if self.known is None else held[self.known]
        if not part.size:
            raise AbsentError(f"no element of {self.name or 'it'} has been written yet")
        return part

    def numeric(self) -> npt.NDArray[Any]:
        """Return the array in a type that NumPy calculates in without loss or overflow."""
        if self.array.size > MOST_ELEMENTS:
            raise DebuggerError(
                f"{self.array.size:,} elements; an expression touches at most "
                f"{MOST_ELEMENTS:,}: take a part, as in {self.name or 'x'}[0]"
            )
        kind = self.array.dtype.kind
        if kind == "V":
            return self.array.astype(np.float64)
        if kind == "f" and self.array.dtype.itemsize < 8:
            return self.array.astype(np.float64)
        if kind in "iu":
            small = self.array.dtype.itemsize < 8
            return self.array.astype(np.int64) if small else self.array
        return self.array


Value: TypeAlias = "bool | int | float | complex | str | tuple[int, ...] | Word | ArrayValue"
"""What a name, a part or a whole expression gives."""


def scalar(element: Any) -> bool | int | float | complex:
    """Return a NumPy element as Python's number."""
    if isinstance(element, np.generic) and element.dtype.kind == "V":
        return float(element)
    held = element.item() if isinstance(element, np.generic) else element
    if isinstance(held, (bool, int, float, complex)):
        return held
    return float(held)


def truth(value: Value) -> bool:
    """Return whether a value counts as true.

    Raises:
        DebuggerError: An array, of which that cannot be said.
    """
    if isinstance(value, ArrayValue):
        if value.array.size != 1:
            raise DebuggerError(
                "an array is neither true nor false; write any(…), all(…) or count(…) > 0"
            )
        return bool(scalar(value.flat()[0]))
    if isinstance(value, Word):
        return bool(value.text)
    return bool(value)
