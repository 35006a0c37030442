"""The range of an input's values against the normalisation that the model expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.entrance import entrance
from npudbg.layers.expected import pairs
from npudbg.layers.findings import finding, rule
from npudbg.layers.normalisation import (
    Array,
    Normalisation,
    channel_axis,
    declared,
    ends_of,
    sample_pixels,
    whole_share,
)
from npudbg.layers.words import is_float, number, of_tensor, readable, sample, span
from npudbg.session.records import Finding
from npudbg.session.scan import scan
from npudbg.session.text import safe

_SLACK = 0.1
"""How far beyond the range interpolation may reach, in ranges."""

_NEAR = 6.0
"""Channel means nearer than this, in pixel values, count as the same."""

_BRIGHT = 32.0
"""A maximum from here on is no ordinary value after normalisation."""


@rule(2, "I240", "I241", "I242", "I243", "I244")
def against_declared(case: Case) -> Iterator[Finding]:
    """Values against ``--mean``, ``--std`` and ``--scale``."""
    for host, _ in pairs(case):
        said = case.preprocessing.get(host.name)
        norm = declared(said)
        if norm is None or said is None or host.name in case.synthesised:
            continue
        if not readable(host) or not is_float(host.array):
            continue
        axis = channel_axis(host, said.layout)
        channels = 1 if axis is None else host.array.shape[axis]
        if len(norm.mean) not in (1, channels) or len(norm.std) not in (1, channels):
            yield _count(host, norm, channels)
            continue
        if len(norm.mean) == len(norm.std) == 1:
            axis = None
        yield from _judge(host, norm, axis)


@rule(2, "I240", "I241")
def against_usage(case: Case) -> Iterator[Finding]:
    """Images that look like pixels, or like pixels divided twice, where nothing was declared."""
    for host, _ in pairs(case):
        if declared(case.preprocessing.get(host.name)) or host.name in case.synthesised:
            continue
        if not readable(host) or not is_float(host.array):
            continue
        if channel_axis(host, None) is None or entrance(case.graph, host.name).normalises:
            continue
        stats = host.record.stats or scan(host.array)
        if stats is None or stats.nonfinite or stats.min is None or stats.max is None:
            continue
        low, high = stats.min, stats.max
        if low == high or low < 0:
            continue
        evidence = {"min": low, "max": high, "mean": stats.mean}
        if _BRIGHT < high <= 255:
            yield finding(
                "I240",
                of_tensor(host),
                f"{safe(host.name)}: values {span(low, high)} look like pixels that were never "
                "normalised, and the model begins without a normalisation of its own",
                evidence=evidence,
                fix="x = (x / 255 - mean) / std, or state what the model expects with "
                "--mean, --std, --scale",
                severity="warning",
                certainty="suspected",
            )
        elif high <= 1.001 / 255 and len(np.unique(sample(host.array))) > 2:
            yield finding(
                "I241",
                of_tensor(host),
                f"{safe(host.name)}: values {span(low, high)} look like pixels divided by 255 "
                f"twice (1/255 is {1 / 255:.4g})",
                evidence=evidence,
                fix="divide once",
                severity="warning",
                certainty="suspected",
            )


def _judge(host: HostTensor, norm: Normalisation, axis: int | None) -> Iterator[Finding]:
    lows, highs = ends_of(host.array, axis)
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        return  # layer 1 says so
    once = _range(norm.once, np.array([0.0, norm.full]))
    evidence = _evidence(norm, lows, highs, once)
    where = f"values {span(lows.min(), highs.max())}"
    wants = f"expected {span(once[:, 0].min(), once[:, 1].max())} = {norm}"
    if not _within(lows, highs, once):
        yield _beyond(host, norm, lows, highs, once, evidence, where, wants)
        return
    twice = _range(norm.once, once)
    if norm.factor < 1 and (highs > lows).any() and _within(lows, highs, twice):
        yield finding(
            "I241",
            of_tensor(host),
            f"{safe(host.name)}: {where} are what normalising twice gives "
            f"({span(twice[:, 0].min(), twice[:, 1].max())}); {wants}",
            evidence={**evidence, "twice": twice.tolist()},
            fix="normalise once",
            severity="warning",
            certainty="suspected",
        )
        return
    scaled = norm.full * norm.factor
    if once[:, 0].max() < -0.5 and lows.min() >= 0 and 0.05 * scaled < highs.max() <= scaled:
        yield finding(
            "I242",
            of_tensor(host),
            f"{safe(host.name)}: {where} lie in 0 to {number(scaled)}: scaled, but mean and std "
            f"not applied; {wants}",
            evidence=evidence,
            fix="x = (x - mean) / std",
            severity="warning",
            certainty="suspected",
        )
        return
    if axis is not None:
        yield from _channel_order(host, norm, axis)


def _beyond(
    host: HostTensor, norm: Normalisation, lows: Array, highs: Array, once: Array,
    evidence: dict[str, Any], where: str, wants: str,
) -> Finding:  # fmt: skip
    if lows.min() >= 0 and 4 * once[:, 1].max() < highs.max() <= norm.full * 1.01:
        return finding(
            "I240",
            of_tensor(host),
            f"{safe(host.name)}: {where} were never normalised; {wants}",
            evidence=evidence,
            fix=f"x = {norm} with mean {_listed(norm.mean)} and std {_listed(norm.std)}",
        )
    shifted = _range(norm.shift, once)
    if norm.factor < 1 and _within(lows, highs, shifted):
        return finding(
            "I241",
            of_tensor(host),
            f"{safe(host.name)}: {where} are what mean and std give when applied twice "
            f"({span(shifted[:, 0].min(), shifted[:, 1].max())}); {wants}",
            evidence={**evidence, "twice": shifted.tolist()},
            fix="normalise once",
        )
    width = once[:, 1] - once[:, 0]
    beyond = np.maximum(once[:, 0] - lows, highs - once[:, 1]) / width
    return finding(
        "I242",
        of_tensor(host),
        f"{safe(host.name)}: {where} lie outside of what normalised pixels can be; {wants}",
        evidence={**evidence, "beyond": float(beyond.max())},
        fix="compare the preprocessing with the one that the model was trained with",
        severity="warning",
    )


def _channel_order(host: HostTensor, norm: Normalisation, axis: int) -> Iterator[Finding]:
    """Tell which statistics were used by which of them lead back to whole pixels."""
    if host.array.shape[axis] != 3 or len(set(norm.mean.tolist())) < 3:
        return
    part, size = sample_pixels(host.array, axis), host.array.dtype.itemsize
    right = whole_share(norm.undo(part), norm.full, size)
    turned = whole_share(norm.reversed().undo(part), norm.full, size)
    pixels = norm.undo(part).mean(axis=0)
    evidence = {
        "whole_pixels": right,
        "whole_pixels_reversed": turned,
        "mean_pixels": [float(p) for p in pixels],
        "mean_expected": [float(m / norm.factor) for m in norm.mean],
    }
    if right < 0.5 and turned > 0.95:
        yield finding(
            "I243",
            of_tensor(host),
            f"{safe(host.name)}: {turned:.0%} of the values lead back to whole pixels with the "
            f"channels' mean and std in reverse order, {right:.0%} in the order given: BGR was "
            "normalised as RGB, or the reverse",
            evidence=evidence,
            fix="swap the channels first (x[..., ::-1] on HWC, then copy), then normalise",
        )
        return
    wanted = norm.mean / norm.factor
    near = float(np.abs(pixels - wanted).max())
    near_turned = float(np.abs(pixels - wanted[::-1]).max())
    # One picture proves nothing; means that match the reversed order closely are a hint.
    if near_turned < _NEAR and near > 2 * near_turned + _NEAR:
        yield finding(
            "I243",
            of_tensor(host),
            f"{safe(host.name)}: channel means {_listed(pixels)} are those expected in reverse "
            f"({_listed(wanted)}): BGR and RGB may be swapped",
            evidence=evidence,
            fix="check the channel order of the decoder (OpenCV gives BGR)",
            severity="info",
            certainty="suspected",
        )


def _count(host: HostTensor, norm: Normalisation, channels: int) -> Finding:
    given = max(len(norm.mean), len(norm.std))
    return finding(
        "I244",
        of_tensor(host),
        f"{safe(host.name)}: {given} values of mean or std were stated, and the tensor has "
        f"{channels} channels",
        evidence={"given": given, "channels": channels, "shape": list(host.record.shape)},
        fix="state one value, or one a channel (--layout tells where the channels are)",
        origin="declared",
    )


def _range(function: Any, ends: Array) -> Array:
    """Return per channel the lowest and highest value that a function makes of a range.

    Args:
        function: Monotonic, one value a channel.
        ends: ``(2,)``, or one pair a channel.
    """
    pairs_ = np.atleast_2d(ends)
    return np.sort(np.stack([function(pairs_[:, 0]), function(pairs_[:, 1])], axis=-1), axis=-1)


def _within(lows: Array, highs: Array, ranges: Array) -> bool:
    slack = _SLACK * (ranges[:, 1] - ranges[:, 0])
    return bool((lows >= ranges[:, 0] - slack).all() and (highs <= ranges[:, 1] + slack).all())


def _evidence(norm: Normalisation, lows: Array, highs: Array, once: Array) -> dict[str, Any]:
    return {
        "min": lows.tolist(),
        "max": highs.tolist(),
        "expected": once.tolist(),
        "mean": norm.mean.tolist(),
        "std": norm.std.tolist(),
        "factor": norm.factor,
    }


def _listed(values: Array) -> str:
    return ",".join(number(v) for v in values)
