"""The device's own number formats.

A tensor lies in device memory in the device's type.  A kernel widens its
operands, computes, and rounds the result once to the device's type: with
overflow to infinity, or to the largest finite value where the chip saturates.
ONNX Runtime's CPU kernels compute fp16 models in fp32 between casts and so hide
an overflow; rounding every result is what makes it visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device.accumulate import Register
from npudbg.device.calibration import Calibration
from npudbg.device.rounding import Mode, narrowed
from npudbg.session.records import Quantization
from npudbg.targets.profile import Compute

Array = npt.NDArray[Any]

F16_MAX = 65504.0
BF16_MAX = 3.3895313892515355e38
BF16_TINY = 2.0**-126


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as it lies in device memory."""

    array: Array
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True)
class Numerics:
    """Rounding of a run.

    Attributes:
        precision: ``fp32`` (types as the model has them), ``fp16``, ``bf16``, ``int8``.
        saturate: Overflow gives the largest finite value instead of infinity.
        flush: Subnormal results become zero.
        raised: Names of tensors that keep the model's type.
        inside: int8: names of tensors that never leave a fused group.  They stay in the
            accumulator's width: only what a group writes is quantised, after its
            activation.
        calibration: int8: parameters chosen from sample inputs; without it each tensor
            is quantised over its own range.
        rounding: Where a result between two values of fp16 or bf16 goes.
        register: How sums of fp16 operands round while they run; None: they run in fp32
            and are rounded once.
    """

    precision: str = "fp32"
    saturate: bool = False
    flush: bool = False
    raised: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()
    calibration: Calibration | None = None
    rounding: Mode = "half-even"
    register: Register | None = None

    @classmethod
    def of(
        cls,
        compute: Compute,
        precision: str,
        raised: frozenset[str] = frozenset(),
        inside: frozenset[str] = frozenset(),
        calibration: Calibration | None = None,
    ) -> Numerics:
        """Return a profile's rounding; the other arguments are those of the class."""
        saturate, flush, mode = compute.saturate, compute.flush_subnormals, compute.rounding
        narrow = compute.accumulator.get("fp16") == "fp16"
        register = Register(compute.accumulator_block, saturate, flush, mode) if narrow else None
        return cls(precision, saturate, flush, raised, inside, calibration, mode, register)

    def in_half(self, array: Array, name: str) -> bool:
        """Whether a tensor with values of the model's type lies in memory as fp16."""
        return self._goal(array, name, False) == np.float16

    def device_dtype(self, model: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in device memory of a tensor of the model's type."""
        if model.kind != "f" or model.itemsize < 4:
            return model
        if self.precision == "fp16":
            return np.dtype("<f2")
        if self.precision == "bf16":
            import ml_dtypes

            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return np.dtype(np.int8) if self.precision == "int8" else model

    def store(
        self,
        array: Array,
        like: Quantization | None = None,
        *,
        weight: bool = False,
        constant: bool = False,
        name: str = "",
    ) -> Stored:
        """Round a result to the device's type.

        Args:
            array: Values in the model's type.
            like: int8: use these parameters rather than the values' own range.
            weight: int8: symmetric, one scale an output channel (axis 0), where there
                is no calibration.
            constant: int8: known at compile time; a vector or number (bias, parameter
                of a normalisation) keeps its 32 bits.
            name: Name of the tensor: a raised one is not rounded.
        """
        array = np.asarray(array, order="C")  # keeps rank 0, unlike ascontiguousarray
        goal = self._goal(array, name, constant)
        if goal == array.dtype:
            if goal == np.float16:
                if self.saturate:
                    array = _saturated(array, F16_MAX)
                if self.flush:
                    array = np.where(np.abs(array) < _tiny(goal), goal.type(0), array)
            return Stored(array)
        if goal == np.int8:
            from npudbg.device.quantize import choose, quantize

            parameters = like or self._calibrated(name) or choose(array, weight=weight)
            rounding = self.calibration.scheme.rounding if self.calibration else "half-even"
            return Stored(quantize(array, parameters, rounding), parameters)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.saturate:
                array = _saturated(
                    array, F16_MAX if goal.itemsize == 2 and goal.kind == "f" else None
                )
            rounded = narrowed(array, goal, self.rounding)
        if self.flush:
            rounded[np.abs(rounded) < _tiny(goal)] = 0
        return Stored(rounded)

    def _goal(self, array: Array, name: str, constant: bool) -> np.dtype[Any]:
        if name in self.raised or name in self.inside:
            return array.dtype
        goal = self.device_dtype(array.dtype)
        if goal == np.int8 and array.dtype.kind == "f":
            if constant and array.ndim < 2:
                return array.dtype
            if self.calibration is not None and name in self.calibration.half:
                return np.dtype("<f2")
        return goal

    def _calibrated(self, name: str) -> Quantization | None:
        known = self.calibration
        if known is None:
            return None
        return known.weights.get(name) or known.activations.get(name)

    def load(self, stored: Stored, model: np.dtype[Any]) -> Array:
        """Widen a stored tensor to the model's type for a kernel."""
        if stored.quantization is not None:
            from npudbg.device.quantize import dequantize

            return dequantize(stored.array, stored.quantization).astype(model, copy=False)
        return stored.array if stored.array.dtype == model else stored.array.astype(model)


def _saturated(array: Array, limit: float | None) -> Array:
    """Clip to the finite range; NaN stays NaN, infinity becomes the limit."""
    if limit is None:
        limit = BF16_MAX
    if array.size and not (np.abs(array, dtype=array.dtype).max() <= limit):
        return np.clip(array, -limit, limit).astype(array.dtype)
    return array


def _tiny(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).tiny) if dtype.kind == "f" else BF16_TINY
