"""Two tensors held side by side: metrics, reasons and one verdict."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from npudbg.layers.compare.layout import explain_layout
from npudbg.layers.compare.metrics import measure
from npudbg.layers.compare.pairs import real
from npudbg.layers.compare.reasons import explain, failed_limits
from npudbg.layers.compare.records import (
    Comparison,
    LayoutMatch,
    Metrics,
    Reason,
    Tolerance,
)


def compare(
    got: npt.NDArray[Any],
    golden: npt.NDArray[Any],
    atol: float = 1e-5,
    rtol: float = 1e-3,
    *,
    tolerance: Tolerance | None = None,
    previous: npt.NDArray[Any] | None = None,
    layouts: bool = True,
) -> Comparison:
    """Compare a tensor with its golden values.

    No single metric decides that all is well: a cosine of 1.00000 says nothing of
    a channel whose scores are all zero.

    Args:
        got: What was computed (real values: dequantise first).
        golden: What it should be.
        atol: Absolute tolerance of an element.
        rtol: Relative tolerance of an element.
        tolerance: All limits at once; ``atol`` and ``rtol`` are then those it holds.
        previous: Golden values of the run before, to recognise an output one batch late.
        layouts: Look for a layout mistake where the tensors diverge.

    Raises:
        UserError: The elements are no numbers.
    """
    limits = tolerance or Tolerance(atol=atol, rtol=rtol)
    one, other = real(got, "got"), real(golden, "golden")
    if one.shape != other.shape:
        return _of_other_shape(one, other, limits, previous, layouts)
    metrics = measure(one, other, limits)
    failed = failed_limits(metrics, limits)
    layout = explain_layout(one, other, previous=previous) if failed and layouts else None
    reasons = explain(one, other, metrics)
    if layout is not None:
        reasons = (_layout_reason(layout), *(r for r in reasons if r.name == "non-finite"))
    verdict: Any = "diverges" if failed else "close" if metrics.mismatches else "equal"
    return Comparison(
        verdict=verdict,
        message=_message(verdict, metrics, reasons),
        failed=failed,
        got_shape=one.shape,
        golden_shape=other.shape,
        metrics=metrics,
        reasons=reasons,
        layout=layout,
        tolerance=limits,
    )


def _of_other_shape(
    got: npt.NDArray[Any],
    golden: npt.NDArray[Any],
    limits: Tolerance,
    previous: npt.NDArray[Any] | None,
    layouts: bool,
) -> Comparison:
    """Compare in memory order where the sizes agree; else look for a layout only."""
    squeezed = [tuple(n for n in shape if n != 1) for shape in (got.shape, golden.shape)]
    layout = None
    if layouts and squeezed[0] != squeezed[1]:
        layout = explain_layout(got, golden, previous=previous)
    if layout is None and got.size == golden.size:
        flat = compare(
            got.reshape(golden.shape), golden, tolerance=limits, previous=previous, layouts=layouts
        )
        if squeezed[0] == squeezed[1] or flat.verdict != "diverges":
            return Comparison(
                verdict=flat.verdict,
                message=flat.message,
                failed=flat.failed,
                got_shape=got.shape,
                golden_shape=golden.shape,
                metrics=flat.metrics,
                reasons=flat.reasons,
                layout=flat.layout,
                tolerance=limits,
            )
    shape = Reason(
        name="shape",
        message=f"shape {list(got.shape)} against {list(golden.shape)} of the golden tensor",
        evidence={"got": list(got.shape), "golden": list(golden.shape)},
    )
    reasons = (shape,) if layout is None else (_layout_reason(layout), shape)
    return Comparison(
        verdict="diverges",
        message=f"diverges: {reasons[0].message}",
        failed=("shape",),
        got_shape=got.shape,
        golden_shape=golden.shape,
        reasons=reasons,
        layout=layout,
        tolerance=limits,
    )


def _layout_reason(layout: LayoutMatch) -> Reason:
    return Reason(
        name="layout",
        message=layout.message,
        evidence={"before": layout.before, "after": layout.after},
    )


def _message(verdict: str, metrics: Metrics, reasons: tuple[Reason, ...]) -> str:
    if verdict == "equal":
        return f"equal within the tolerance: largest difference {metrics.max_abs:.4g}"
    return f"{verdict}: {numbers(metrics)}" + (f"; {reasons[0].message}" if reasons else "")


def numbers(metrics: Metrics) -> str:
    """Return the metrics side by side, in one line."""
    parts = [f"max diff {metrics.max_abs:.4g}"]
    if metrics.cosine is not None:
        parts.append(f"cosine {metrics.cosine:.4f}")
    if metrics.snr_db is not None:
        parts.append(f"SNR {metrics.snr_db:.1f} dB")
    if metrics.argmax_equal is not None:
        parts.append(f"argmax {metrics.argmax_equal:.0%} equal")
    parts.append(f"{metrics.mismatches} of {metrics.elements} elements differ")
    return ", ".join(parts)
