"""Why a tensor of a run differs from its golden values: one reason, with its numbers.

Where :mod:`~npudbg.layers.compare.reasons` has the two arrays alone, this knows what
the device kept them in: where its type's range ends, which scale it was quantised by,
and how the node did on golden operands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.channels import channel_axis, per_channel
from npudbg.layers.compare.formats import format_of
from npudbg.layers.compare.layout import explain_layout
from npudbg.layers.compare.metrics import measure
from npudbg.layers.compare.pairs import real
from npudbg.layers.compare.reasons import clipped, straight_line
from npudbg.layers.compare.records import Metrics, Tolerance
from npudbg.session.golden import Closeness, Reason
from npudbg.session.records import TensorRecord

_MAX_ELEMENTS = 1 << 24
_LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}
_LEAST_LIKELY = "reinterpreted-transposed"
_MOST = 0.5
_STRAIGHT = 0.01
"""Error power beside a line, relative to that of the values, up to which it is the reason."""

_LIVELY = 1e-3
_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Why:
    """A reason, one line that tells it, and its numbers."""

    reason: Reason = ""
    told: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)


def why(
    got: npt.NDArray[Any],
    golden: npt.NDArray[Any],
    tensor: TensorRecord,
    entire: Closeness,
    single: Closeness | None = None,
    *,
    form: str = "",
    layouts: bool = True,
    trusted: bool = False,
) -> Why:
    """Return why a tensor differs; the reasons that leave least doubt are tried first.

    Args:
        got: The device's real values.
        golden: Golden values, same number of elements.
        tensor: The device's record: its type tells where its range ends.
        entire: How they compare.
        single: The node on golden operands, where that was computed.
        form: Number format of the run up to here; by default that of the tensor.
        layouts: Look for a layout mistake, which takes longest.
        trusted: The golden values are known to be in order.
    """
    if got.size > _MAX_ELEMENTS or got.dtype.kind in "OSUT":
        return Why()
    one, other = real(got), real(golden)
    found = _range(one, other, tensor)
    if found is None and layouts:
        found = layout(one, other, trusted=trusted)
    if one.size != other.size:
        return found or Why()
    other = other.reshape(one.shape)
    if found is not None and found.evidence.get("equal_before", 0.0) > _MOST:
        # Most values are in place: channels that are lost explain the rest with less.
        found = lost_channels(one, other, tensor) or found
    if found is None and not entire.nonfinite:
        metrics = measure(one, other, Tolerance(atol=entire.atol, rtol=entire.rtol))
        found = (
            _at_the_limit(one, other, tensor, entire)
            or lost_channels(one, other, tensor)
            or _clipped(one, other, metrics)
            or _line(metrics)
        )
    return found or _precision(form or format_of(tensor), entire, single)


def layout(got: npt.NDArray[Any], golden: npt.NDArray[Any], *, trusted: bool = False) -> Why | None:
    """Return the rearrangement that makes one side of the other, or None.

    Either side may be the one in a wrong order: a board's output file as well as the
    device's own tensor.  The shapes may differ, as a padded native buffer's does.

    Args:
        got: The device's values.
        golden: Golden values.
        trusted: They are known to be in order.
    """
    if max(got.size, golden.size) > _MAX_ELEMENTS:
        return None
    here = explain_layout(got, golden)
    # Both ways hold at once; the one that a reader would call the mistake is told.
    there = None
    if not trusted and (here is None or here.kind == _LEAST_LIKELY):
        there = explain_layout(golden, got)
    match = there or here
    if match is None:
        return None
    side = "golden file" if match is there else "tensor"
    evidence: dict[str, Any] = {
        "side": side,
        "kind": match.kind,
        "equal_before": match.before,
        "equal_after": match.after,
    }
    if match.permutation:
        evidence["permutation"] = list(match.permutation)
    for name in ("axis", "pitch", "block", "shift_bytes"):
        value = getattr(match, name)
        if value is not None:
            evidence[name] = value
    told = match.message.replace("the golden one", "the other") if match is there else match.message
    return Why("layout", f"{side}: {told}", evidence)


def lost_channels(
    got: npt.NDArray[Any], golden: npt.NDArray[Any], tensor: TensorRecord
) -> Why | None:
    """Return which channels hold one value where the golden ones vary, or None.

    A figure over the tensor hides it: cosine stays at 1.0 when the channels that are
    left dwarf those that are lost.  A *collapse* is told where the tensor's own scale
    is why: the channels span less than a step of it.

    Args:
        got: The device's values.
        golden: Golden values, same shape.
        tensor: The device's record, with its scale.
    """
    if golden.size < 4 or golden.size > _MAX_ELEMENTS or golden.dtype.kind not in "fV":
        return None
    axis = channel_axis(golden.shape)
    if axis is None:
        got, golden, axis = got.reshape(1, -1), golden.reshape(1, -1), 0
    spans = {}
    for channel in per_channel(got, golden, axis, Tolerance(atol=0.0, rtol=0.0))[1]:
        values = golden.take(channel, axis).astype(np.float64)
        span = float(values.max() - values.min())
        if span > _LIVELY * float(np.abs(values).max()):
            spans[channel] = span
    if not spans:
        return None
    first, of = next(iter(spans)), golden.shape[axis]
    held = float(got.take(first, axis).reshape(-1)[0])
    names = ", ".join(str(n) for n in list(spans)[:8]) + (", ..." if len(spans) > 8 else "")
    told = (
        f"{len(spans)} of {of} channels ({names}) hold one value ({held:.6g} in channel {first}) "
        f"where golden values span {spans[first]:.6g}"
    )
    evidence: dict[str, Any] = {
        "channels": list(spans)[:_SHOWN], "of": of, "axis": axis, "span": spans[first],
    }  # fmt: skip
    quant = tensor.quantization
    if quant is None or len(quant.scale) != 1 or max(spans.values()) >= 2 * quant.scale[0]:
        return Why("dead-channels", told, evidence)
    low, high = float(golden.min()), float(golden.max())
    told += (
        f": less than two steps of the one scale {quant.scale[0]:.6g} for {low:.6g} to {high:.6g}"
    )
    return Why("collapse", told, {**evidence, "scale": quant.scale[0], "range": [low, high]})


def _range(got: npt.NDArray[Any], golden: npt.NDArray[Any], tensor: TensorRecord) -> Why | None:
    if got.size != golden.size:
        return None
    a, b = (x.astype(np.float64).reshape(-1) for x in (got, golden))
    lost = ~np.isfinite(a) & np.isfinite(b)
    count = int(np.count_nonzero(lost))
    if not count:
        return None
    largest = float(np.abs(b[lost]).max())
    form = format_of(tensor)
    limit = _LARGEST.get(form)
    evidence = {"nonfinite": count, "elements": int(a.size), "largest_golden": largest}
    if limit is not None and largest > limit:
        told = f"golden values reach {largest:.6g} and {form} ends at {limit:.6g}"
        return Why("range", told, {**evidence, "limit": limit})
    inside = f", within {form}): a sum or a step inside passed its range" if limit else ")"
    told = f"{count} of {a.size} are NaN or Inf where golden values are finite"
    return Why("range", f"{told} (up to {largest:.6g}{inside}", evidence)


def _at_the_limit(
    got: npt.NDArray[Any], golden: npt.NDArray[Any], tensor: TensorRecord, entire: Closeness
) -> Why | None:
    """Return saturation: values at the end of their type that the golden ones pass."""
    form = format_of(tensor)
    quant = tensor.quantization
    if form == "int8" and quant is not None and len(quant.scale) == 1:
        low, high = (0, 255) if tensor.dtype.endswith("u1") else (-128, 127)
        top = quant.scale[0] * (high - quant.zero_point[0])
        bottom = quant.scale[0] * (low - quant.zero_point[0])
    elif form in _LARGEST:
        top, bottom = _LARGEST[form], -_LARGEST[form]
    else:
        return None
    a, b = (x.astype(np.float64).reshape(-1) for x in (got, golden))
    eps = 1e-6 * max(abs(top), abs(bottom))
    over = ((a >= top - eps) & (b > top)) | ((a <= bottom + eps) & (b < bottom))
    bad = np.abs(a - b) > entire.atol + entire.rtol * np.abs(b)
    count = int(np.count_nonzero(over & bad))
    if not count or count < _MOST * np.count_nonzero(bad):
        return None
    largest = float(np.abs(b).max())
    told = f"{count} values stand at the limit {top:.6g} of {form} and should reach {largest:.6g}"
    return Why("saturation", told, {"at_limit": count, "limit": top, "largest_golden": largest})


def _clipped(got: npt.NDArray[Any], golden: npt.NDArray[Any], metrics: Metrics) -> Why | None:
    found = clipped(got, golden, metrics)
    return None if found is None else Why("saturation", found.message, found.evidence)


def _line(metrics: Metrics) -> Why | None:
    if metrics.residual is None or metrics.residual > _STRAIGHT:
        return None
    found = next(iter(straight_line(metrics)), None)
    if found is None:
        return None
    if found.name == "scale" and metrics.slope:
        told = f"golden values are {1 / metrics.slope:.6g} times these; {found.message}"
        return Why("scale", told, {"factor": 1 / metrics.slope, **found.evidence})
    return Why("offset", found.message, found.evidence)


def _precision(form: str, entire: Closeness, single: Closeness | None) -> Why:
    evidence: dict[str, Any] = {"snr_db": entire.snr, "max_abs": entire.max_abs}
    if single is None:
        if form == "fp32":
            return Why()
        return Why("precision", f"rounding to {form}, or an error of what it reads", evidence)
    evidence["single_mismatches"] = single.mismatches
    if single.mismatches:
        told = f"the node itself is beyond tolerance on golden operands (rounding to {form})"
    else:
        told = "the node is within tolerance on golden operands: the error was handed down"
    return Why("precision", told, evidence)
