"""What a number format costs: the tolerances that a tensor of it is judged with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.closeness import flat_real
from npudbg.layers.compare.pairs import PIECE
from npudbg.session.golden import Closeness
from npudbg.session.records import TensorRecord

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


def _magnitude(array: npt.NDArray[Any]) -> float:
    flat, found = flat_real(array), 0.0
    for at in range(0, flat.size, PIECE):
        part = np.abs(flat[at : at + PIECE].astype(np.float64))
        found = max(found, float(part[np.isfinite(part)].max(initial=0.0)))
    return found
