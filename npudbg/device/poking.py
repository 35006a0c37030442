"""Memory that changes though no command writes it, and who reads it then.

The record of a tensor holds what commands wrote.  What came over it since stands in
``told`` (the recorded bytes beside the changed ones) and in the session's list of
silent changes; a command that reads such a range has its operand bytes kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npudbg.device.emit import Action, span
from npudbg.device.faults.touch import Injection
from npudbg.device.kernels.base import slices
from npudbg.device.memory import Bytes, bytes_of
from npudbg.device.values import Value
from npudbg.session.commands import Kind, Space
from npudbg.session.errors import UserError
from npudbg.session.silent import KEY, Silent

if TYPE_CHECKING:
    from npudbg.device.machine import Machine


def poke(machine: Machine, injection: Injection, goals: Mapping[str, Any]) -> None:
    """Write an injection's bytes; no command knows of it.

    Args:
        machine: The device.
        injection: What is written where.
        goals: Tensors that a group is making, as DDR holds them so far.
    """
    data = np.frombuffer(injection.data, np.uint8)
    if injection.space == Space.SRAM:
        sram = machine.sram
        assert sram is not None
        low, high = injection.address, injection.address + data.size
        end = sram.base + sram.data.size
        low, high = max(low, sram.base), min(high, end)
        if low >= high:
            raise UserError(
                f"sram {injection.address:#x} cannot change: SRAM lies from {sram.base:#x} to "
                f"{end - 1:#x}"
            )
        part, view = data[low - injection.address :], sram.view(low, high - low)
        view[:] = view ^ part[: view.size] if injection.flip else part[: view.size]
        silent(machine, injection.after, Space.SRAM, low, view)
        return
    now = data
    if injection.flip:
        now = data ^ held_bytes(machine, injection.address, data.size, goals)
    overwrite(machine, injection.address, now, goals)
    silent(machine, injection.after, Space.DDR, injection.address, now)


def overwrite(machine: Machine, address: int, now: Bytes, goals: Mapping[str, Any]) -> None:
    """Change a range of DDR, whatever lies there; records stay as commands had left them.

    Args:
        machine: The device.
        address: First byte.
        now: The bytes.
        goals: Tensors that a group is making, as DDR holds them so far.
    """
    for name, value in machine.values.items():
        if value.allocation is None:
            continue
        offset = address - value.address
        if not -now.size < offset < value.array.nbytes:
            continue
        # The recorded bytes belong to the session: change a copy.
        told = machine.recorder.told
        if name in goals:
            told.setdefault(value.id, goals[name].copy())
        else:
            told.setdefault(value.id, value.array)
            value.data = value.array.copy()
        raw = bytes_of(goals.get(name, value.data))
        low, high = max(offset, 0), min(offset + now.size, raw.size)
        raw[low:high] = now[low - offset : high - offset]
    machine.ddr.place(address, now.copy())


def silent(machine: Machine, after: int, space: Space, address: int, data: Bytes) -> None:
    """Let the session know of bytes that changed right after a command."""
    if data.size:
        changes = machine.touch.silent
        changes.append(Silent(after, int(space), address, data.tobytes()))
        machine.writer.set_extra(KEY, changes)


def seen_by_load(machine: Machine, action: Action) -> None:
    """Keep what a LOAD reads from DDR where it is not what commands had left there."""
    value = machine.values[action.region.tensor]
    recorded, array = machine.recorder.told.get(value.id), value.array
    if recorded is None:
        return
    box = slices(action.region.box)
    if array[box].tobytes() != recorded[box].tobytes():
        offset, length = span(array.shape, action.region.box, array.dtype.itemsize)
        held = bytes_of(array)[offset : offset + length]
        machine.writer.put_observed(action.seq, -1, held.tobytes())


def seen_by_host(machine: Machine, reads: Sequence[Value], writes: Sequence[Value]) -> None:
    """Keep the operands of an operator on the CPU where commands had left others."""
    for operand, value in enumerate(reads):
        held = _changed(machine, value)
        if held is None:
            continue
        for seq in {v.by for v in writes if v.allocation is not None}:
            machine.writer.put_observed(seq, operand, held)


def seen_at_the_end(machine: Machine, outputs: Sequence[Value]) -> None:
    """Keep outputs as the host reads them where commands had left others.

    The wait for the job is the command that stands for the host's read.
    """
    issuer = machine.issuer
    if issuer.last_kind() not in (Kind.WAIT, Kind.INVALIDATE):
        return
    seq = issuer.next_seq - 1
    for operand, value in enumerate(outputs):
        held = _changed(machine, value)
        if held is not None:
            issuer.reads(
                seq, Space.DDR, value.address, value.array.nbytes, value.id, operand, value.by
            )
            machine.writer.put_observed(seq, operand, held)


def _changed(machine: Machine, value: Value) -> bytes | None:
    """Return a value's bytes if they are not those of its record."""
    recorded = machine.recorder.told.get(value.id)
    if recorded is None or value.allocation is None:
        return None
    held = value.array.tobytes()
    return held if held != recorded.tobytes() else None


def held_bytes(machine: Machine, address: int, nbytes: int, goals: Mapping[str, Any]) -> Bytes:
    """Return what DDR holds in a range."""
    out = machine.ddr.read(address, nbytes)
    for name, value in machine.values.items():
        if value.allocation is None:
            continue
        raw = bytes_of(goals.get(name, value.data))
        offset = address - value.address
        low, high = max(offset, 0), min(offset + nbytes, raw.size)
        if low < high:
            out[low - offset : high - offset] = raw[low:high]
    return out
