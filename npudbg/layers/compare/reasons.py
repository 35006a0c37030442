"""Why two tensors differ, from their metrics: each reason with its numbers."""

from __future__ import annotations

import numpy as np

from npudbg.layers.compare.pairs import Array, pairs, wide
from npudbg.layers.compare.records import Channel, Metrics, Reason, Tolerance

_SAMPLE = 1 << 16
_FEW_LEVELS = 2
_MANY_LEVELS = 16
_SATURATED = 0.005
_PAST = 0.9
_LINE = 0.05
"""Residual up to which a straight line through the origin's neighbourhood explains all."""

_SLOPE = 0.02
_UNRELATED = 0.3
_ISOLATED = 0.01


def failed_limits(metrics: Metrics, tolerance: Tolerance) -> tuple[str, ...]:
    """Return the names of the metrics that passed their limits of divergence.

    A tensor without a single mismatch fails none, whatever its cosine.
    """
    if not metrics.mismatches:
        return ()
    failed = []
    if metrics.nonfinite_got > metrics.nonfinite_golden:
        failed.append("non-finite")
    if metrics.cosine is not None and metrics.cosine < tolerance.cosine:
        failed.append("cosine")
    if metrics.cosine is None and metrics.max_abs > tolerance.atol:
        failed.append("zero")
    if metrics.snr_db is not None and metrics.snr_db < tolerance.snr_db:
        failed.append("snr")
    if tolerance.channels and metrics.dead_channels:
        failed.append("dead-channels")
    lost = (c for c in metrics.channels if _lost(c, metrics, tolerance))
    if tolerance.channels and next(lost, None) is not None:
        failed.append("channel-snr")
    return tuple(failed)


def _lost(channel: Channel, metrics: Metrics, tolerance: Tolerance) -> bool:
    """Tell whether a channel that carries a signal has lost it."""
    if channel.snr_db is None or metrics.golden_range is None:
        return False
    largest = max(abs(v) for v in metrics.golden_range)
    audible = channel.signal > max(1e-4 * largest, tolerance.atol)
    return audible and channel.snr_db < tolerance.channel_snr_db


def explain(got: Array, golden: Array, metrics: Metrics) -> tuple[Reason, ...]:
    """Return the reasons for the mismatches, the strongest first; empty without one."""
    if not metrics.mismatches:
        return ()
    reasons: list[Reason] = []
    if metrics.nonfinite_got != metrics.nonfinite_golden:
        reasons.append(
            Reason(
                name="non-finite",
                message=f"{metrics.nonfinite_got} elements are NaN or Inf, "
                f"{metrics.nonfinite_golden} of the golden ones",
                evidence={"got": metrics.nonfinite_got, "golden": metrics.nonfinite_golden},
            )
        )
    flat = collapsed(got, golden)
    for found in (flat, None if flat else dead_channels(metrics), clipped(got, golden, metrics)):
        if found is not None:
            reasons.append(found)
    reasons += straight_line(metrics)
    if reasons:
        return tuple(reasons)
    if metrics.correlation is None or abs(metrics.correlation) < _UNRELATED:
        shown = "none" if metrics.correlation is None else f"{metrics.correlation:.3f}"
        return (
            Reason(
                name="unrelated",
                message=f"the values have nothing in common (correlation {shown}) although the "
                f"ranges are {_range(metrics.got_range)} and {_range(metrics.golden_range)}",
                evidence={"correlation": metrics.correlation},
            ),
        )
    if metrics.mismatches <= max(1, _ISOLATED * metrics.elements) and metrics.elements > 1:
        return (
            Reason(
                name="isolated",
                message=f"only {metrics.mismatches} of {metrics.elements} elements differ, "
                f"by up to {metrics.max_abs:.4g} at {list(metrics.max_abs_at)}",
                evidence={"mismatches": metrics.mismatches, "first": list(metrics.max_abs_at)},
            ),
        )
    level = "no error" if metrics.snr_db is None else f"{metrics.snr_db:.1f} dB"
    return (
        Reason(
            name="noise",
            message=f"noise without scale or offset: signal to error {level}, "
            f"largest difference {metrics.max_abs:.4g}",
            evidence={"snr_db": metrics.snr_db, "max_abs": metrics.max_abs},
        ),
    )


