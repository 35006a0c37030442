"""Why a tensor differs from its golden values, told from the two arrays with numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudbg.commands.golden_metrics import format_of
from npudbg.session.golden import Closeness, Reason

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.session.records import TensorRecord

_MAX_ELEMENTS = 1 << 24
_LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}
_LEAST_LIKELY = "reinterpreted-transposed"
_MOST = 0.5
_FACTOR_FITS = 0.02
_LIVELY = 1e-3


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
        golden: Golden values, same shape.
        tensor: The device's record: its type tells where its range ends.
        entire: How they compare.
        single: The node on golden operands, where that was computed.
        form: Number format of the run up to here; by default that of the tensor.
        layouts: Look for a layout mistake, which takes longest.
        trusted: The golden values are known to be in order.
    """
    if got.size > _MAX_ELEMENTS or got.dtype.kind in "OSUTc":
        return Why()
    import numpy as np

    a = got.astype(np.float64).reshape(-1)
    b = golden.astype(np.float64).reshape(-1)
    found = _range(a, b, tensor) or (layout(got, golden, trusted=trusted) if layouts else None)
    if found is not None and found.evidence.get("equal_before", 0.0) > _MOST:
        # Most values are in place: channels that are lost explain the rest with less.
        found = collapse(got, golden) or found
    if found is None and not entire.nonfinite:
        found = _saturation(a, b, tensor, entire) or collapse(got, golden) or _scale(a, b)
    return found or _precision(form or format_of(tensor), entire, single)


def _range(a: Any, b: Any, tensor: TensorRecord) -> Why | None:
    import numpy as np

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
    told = f"{count} of {a.size} are NaN or Inf where golden values are finite (up to {largest:.6g}"
    told += f", within {form}): a sum or a step inside passed its range)" if limit else ")"
    return Why("range", told, evidence)


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
    from npudbg.layers.compare import explain_layout

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
    if match.shift_bytes is not None:
        evidence["shift_bytes"] = match.shift_bytes
    told = match.message.replace("the golden one", "the other") if match is there else match.message
    return Why("layout", f"{side}: {told}", evidence)


def _saturation(a: Any, b: Any, tensor: TensorRecord, entire: Closeness) -> Why | None:
    import numpy as np

    form = format_of(tensor)
    quant = tensor.quantization
    if form == "int8" and quant is not None and len(quant.scale) == 1:
        low, high = _levels(tensor.dtype)
        top = quant.scale[0] * (high - quant.zero_point[0])
        bottom = quant.scale[0] * (low - quant.zero_point[0])
    elif form in _LARGEST:
        top, bottom = _LARGEST[form], -_LARGEST[form]
    else:
        return None
    eps = 1e-6 * max(abs(top), abs(bottom))
    over = ((a >= top - eps) & (b > top)) | ((a <= bottom + eps) & (b < bottom))
    bad = np.abs(a - b) > entire.atol + entire.rtol * np.abs(b)
    count = int(np.count_nonzero(over & bad))
    if not count or count < _MOST * np.count_nonzero(bad):
        return None
    largest = float(np.abs(b).max())
    told = f"{count} values stand at the limit {top:.6g} of {form} and should reach {largest:.6g}"
    return Why("saturation", told, {"at_limit": count, "limit": top, "largest_golden": largest})


def _levels(dtype: str) -> tuple[int, int]:
    return (0, 255) if dtype.endswith("u1") else (-128, 127)


def collapse(got: Any, golden: Any) -> Why | None:
    """Return which channels hold one value where the golden ones vary, or None.

    A mean over the tensor hides it: cosine stays at 1.0 when the channels that are
    left dwarf those that are lost.
    """
    import numpy as np

    if golden.size < 4 or golden.size > _MAX_ELEMENTS or golden.dtype.kind not in "fV":
        return None
    axis = 1 if golden.ndim > 2 else golden.ndim - 1
    pairs = [np.moveaxis(x.astype(np.float64), axis, 0) for x in (got, golden)]
    lanes, wanted = (p.reshape(p.shape[0], -1) for p in pairs)
    if lanes.shape[1] < 2:
        lanes, wanted = lanes.reshape(1, -1), wanted.reshape(1, -1)
    flat = lanes.max(axis=1) == lanes.min(axis=1)
    largest = np.abs(wanted).max(axis=1)
    with np.errstate(all="ignore"):
        lively = wanted.max(axis=1) - wanted.min(axis=1) > _LIVELY * largest
    dead = np.flatnonzero(flat & lively)
    if not dead.size:
        return None
    first = int(dead[0])
    spread = float(wanted[first].max() - wanted[first].min())
    of = lanes.shape[0]
    told = (
        f"{dead.size} of {of} channels hold one value ({lanes[first, 0]:.6g} in channel {first}) "
        f"where golden values span {spread:.6g}"
    )
    return Why(
        "collapse", told, {"channels": [int(d) for d in dead[:16]], "of": of, "span": spread}
    )


def _scale(a: Any, b: Any) -> Why | None:
    """Return the one factor that makes all values golden, where there is one."""
    import numpy as np

    both = np.isfinite(a) & np.isfinite(b)
    x, y = a[both], b[both]
    power = float(np.add.reduce(x * x))
    if not power or x.size < 4:
        return None
    factor = float(np.add.reduce(x * y)) / power
    norm = math.sqrt(float(np.add.reduce(y * y)))
    left = math.sqrt(float(np.add.reduce((factor * x - y) ** 2)))
    if not factor or abs(factor - 1) < 0.05 or not norm or left > _FACTOR_FITS * norm:
        return None
    told = f"golden values are {factor:.6g} times these (what is then left is {left / norm:.2g})"
    return Why("scale", told, {"factor": factor, "relative_rest": left / norm})


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
