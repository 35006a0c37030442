"""What a calibration knows: the int8 parameters of every tensor, before anything runs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from npudbg.device.quantize import Rounding
from npudbg.session.records import Quantization, Record


class Scheme(Record, frozen=True):
    """How a toolchain quantises.

    Attributes:
        weights: ``channel``: a scale for each output channel; ``tensor``: one in all.
        asymmetric: Weights have a zero point of their own, instead of 0.
        rounding: Where a value half-way between two integers goes.
    """

    weights: Literal["channel", "tensor"] = "channel"
    asymmetric: bool = True
    rounding: Rounding = "half-even"


class Calibration(Record, frozen=True):
    """int8 parameters by tensor, with what they were chosen from.

    Attributes:
        scheme: How they were chosen.
        samples: Number of inputs that were run.
        ranges: Least and greatest value of each activation over all samples.
        activations: Parameters of activations and inputs, each from its own range (an
            operator that only moves values hands its operand's on).
        weights: Parameters of weights as the model has them.  A weight whose
            convolution feeds a batch normalisation was chosen with that folded in: its
            scale here is the folded weight's divided by :attr:`factors`.
        factors: By weight, what the batch normalisation multiplies each output
            channel with (magnitude).
        ends: For a tensor inside of a fused convolution: the tensor at its end, after
            batch normalisation and activation, whose parameters hardware uses.
        half: Tensors that stay fp16 (softmax and what shows its result).
    """

    scheme: Scheme
    samples: int
    ranges: dict[str, tuple[float, float]]
    activations: dict[str, Quantization]
    weights: dict[str, Quantization]
    factors: dict[str, tuple[float, ...]]
    ends: dict[str, str]
    half: frozenset[str]

    def fused(self, name: str) -> Quantization | None:
        """Return the parameters of an activation in a fused network."""
        return self.activations.get(self.ends.get(name, name))

    def folded(self, name: str) -> Quantization | None:
        """Return the parameters of a weight with its batch normalisation folded in."""
        own, factors = self.weights.get(name), self.factors.get(name)
        if own is None or factors is None:
            return own
        scales = own.scale if len(own.scale) > 1 else own.scale * len(factors)
        return Quantization(
            scale=tuple(s * f for s, f in zip(scales, factors, strict=True)),
            zero_point=own.zero_point,
            axis=own.axis,
        )

    def record(self) -> Any:
        """Return it as JSON values, for the session."""
        return msgspec.to_builtins(self)


def from_record(record: Any) -> Calibration:
    """Return a session's calibration.

    Raises:
        msgspec.ValidationError: Not one.
    """
    return msgspec.convert(record, Calibration)
