"""How close a tensor is to its golden values, in one pass that keeps no full-size copy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from npudbg.session.golden import Closeness

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.session.records import TensorRecord

_CHUNK = 1 << 16
# By number format: of the tensor's largest golden magnitude, and of each value. Wide
# enough for the rounding of a whole network of that format, not for a value lost.
_DEFAULT = {
    "fp32": (1e-4, 1e-3),
    "fp16": (1e-2, 1e-2),
    "bf16": (6e-2, 6e-2),
    "int8": (1e-1, 1e-1),
}
# Signal to noise in dB below which a tensor differs, where no tolerance was given. Rounding
# adds up over a deep network: single values leave any tolerance while the tensor is sound.
LEAST_SNR = {"fp32": 60.0, "fp16": 20.0, "bf16": 14.0, "int8": 10.0}
_TOLERATED = 1000
_OFF_BY = 0.5
_FORMATS = ("fp32", "fp16", "bf16", "int8")


def coarser(one: str, other: str) -> str:
    """Return the number format of the two that rounds more."""
    return max(one, other, key=_FORMATS.index)


def format_of(tensor: TensorRecord) -> str:
    """Return the number format that a tensor's values were rounded to."""
    if tensor.quantization is not None:
        return "int8"
    return {"<f2": "fp16", "bfloat16": "bf16"}.get(tensor.dtype, "fp32")


def tolerance(
    golden: npt.NDArray[Any], form: str, atol: float | None, rtol: float | None
) -> tuple[float, float]:
    """Return the tolerances to compare with.

    What the user gave holds as given (the other is then 0).  With neither, they
    follow from the number format: a share of the tensor's largest magnitude, and a
    share of each value.

    Args:
        golden: Golden values.
        form: ``fp32``, ``fp16``, ``bf16`` or ``int8``.
        atol: The user's, or None.
        rtol: The user's, or None.
    """
    if atol is not None or rtol is not None:
        return atol or 0.0, rtol or 0.0
    share, relative = _DEFAULT[form]
    return share * _magnitude(golden), relative


def beyond(found: Closeness, form: str) -> bool:
    """Tell whether a tensor differs, by the format's own tolerances.

    It does where a value became NaN or Inf, where one is off by half of the largest
    golden magnitude, and where more than one value in a thousand is beyond tolerance
    and signal to noise is below :data:`LEAST_SNR`.
    """
    if not found.mismatches:
        return False
    largest = found.atol / _DEFAULT[form][0]
    noisy = found.snr is None or found.snr < LEAST_SNR[form]
    many = found.mismatches > found.count // _TOLERATED
    return found.nonfinite > 0 or found.max_abs > _OFF_BY * largest or (noisy and many)


def closeness(
    got: npt.NDArray[Any], golden: npt.NDArray[Any], *, atol: float, rtol: float
) -> Closeness:
    """Compare two arrays of equal shape; sums are taken in float64."""
    import numpy as np

    a, b = real(got), real(golden)
    mismatches = nonfinite = 0
    max_abs = max_rel = noise = signal = other = inner = 0.0
    first = -1
    for at in range(0, a.size, _CHUNK):
        x = a[at : at + _CHUNK].astype(np.float64)
        y = b[at : at + _CHUNK].astype(np.float64)
        with np.errstate(all="ignore"):
            both = np.isfinite(x) & np.isfinite(y)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            d = np.where(both, np.abs(x - y), 0.0)
            bad = np.where(both, d > atol + rtol * np.abs(y), ~same)
            lost = int(np.count_nonzero(~np.isfinite(x) & np.isfinite(y)))
            x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
            relative = np.divide(d, np.abs(y), out=np.zeros_like(d), where=y != 0)
        wrong = int(np.count_nonzero(bad))
        if wrong and first < 0:
            first = at + int(np.argmax(bad))
        mismatches += wrong
        nonfinite += lost
        max_abs = max(max_abs, float(d.max(initial=0.0)))
        max_rel = max(max_rel, float(relative.max(initial=0.0)))
        # add.reduce, not dot: a threaded product is slower on chunks of this size.
        noise += float(np.add.reduce(d * d))
        signal += float(np.add.reduce(y * y))
        other += float(np.add.reduce(x * x))
        inner += float(np.add.reduce(x * y))
    norms = math.sqrt(signal) * math.sqrt(other)
    return Closeness(
        count=int(a.size),
        mismatches=mismatches,
        nonfinite=nonfinite,
        max_abs=math.inf if nonfinite else max_abs,
        max_rel=math.inf if nonfinite else max_rel,
        cosine=None if nonfinite else _cosine(inner, norms, noise),
        snr=None if nonfinite else _snr(signal, noise),
        euclidean=math.sqrt(noise),
        first=first,
        atol=atol,
        rtol=rtol,
    )


def real(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array's numbers flat in C order; a complex one as pairs."""
    import numpy as np

    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _magnitude(array: npt.NDArray[Any]) -> float:
    import numpy as np

    flat, found = real(array), 0.0
    for at in range(0, flat.size, _CHUNK):
        part = np.abs(flat[at : at + _CHUNK].astype(np.float64))
        found = max(found, float(part[np.isfinite(part)].max(initial=0.0)))
    return found


def _cosine(inner: float, norms: float, noise: float) -> float | None:
    if not norms > 0:
        return None
    # Equal values read 1, whatever the rounding of the sums.
    return 1.0 if noise == 0 else max(-1.0, min(1.0, inner / norms))


def _snr(signal: float, noise: float) -> float | None:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else None
