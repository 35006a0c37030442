"""Rounding to a 16-bit float: to nearest even, to nearest away from zero, towards zero.

IEEE 754-2019, 4.3: *half-even* is roundTiesToEven, *half-away* roundTiesToAway,
*toward-zero* roundTowardZero, which gives the largest finite value where the others
overflow to infinity.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Mode = Literal["half-even", "half-away", "toward-zero"]


def narrowed(array: Array, goal: np.dtype[Any], mode: Mode = "half-even") -> Array:
    """Return real values as a 16-bit float type.

    Args:
        array: float32 or float64 values, any shape.
        goal: float16 or bfloat16.
        mode: Where a value between two of the type goes.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        near = array.astype(goal)
        if mode == "half-even" or goal.itemsize != 2 or array.dtype.itemsize < 4:
            return near
        back = np.abs(near.astype(np.float64))
        exact = np.abs(array.astype(np.float64))
        # The bits of a magnitude count up value by value, infinity next to the largest.
        bits = np.atleast_1d(near).view(np.uint16).reshape(near.shape).copy()
        if mode == "toward-zero":
            bits -= ((back > exact) & np.isfinite(exact)).astype(np.uint16)
        else:
            above = (bits + np.uint16(1)).view(goal).astype(np.float64)
            tie = (back < exact) & (exact - back == np.abs(above) - exact)
            bits += tie.astype(np.uint16)
    rounded: Array = bits.view(goal).reshape(near.shape)
    return rounded