def _range(values: tuple[float, float] | None) -> str:
    return "empty" if values is None else f"{values[0]:.4g} to {values[1]:.4g}"


def straight_line(metrics: Metrics) -> list[Reason]:
    """Return scale and offset where a line explains what a copy does not."""
    slope, intercept = metrics.slope, metrics.intercept
    if slope is None or intercept is None or metrics.residual is None:
        return []
    if metrics.residual > _LINE or metrics.golden_range is None or metrics.got_range is None:
        return []
    spread = metrics.golden_range[1] - metrics.golden_range[0]
    evidence = {"slope": slope, "intercept": intercept, "residual": metrics.residual}
    # Fitting noise makes a line too: it must stand out of what it leaves unexplained.
    scatter = metrics.residual**0.5
    reasons = []
    if abs(slope - 1) > max(_SLOPE, scatter):
        reasons.append(
            Reason(
                name="scale",
                message=f"the values are the golden ones times {slope:.5g}"
                + (f" plus {intercept:.4g}" if abs(intercept) > 0.01 * spread else ""),
                evidence=evidence,
            )
        )
    elif abs(intercept) > max(0.01, scatter / 4) * spread:
        reasons.append(
            Reason(
                name="offset",
                message=f"the values are the golden ones plus {intercept:.4g}",
                evidence=evidence,
            )
        )
    return reasons


def collapsed(got: Array, golden: Array) -> Reason | None:
    """Return a collapse of the whole tensor onto one or two values."""
    step = max(1, got.size // _SAMPLE)
    here = np.unique(wide(np.asarray(got.flat[::step])))
    there = np.unique(wide(np.asarray(golden.flat[::step])))
    if len(here) > _FEW_LEVELS or len(there) < _MANY_LEVELS:
        return None
    values = ", ".join(f"{v:.4g}" for v in here)
    return Reason(
        name="collapse",
        message=f"all values are {values} where the golden ones take {len(there)} values or more",
        evidence={"levels": len(here), "golden_levels": len(there)},
    )


def dead_channels(metrics: Metrics) -> Reason | None:
    """Return channels that hold one value where the golden ones vary."""
    if not metrics.dead_channels:
        return None
    shown = ", ".join(str(n) for n in metrics.dead_channels[:8])
    more = "" if len(metrics.dead_channels) <= 8 else " ..."
    plural = "s" if len(metrics.dead_channels) > 1 else ""
    return Reason(
        name="dead-channels",
        message=f"channel{plural} {shown}{more} (axis {metrics.channel_axis}) "
        "carry one value where the golden ones vary",
        evidence={"channels": list(metrics.dead_channels[:64]), "axis": metrics.channel_axis},
    )


def clipped(got: Array, golden: Array, metrics: Metrics) -> Reason | None:
    """Return clipping: values pile up at an end that the golden ones pass."""
    if metrics.got_range is None or metrics.golden_range is None:
        return None
    low, high = metrics.got_range
    if low == high:
        return None
    spread = metrics.golden_range[1] - metrics.golden_range[0]
    for name, limit, beyond in (
        ("highest", high, metrics.golden_range[1] - high),
        ("lowest", low, low - metrics.golden_range[0]),
    ):
        if beyond <= 0.01 * spread:
            continue
        piled = past = 0
        for one, other in pairs(got, golden):
            at_limit = one == limit
            piled += int(np.count_nonzero(at_limit))
            further = other >= limit if name == "highest" else other <= limit
            past += int(np.count_nonzero(at_limit & further))
        # Rounding to coarse steps piles values up too, from either side.
        if piled >= max(4, _SATURATED * got.size) and past >= _PAST * piled:
            return Reason(
                name="saturation",
                message=f"{piled} of {got.size} values stand at the {name} value {limit:.5g}; "
                f"the golden ones go {beyond:.4g} beyond",
                evidence={"limit": limit, "at_limit": piled, "beyond": beyond},
            )
    return None
