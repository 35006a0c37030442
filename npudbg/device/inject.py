"""Touching a run: bytes changed at a moment, and the group that has to live with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npudbg.device.emit import Action
from npudbg.device.execute import GroupExecutor
from npudbg.device.memory import bytes_of
from npudbg.device.numerics import Stored
from npudbg.device.tiling import Step
from npudbg.session.commands import Kind, Space, Status

if TYPE_CHECKING:
    from npudbg.device.machine import Machine


@dataclass(frozen=True, slots=True)
class Injection:
    """Bytes written into a space right after a command.

    Attributes:
        after: Command number.
        space: Where (``SRAM`` or ``DDR``).
        address: First byte.
        data: The bytes.
    """

    after: int
    space: Space
    address: int
    data: bytes


def execute_touched(machine: Machine, steps: Sequence[Step], actions: Sequence[Action]) -> None:
    """Execute a group on bytes, applying what is injected between its commands.

    SRAM is kept in step even for groups that nothing touches, so that whatever a
    later fault leaves unread is what was really there.
    """
    sram = machine.sram
    assert sram is not None
    values = machine.values
    first, last = (actions[0].seq, actions[-1].seq) if actions else (0, -1)
    hits = {i.after: i for i in machine.injections if first <= i.after <= last}

    def compute(number: int, operands: Sequence[Any]) -> list[Any]:
        return compute_step(machine, steps[number], operands)

    executor = GroupExecutor(sram, steps, values, compute)
    goals: dict[str, Any] = {}
    for action in actions:
        name = action.region.tensor
        if action.kind == Kind.DMA_LOAD:
            executor.load(action, values[name].array)
        elif action.kind == Kind.KERNEL:
            executor.kernel(action)
        else:
            goal = goals.setdefault(name, executor.clean[name].copy())
            executor.store(action, goal)
        if (
            action.kind != Kind.DMA_STORE
            and hits_before(machine, action)
            and executor.differs(action)
        ):
            machine.writer.put_payload(action.seq, executor.written(action))
            machine.issuer.set_status(action.seq, Status.TOUCHED)
        hit = hits.get(action.seq)
        if hit is not None:
            poke(machine, hit)
    for name, goal in goals.items():
        values[name].data = goal
        allocation = values[name].allocation
        if allocation is not None:
            machine.ddr.place(allocation.address, goal)


def hits_before(machine: Machine, action: Action) -> bool:
    """Whether anything was injected before this command."""
    return any(i.after < action.seq for i in machine.injections)


def poke(machine: Machine, injection: Injection) -> None:
    """Write an injection's bytes."""
    data = np.frombuffer(injection.data, np.uint8)
    if injection.space == Space.SRAM:
        assert machine.sram is not None
        machine.sram.view(injection.address, data.size)[:] = data
        return
    for value in machine.values.values():
        if value.allocation is None:
            continue
        offset = injection.address - value.address
        if -data.size < offset < value.array.nbytes:
            # The recorded bytes belong to the session: change a copy.
            value.data = value.array.copy()
            raw = bytes_of(value.array)
            low, high = max(offset, 0), min(offset + data.size, raw.size)
            raw[low:high] = data[low - offset : high - offset]


def compute_step(machine: Machine, step: Step, operands: Sequence[Any]) -> list[Any]:
    """Run one node on full-size operands in the device's type; results in that type."""
    feeds = {}
    for name, operand in zip(step.reads, operands, strict=True):
        if not name or operand is None:
            continue
        value = machine.values[name]
        assert value.model_dtype is not None
        feeds[name] = machine.numerics.load(Stored(operand, value.quantization), value.model_dtype)
    node = machine.graph.nodes[step.node]
    results, _ = machine.runner.run(node.proto, feeds)
    return [
        machine.numerics.store(result, machine.values[name].quantization).array if name else None
        for name, result in zip(step.writes, results, strict=True)
    ]
