"""Finite but wrong: saturation, constant outputs, collapsed and dead channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.made import made
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Origin, Subject, TensorRecord
from npudbg.session.text import safe

_SATURATED = 0.01
_MIN_SATURATED = 8
_FEW_LEVELS = 2
_MANY_LEVELS = 8
_MAX_ELEMENTS = 1 << 24


def _origin(session: Session) -> Origin:
    return "simulated" if session.meta.backend == "simulated" else "measured"


@rule(4, "O403")
def saturated(case: Case) -> Iterator[Finding]:
    """Values at the limit of a narrow type, one in a hundred or more."""
    session = case.session
    if session is None:
        return
    for tensor in made(session):
        stats = tensor.stats
        if stats is None or tensor.role not in ("activation", "output") or tensor.producer < 0:
            continue
        if tensor.dtype not in ("<f2", "bfloat16") and tensor.quantization is None:
            continue
        at_limit = stats.at_max + (stats.at_min if tensor.quantization is None else 0)
        if at_limit < _MIN_SATURATED and not (at_limit and tensor.dtype == "<f2"):
            continue
        if tensor.quantization is not None and (
            stats.at_max < _SATURATED * stats.count or stats.min == stats.max
        ):
            continue
        yield finding(
            "O403",
            Subject(
                kind="tensor", name=safe(tensor.name), tensor=tensor.id, node=tensor.producer
            ),
            f"{safe(tensor.name)}: {at_limit} of {stats.count} values stand at the limit of "
            f"{tensor.dtype}",
            evidence={
                "at_limit": at_limit, "elements": stats.count, "dtype": tensor.dtype,
                "at_max": stats.at_max, "at_min": stats.at_min,
            },
            fix="calibrate with inputs of this range, or keep the node in a wider type",
            origin=_origin(session),
        )  # fmt: skip


@rule(4, "O404")
def constant_output(case: Case) -> Iterator[Finding]:
    """A model output with one value throughout."""
    session = case.session
    if session is None:
        return
    for tensor in made(session):
        stats = tensor.stats
        if tensor.role != "output" or stats is None or stats.count < 2 or stats.nonfinite:
            continue
        if stats.min != stats.max or tensor.dtype.startswith("|b"):
            continue
        yield finding(
            "O404",
            Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
            f"output {safe(tensor.name)}: all {stats.count} elements are {stats.min:g}",
            evidence={"value": stats.min, "elements": stats.count},
            fix="check the input's normalisation and type first",
            certainty="suspected",
            origin=_origin(session),
        )


@rule(4, "O405", "O406")
def channels(case: Case) -> Iterator[Finding]:
    """Channels of the outputs that carry nothing while others do."""
    session = case.session
    if session is None:
        return
    for tensor in made(session):
        if tensor.role != "output" or tensor.stats is None or len(tensor.shape) < 2:
            continue
        grid = _levels(session, tensor)
        if grid is not None and grid.size <= _MAX_ELEMENTS:
            yield from collapse(tensor, grid, *_step(session, tensor), _origin(session))


def collapse(
    tensor: TensorRecord,
    levels: npt.NDArray[Any],
    scale: float | None,
    zero_point: int,
    origin: Origin = "simulated",
) -> Iterator[Finding]:
    """Find channels (axis 1, or the last) that use one or two levels while another uses many.

    Args:
        tensor: Its record.
        levels: Integer levels, same shape.
        scale: Real step of a level, if known.
        zero_point: Level of the value 0.
        origin: Where the values come from.
    """
    axis = 1 if levels.ndim > 2 or levels.shape[0] == 1 else levels.ndim - 1
    lanes = np.moveaxis(levels, axis, 0).reshape(levels.shape[axis], -1)
    if lanes.shape[0] < 2 or lanes.shape[0] > 4096 or lanes.shape[1] < 2:
        return
    counts = np.array([len(np.unique(lane)) for lane in lanes])
    few = np.flatnonzero(counts <= _FEW_LEVELS)
    if not len(few) or counts.max() < min(_MANY_LEVELS, lanes.shape[1]) or len(few) == len(counts):
        return
    top = float(np.abs(lanes[few].astype(np.float64) - zero_point).max()) * (scale or 1.0)
    yield finding(
        "O405",
        Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id, node=tensor.producer),
        f"{safe(tensor.name)}: channels {_ranges(few)} use {int(counts[few].max())} of 256 levels "
        f"(largest value {top:.4g}), others up to {int(counts.max())}"
        + (f"; one level is {scale:.4g}" if scale else ""),
        evidence={
            "channels": [int(c) for c in few[:64]],
            "levels": int(counts[few].max()),
            "levels_elsewhere": int(counts.max()),
            "scale": scale,
            "axis": axis,
        },
        fix="give the parts as separate outputs, or quantise per channel",
        origin=origin,
    )


def _levels(session: Session, tensor: TensorRecord) -> npt.NDArray[Any] | None:
    """Return a tensor's integer levels: its own, or those of the Q/DQ pair that made it."""
    array = session.array(tensor)
    if array is None:
        return None
    if array.dtype.kind in "iu" and array.dtype.itemsize == 1:
        return array
    source = _dequantised_from(session, tensor)
    return None if source is None else session.array(source)


def _dequantised_from(session: Session, tensor: TensorRecord) -> TensorRecord | None:
    if not 0 <= tensor.producer < len(session.nodes):
        return None
    node = session.nodes[tensor.producer]
    if node.op_type != "DequantizeLinear" or node.inputs[0] < 0:
        return None
    source = session.tensors[node.inputs[0]]
    return source if source.dtype in ("|i1", "|u1") else None


def _step(session: Session, tensor: TensorRecord) -> tuple[float | None, int]:
    """Return scale and zero point behind a tensor's levels, where they are one each."""
    if tensor.quantization is not None and len(tensor.quantization.scale) == 1:
        return tensor.quantization.scale[0], tensor.quantization.zero_point[0]
    source = _dequantised_from(session, tensor)
    if source is None:
        return None, 0
    node = session.nodes[tensor.producer]
    values = [
        session.array(session.tensors[i]) if i >= 0 else None for i in (*node.inputs, -1, -1)[1:3]
    ]
    scale, zero = values
    if scale is None or scale.size != 1:
        return None, 0
    return float(scale.reshape(-1)[0]), 0 if zero is None else int(zero.reshape(-1)[0])


def _ranges(numbers: npt.NDArray[Any]) -> str:
    """Return ``4-6, 9`` for 4, 5, 6, 9."""
    parts: list[str] = []
    start = last = int(numbers[0])
    for n in [*map(int, numbers[1:]), -1]:
        if n == last + 1:
            last = n
            continue
        parts.append(str(start) if start == last else f"{start}-{last}")
        start = last = n
        if len(parts) == 8:
            return ", ".join(parts) + ", …"
    return ", ".join(parts)
