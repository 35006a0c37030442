"""Records of a golden comparison: how far each tensor is from what it should have been."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from npudbg.session.records import Origin, Record

Reason = Literal[
    "", "range", "saturation", "collapse", "dead-channels", "layout", "scale", "offset",
    "precision", "shape", "accumulator",
]  # fmt: skip
"""Why a tensor differs; ``""`` where it cannot be told."""

KEY = "golden"
"""Key of the session's extra value that holds a :class:`GoldenRecord`."""
MAX_ROWS = 4096
"""Most rows that a session keeps."""


class ChannelCloseness(Record, frozen=True):
    """How close one channel is.

    Attributes:
        index: Its number.
        max_abs: Largest ``|got - golden|``; infinite if any is ``lost``.
        snr: Golden signal (about its mean) to noise in dB; None without either, or if
            any is ``lost``.
        cosine: Cosine similarity; None where a norm is 0, or if any is ``lost``.
        constant: It holds one value where the golden values vary.
        lost: Elements that are NaN or Inf here and finite in the golden array.
    """

    index: int
    max_abs: float = 0.0
    snr: float | None = None
    cosine: float | None = None
    constant: bool = False
    lost: int = 0


class Closeness(Record, frozen=True):
    """How close two arrays are; sums and differences are of elements finite in both.

    Attributes:
        count: Elements compared.
        mismatches: Elements with ``|got - golden| > atol + rtol * |golden|``, or that
            are NaN or Inf in one array and not the same in the other.
        nonfinite: Elements that are NaN or Inf here and finite in the golden array.
        max_abs: Largest ``|got - golden|``; infinite if ``nonfinite``.
        max_rel: Largest ``|got - golden| / |golden|`` where golden is not 0.
        cosine: Cosine similarity; None where a norm is 0, or if ``nonfinite``.
        snr: Signal (golden) to noise (difference) in dB; infinite if equal, None where
            there is no signal, or if ``nonfinite``.
        euclidean: Norm of the difference.
        first: C-order index of the first mismatch, -1 for none.
        atol: Absolute tolerance used.
        rtol: Relative tolerance used.
        argmax_equal: Fraction of rows in which the same class wins; None where the
            tensor is not known to hold scores.
        channel: The channel that is worst, by error relative to its own signal; -1 if
            all are equal or none was looked for.
        channel_axis: Its axis.
        channel_snr: Its signal (about its mean) to noise in dB; None without either.
        channel_max_abs: Its largest ``|got - golden|``.
        channels: The worst channels along ``channel_axis``, the worst first.
    """

    count: int
    mismatches: int = 0
    nonfinite: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    cosine: float | None = None
    snr: float | None = None
    euclidean: float = 0.0
    first: int = -1
    atol: float = 0.0
    rtol: float = 0.0
    argmax_equal: float | None = None
    channel: int = -1
    channel_axis: int | None = None
    channel_snr: float | None = None
    channel_max_abs: float = 0.0
    channels: tuple[ChannelCloseness, ...] = ()


class GoldenRow(Record, frozen=True):
    """One tensor of the run beside its golden values.

    Attributes:
        name: The tensor (a very long name is cut).
        tensor: Its id in the session.
        node: Index of the node that made it; -1 for an input of the model.
        role: As in its record.
        dtype: Type on the device.
        shape: Shape on the device.
        entire: The run as it was: each node read what the device had made before.
        single: The node alone, on golden operands: its own error.
        reason: Why it differs, where that can be told.
        told: One line with the numbers behind ``reason``.
        evidence: These numbers (JSON values).
        differs: Beyond what was given as tolerance (or what its number format allows), or
            not comparable by shape.
    """

    name: str
    tensor: int
    node: int
    role: str = "activation"
    dtype: str = ""
    shape: tuple[int, ...] = ()
    entire: Closeness | None = None
    single: Closeness | None = None
    reason: Reason = ""
    told: str = ""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    differs: bool = False


class GoldenRecord(Record, frozen=True):
    """A session's golden comparison.

    Attributes:
        what: What the run was compared with (``ONNX Runtime 1.20 …``, a file).
        origin: Where the golden values come from.
        optimised: Whether the golden run was optimised (fused); None if not known.
        mode: ``entire``, ``single`` or ``both``.
        rows: In execution order.
        first: Index in ``rows`` of the first that differs, -1 for none.
        compared: Tensors compared.
        differing: Of these, tensors beyond tolerance.
        left_off: Rows not kept.
        unmatched: Golden names (some) that the run has no tensor for.
        notes: One line each: what was assumed.
    """

    what: str
    origin: Origin = "measured"
    optimised: bool | None = None
    mode: str = "entire"
    rows: tuple[GoldenRow, ...] = ()
    first: int = -1
    compared: int = 0
    differing: int = 0
    left_off: int = 0
    unmatched: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
