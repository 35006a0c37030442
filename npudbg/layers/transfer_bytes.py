"""Which bytes a transfer moved: told from what arrived, what was meant and what lay there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import box_slices
from npudbg.session.memory.writes import Writes
from npudbg.session.records import TensorRecord

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
Source = tuple[Bytes, Places, int]
"""Memory around a source, the place in it of each byte moved, and where the source begins."""
_OPEN_BUS = 0xFF
MAX_SHIFT = 4096
_MAX_SOURCE = 64 << 20


def moved_bytes(
    meant: Bytes, got: Bytes, old: tuple[Bytes, npt.NDArray[np.bool_]] | None
) -> int | None:
    """Return how many leading bytes arrived if the rest was left alone, else None.

    What a destination held before is known only where a command had written it.
    """
    first = int((got != meant).argmax())
    if old is None:
        # Whatever lay there is not recorded: right bytes, then none that are right.
        return first if (got[first:] != meant[first:]).mean() > 0.5 else None
    before, known = old
    left = (got == before) | ~known
    # Right bytes that are not old ones must have been moved.
    arrived = np.flatnonzero((got == meant) & known & (got != before))
    moved = int(arrived[-1]) + 1 if len(arrived) else 0
    if not known.all():
        moved = max(moved, first if not known[:first].all() else 0)
    moved = min(moved, first)
    return moved if left[first:].all() else None


def source_of(writes: Writes, row: Any) -> Source | None:
    """Return DDR around a LOAD's source tensor, and the place of each byte it moves."""
    tensor = writes.session.tensors[int(row["tensor"])]
    array = writes.written.array(tensor.id)
    if array is None or array.nbytes > _MAX_SOURCE or tensor.address is None:
        return None
    below = _ddr_below(writes, tensor, int(row["seq"]))
    raw = np.concatenate([below, np.frombuffer(array.tobytes(), np.uint8)])
    places = np.arange(array.nbytes).reshape((*array.shape, array.dtype.itemsize))
    return raw, places[box_slices(row, array.ndim)].reshape(-1) + below.size, below.size


def _ddr_below(writes: Writes, tensor: TensorRecord, seq: int) -> Bytes:
    """Return what the record knows of DDR just below a tensor; elsewhere an open bus."""
    assert tensor.address is not None
    start = tensor.address - MAX_SHIFT
    out = np.full(MAX_SHIFT, _OPEN_BUS, np.uint8)
    for other in writes.session.tensors:
        if other.space != "ddr" or other.address is None or other.first_seq > seq:
            continue
        low, high = (
            max(other.address, start),
            min(other.address + other.base_nbytes, tensor.address),
        )
        array = writes.written.array(other.id) if low < high else None
        if array is not None:
            data = np.frombuffer(array.tobytes(), np.uint8)
            out[low - start : high - start] = data[low - other.address : high - other.address]
    return out


def shift_of(got: Bytes, raw: Bytes, places: Places, own: int) -> int:
    """Return by how many bytes the source was read too low, or 0.

    Args:
        got: What arrived.
        raw: Memory around the source.
        places: Where in it each byte lies that was meant.
        own: Where in it the source tensor begins: what lies below may have changed
            since, and decides only where nothing else can.
    """
    for shift in (1 << k for k in range(13)):
        low = places - shift
        inside = low >= own
        if int(inside.sum()) < max(8, shift // 4):
            inside = low >= 0
        if inside.any() and np.array_equal(raw[low[inside]], got[inside]):
            return shift
    return 0
