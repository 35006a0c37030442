"""What a comparison found, as records."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from npudbg.session.records import Record

Verdict = Literal["equal", "close", "diverges"]

ReasonName = Literal[
    "shape", "non-finite", "layout", "collapse", "dead-channels", "saturation", "scale", "offset",
    "unrelated", "isolated", "noise",
]  # fmt: skip


class Tolerance(Record, frozen=True):
    """When an element is a mismatch, and when a tensor diverges.

    An element mismatches where ``|got - golden| > atol + rtol * |golden|``.  A
    tensor diverges where *any* of the other limits is passed: no single metric
    decides that all is well.

    Attributes:
        atol: Absolute, in the tensor's unit.
        rtol: Relative to the golden element.
        cosine: Least cosine similarity.
        snr_db: Least ratio of signal to error, in dB.
        channel_snr_db: The same for every channel that carries a signal of its own.
        channels: Whether channels that are lost or dead count. Inside a quantised
            network some ordinarily are; in an output they are not.
    """

    atol: float = 1e-5
    rtol: float = 1e-3
    cosine: float = 0.99
    snr_db: float = 20.0
    channel_snr_db: float = 3.0
    channels: bool = True


class Channel(Record, frozen=True):
    """One channel's metrics.

    ``signal`` and ``error`` are root mean squares: of the golden values about
    their mean, and of the difference, over elements finite in both.  ``snr_db`` is None
    where one of them is 0.  ``lost`` counts elements that are NaN or Inf and ought not to.
    """

    index: int
    max_abs: float
    signal: float
    error: float
    snr_db: float | None
    cosine: float | None
    mismatches: int
    constant: bool = False
    lost: int = 0


class Metrics(Record, frozen=True):
    """Differences of two tensors of the same shape, over the elements finite in both.

    Attributes:
        elements: Number of elements.
        compared: Those that are finite in both.
        max_abs: Largest absolute difference.
        max_abs_at: Its coordinates.
        max_rel: Largest difference relative to the golden element (golden 0 left out).
        cosine: Cosine similarity; None where one tensor is zero throughout.
        correlation: Pearson's; None where one tensor is constant.
        snr_db: Ten times the logarithm of signal power over error power; None
            without an error or without a signal.
        euclidean: Euclidean length of the difference.
        bias: Mean of the difference.
        slope: Of the least-squares line ``got = slope * golden + intercept``.
        intercept: Of the same line.
        residual: Error power left after that line, relative to the power of ``got``
            about its mean.
        mismatches: Elements beyond the tolerance, non-finite ones that differ included.
        nonfinite_got: NaN and Inf elements of ``got``.
        nonfinite_golden: NaN and Inf elements of the golden tensor.
        argmax_equal: Rows whose largest element stands at the same place, as a
            fraction; None where there is no axis of classes.
        got_range: Least and greatest finite value.
        golden_range: Least and greatest finite value.
        channel_axis: Axis that ``channels`` are taken along, or None.
        channels: The worst channels, by error relative to their own signal.
        dead_channels: Channels constant in ``got`` and not in the golden tensor.
    """

    elements: int
    compared: int
    max_abs: float
    max_abs_at: tuple[int, ...]
    max_rel: float
    cosine: float | None
    correlation: float | None
    snr_db: float | None
    euclidean: float
    bias: float
    slope: float | None
    intercept: float | None
    residual: float | None
    mismatches: int
    nonfinite_got: int
    nonfinite_golden: int
    argmax_equal: float | None
    got_range: tuple[float, float] | None
    golden_range: tuple[float, float] | None
    channel_axis: int | None = None
    channels: tuple[Channel, ...] = ()
    dead_channels: tuple[int, ...] = ()


class Reason(Record, frozen=True):
    """One way in which two tensors differ, with the numbers that say so."""

    name: ReasonName
    message: str
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)


class LayoutMatch(Record, frozen=True):
    """A rearrangement of the golden tensor that ``got`` equals.

    Attributes:
        kind: ``transposed``, ``reinterpreted``, ``reinterpreted-transposed``,
            ``packed-channels``, ``padded``, ``reversed``, ``channel-order``, ``shifted``,
            ``byte-swapped`` or ``batch-late``.
        message: One line.
        permutation: Axes of the golden tensor in the order in which the buffer has
            them, outermost first; empty where no axis moved.
        buffer_shape: Shape of the buffer as it really lies, padding included.
        axis: Axis of the golden tensor that is padded, reversed, packed or late.
        pitch: Elements a step of the padded axis really takes.
        block: Channels a block (C2) of a packed layout.
        shift_bytes: Bytes by which the data stand too late (negative: too early).
        before: Fraction of elements equal as they are read now.
        after: Fraction equal once read as stated.
        informative: The same of the elements that are not the most common value.
        exact: Fraction equal to the last bit once read as stated.
        tolerance: Largest difference that counted as equal.
        same_values: Whether both hold the same values, order aside (None: sizes differ).
    """

    kind: str
    message: str
    permutation: tuple[int, ...] = ()
    buffer_shape: tuple[int, ...] = ()
    axis: int | None = None
    pitch: int | None = None
    block: int | None = None
    shift_bytes: int | None = None
    before: float = 0.0
    after: float = 0.0
    informative: float = 0.0
    exact: float = 0.0
    tolerance: float = 0.0
    same_values: bool | None = None


class Comparison(Record, frozen=True):
    """Two tensors held side by side.

    Attributes:
        verdict: ``equal`` within the tolerance, ``close`` (mismatches, but no limit
            of divergence passed), or ``diverges``.
        message: One line: the verdict and the numbers behind it.
        failed: Names of the metrics that passed their limits.
        got_shape: Shape of the tensor judged.
        golden_shape: Shape of the golden tensor.
        metrics: None where the shapes cannot be compared element by element.
        reasons: Why they differ, the strongest reason first.
        layout: The layout mistake that explains all, if there is one.
        tolerance: What was tolerated.
    """

    verdict: Verdict
    message: str
    failed: tuple[str, ...] = ()
    got_shape: tuple[int, ...] = ()
    golden_shape: tuple[int, ...] = ()
    metrics: Metrics | None = None
    reasons: tuple[Reason, ...] = ()
    layout: LayoutMatch | None = None
    tolerance: Tolerance = Tolerance()
