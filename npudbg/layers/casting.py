"""What a cast would do to these very values: nothing, round them, or destroy them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from npudbg.layers.words import is_float, number, sample, span
from npudbg.session.dtypes import numpy_dtype

Effect = Literal["exact", "rounds", "destroys"]
_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast's effect, in a word, a clause, and numbers."""

    effect: Effect
    text: str
    evidence: dict[str, Any]


def cast_of(array: npt.NDArray[Any], to: str) -> Cast:
    """Try a cast on an array's values.

    Args:
        array: Numbers (at most a million are tried, evenly spaced).
        to: Record name of the type.

    Raises:
        TypeError: ``to`` is no plain element type.
    """
    target = numpy_dtype(to)
    values = sample(array, _LIMIT)
    with np.errstate(all="ignore"):
        after = values.astype(target)
        wide, back = _wide(values), _wide(after)
        same = (wide == back) | (np.isnan(wide) & np.isnan(back))
    changed = int(values.size - np.count_nonzero(same))
    before_count, after_count = len(np.unique(sample(wide))), len(np.unique(sample(back)))
    evidence: dict[str, Any] = {
        "changed": changed,
        "tried": int(values.size),
        "distinct_before": before_count,
        "distinct_after": after_count,
    }
    if not changed:
        return Cast("exact", "a cast keeps every value", evidence)
    outside = _outside(wide, target)
    finite = wide[np.isfinite(wide)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    evidence |= {"min": low, "max": high}
    if outside:
        evidence["outside"] = outside
        return Cast(
            "destroys",
            f"a cast destroys them: {outside} of {values.size} lie outside {target.name} "
            f"(values {span(low, high)})",
            evidence,
        )
    if after_count <= before_count // 4 or (after_count == 1 and before_count > 1):
        return Cast(
            "destroys",
            f"a cast destroys them: {before_count} distinct values ({span(low, high)}) become "
            f"{after_count}",
            evidence,
        )
    off = ~same & np.isfinite(wide) & np.isfinite(back)
    largest = float(np.abs(wide[off] - back[off]).max()) if off.any() else 0.0
    evidence["largest_change"] = largest
    if is_float(after):
        text = f"a cast is safe for these values (largest change {number(largest)})"
    else:
        text = f"a cast rounds {changed} of {values.size} values (largest change {number(largest)})"
    return Cast("rounds", text, evidence)


def _wide(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.abs(values) if values.dtype.kind == "c" else values.astype(np.float64)


def _outside(wide: npt.NDArray[Any], target: np.dtype[Any]) -> int:
    """Count finite values that the type cannot hold, and non-finite ones in an integer type."""
    if target.kind == "b":
        return 0
    if target.kind in "iu":
        info: Any = np.iinfo(target)
        low, high = float(info.min) - 1, float(info.max) + 1
        inside = (wide > low) & (wide < high)
        return int(wide.size - np.count_nonzero(inside))
    if target.kind == "c":
        return 0
    if target.kind == "f":
        top = float(np.finfo(target).max)
    else:
        import ml_dtypes

        limits: Any = ml_dtypes
        try:
            top = float(limits.finfo(target).max)
        except ValueError:
            integer = limits.iinfo(target)
            return int(np.count_nonzero((wide < integer.min) | (wide > integer.max)))
    return int(np.count_nonzero(np.isfinite(wide) & (np.abs(wide) > top)))
