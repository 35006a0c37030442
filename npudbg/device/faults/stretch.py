"""Faults that cost time and change no byte: bank conflicts, a clock that drops."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npudbg.device.faults.touch import Touch
from npudbg.device.values import Value
from npudbg.session.commands import Kind

_CONFLICT = 3.0
"""Bank switches of one unaligned access, a practitioner's report (three, 230 ns)."""
_THROTTLED = 4.0


def stretching(
    touch: Touch, values: Mapping[str, Value]
) -> Callable[[int, int, int, int, int], int] | None:
    """Return what lengthens commands in this run, or None."""
    slow = [f for f in touch.faults if f.kind in ("bank-conflict", "clock-drop")]
    if not slow:
        return None
    for fault in slow:
        touch.faults.remove(fault)

    def stretch(seq: int, kind: int, tensor: int, tile: int, cycles: int) -> int:
        for fault in slow:
            if fault.kind == "clock-drop":
                if seq >= fault.int("seq", 0):
                    cycles = int(cycles * fault.numbers.get("factor", _THROTTLED))
                continue
            if kind not in (Kind.DMA_LOAD, Kind.DMA_STORE):
                continue
            if "seq" in fault.numbers:
                struck = fault.int("seq", -1) == seq
            else:
                value = values.get(fault.names.get("tensor", ""))
                struck = value is not None and value.id == tensor
                struck = struck and fault.int("tile", tile) == tile
                way = fault.names.get("way", "load")
                struck = struck and (kind == Kind.DMA_LOAD) == (way == "load")
            if struck:
                cycles = int(cycles * fault.numbers.get("factor", _CONFLICT))
        return cycles

    return stretch
