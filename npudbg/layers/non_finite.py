"""NaN and Inf of a tensor: how many, and where the first one is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.records import Stats


def first_bad(array: npt.NDArray[Any]) -> list[int]:
    """Return the coordinates of the first element that is not finite; none if all are."""
    wide = array if array.dtype.kind in "fc" else array.astype(np.float32)
    bad = ~np.isfinite(wide)
    if not bad.any():
        return []
    return [int(i) for i in np.unravel_index(int(bad.argmax()), array.shape)]


def counts(s: Stats) -> str:
    """Return how many NaN, +Inf and -Inf a scan has seen, in words."""
    parts = [
        f"{n} {name}" for n, name in ((s.nan, "NaN"), (s.pos_inf, "+Inf"), (s.neg_inf, "-Inf")) if n
    ]
    return ", ".join(parts)
