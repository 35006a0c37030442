"""A part of a tensor as it was at a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.debugger.expressions.values import scalar

_SHOWN = 4
"""Values that are shown where there are many."""


@dataclass(frozen=True)
class Part:
    """The watched elements as they were, and which had been made."""

    array: npt.NDArray[Any]
    known: npt.NDArray[np.bool_]

    def differs(self, other: Part) -> npt.NDArray[np.bool_]:
        """Return, flat, which elements have other bytes or became known."""
        size = max(self.array.dtype.itemsize, 1)
        old, new = (
            np.ascontiguousarray(p.array).reshape(-1).view(np.uint8).reshape(-1, size)
            for p in (self, other)
        )
        found: npt.NDArray[np.bool_] = (old != new).any(axis=1)
        found |= (self.known != other.known).reshape(-1)
        return found

    def text(self, at: int) -> str:
        """Return one element's value."""
        if not self.known.reshape(-1)[at]:
            return "not written"
        value = scalar(self.array.reshape(-1)[at])
        return f"{value:.9g}" if isinstance(value, float) else str(value)


def first_values(part: Part) -> str:
    """Return the first elements' values."""
    shown = [part.text(at) for at in range(min(_SHOWN, part.array.size))]
    more = f", … ({part.array.size:,} elements)" if part.array.size > _SHOWN else ""
    return ", ".join(shown) + more
