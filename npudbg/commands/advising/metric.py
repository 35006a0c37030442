"""When outputs are good: metrics against the fp32 run, all of which must hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    import numpy.typing as npt

_FORM = re.compile(r"(cosine|snr|max-abs)(>=|<=)([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)")
_SENSE = {"cosine": ">=", "snr": ">=", "max-abs": "<="}
EXAMPLE = "finite, cosine>=0.999, snr>=40 (dB) or max-abs<=0.01"


@dataclass(frozen=True, slots=True)
class Metric:
    """One demand, e.g. ``cosine>=0.999``; ``finite`` has no bound."""

    name: str
    bound: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}{_SENSE[self.name]}{self.bound:g}" if self.name in _SENSE else self.name

    def holds(self, value: float) -> bool:
        """Whether a measured value fulfils it."""
        return value <= self.bound if self.name == "max-abs" else value >= self.bound


def parse(specs: Iterable[str]) -> tuple[Metric, ...]:
    """Return the demands; ``finite`` is always one of them.

    Raises:
        UserError: A text is no demand.
    """
    found = [Metric("finite", 1.0)]
    for spec in specs:
        if spec == "finite":
            continue
        match = _FORM.fullmatch(spec.replace(" ", ""))
        if match is None or _SENSE[match[1]] != match[2]:
            raise UserError(f"--metric {safe(spec)}: expected {EXAMPLE}")
        found.append(Metric(match[1], float(match[3])))
    return tuple(found)


def measure(
    metric: Metric, got: Mapping[str, npt.NDArray[Any]], golden: Mapping[str, npt.NDArray[Any]]
) -> float:
    """Return a metric's worst value over all outputs of numbers.

    Args:
        metric: ``finite`` gives 1 if all that is finite in ``golden`` is in ``got``, else 0.
        got: Outputs by name.
        golden: The same outputs of the fp32 run.
    """
    values = [_one(metric.name, got.get(name), wide) for name, wide in golden.items()]
    if not values:
        return math.nan
    return max(values) if metric.name == "max-abs" else min(values)


def good(
    metrics: Sequence[Metric],
    got: Mapping[str, npt.NDArray[Any]],
    golden: Mapping[str, npt.NDArray[Any]],
) -> bool:
    """Whether all demands are met."""
    return all(m.holds(measure(m, got, golden)) for m in metrics)


def _one(name: str, got: npt.NDArray[Any] | None, golden: npt.NDArray[Any]) -> float:
    from npudbg.layers.compare.closeness import closeness

    worst = math.inf if name == "max-abs" else -math.inf
    if got is None or got.shape != golden.shape:
        return worst
    found = closeness(got, golden, atol=0.0, rtol=0.0)
    if name == "finite":
        return float(found.nonfinite == 0)
    if found.nonfinite:
        return worst
    if name == "max-abs":
        return found.max_abs
    if name == "snr":
        return worst if found.snr is None else found.snr
    # Two vectors of zeros agree; zeros in the place of values do not.
    return float(found.max_abs == 0) if found.cosine is None else found.cosine
