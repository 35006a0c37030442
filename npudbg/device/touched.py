"""A group on real bytes: faults strike its transfers and kernels, pokes its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npudbg.device import absence, addressing
from npudbg.device.emit import Action
from npudbg.device.execute import GroupExecutor
from npudbg.device.faults.spec import Fault
from npudbg.device.faults.touch import Injection
from npudbg.device.kernels.base import slices
from npudbg.device.memory import Bytes, bytes_of
from npudbg.device.noderunner import NodeError
from npudbg.device.numerics import Stored
from npudbg.device.poking import poke, seen_by_load, silent
from npudbg.device.stopping import StoppedError
from npudbg.device.tiling import Step
from npudbg.device.values import Value
from npudbg.session.commands import Kind, Space, Status
from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.device.machine import Machine

_STEP = 64
"""Bytes by which a transfer whose low address bits are missing starts too early."""


class TouchedGroup:
    """Executes one group's actions on memory and records what differs.

    What a command wrote is kept (its payload) wherever it is not the bytes of
    the tensor it is said to have moved or made.
    """

    def __init__(self, machine: Machine, steps: Sequence[Step], actions: Sequence[Action]) -> None:
        """Prepare; outputs start as what DDR held at their addresses before.

        Tensors that never leave SRAM start as zeros.
        """
        assert machine.sram is not None
        self.machine, self.steps, self.actions = machine, steps, actions
        self.sram, self.values = machine.sram, machine.values
        self.executor = GroupExecutor(machine.sram, steps, machine.values, self._compute)
        self.goals = {
            name: self._start(machine.values[name]) for s in steps for name in s.writes if name
        }
        self.made: set[str] = set()
        self.written: dict[int, bytes] = {}
        self.late: list[tuple[Action, Bytes]] = []

    def run(self) -> None:
        """Execute every action.

        Raises:
            StoppedError: The device hung or refused an address.
        """
        first, last = (self.actions[0].seq, self.actions[-1].seq) if self.actions else (0, -1)
        pokes: dict[int, list[Injection]] = {}
        for each in self.machine.touch.due(0, last):
            if each.after < first:
                poke(self.machine, each, self.goals)
            else:
                pokes.setdefault(each.after, []).append(each)
        try:
            absence.strike(self.machine, first)
            for position, action in enumerate(self.actions):
                self._one(position, action)
                for each in pokes.get(action.seq, ()):
                    poke(self.machine, each, self.goals)
        finally:
            self._settle()

    def _one(self, position: int, action: Action) -> None:
        if action.kind == Kind.KERNEL:
            self._strike_kernel(position, action)
            try:
                self.executor.kernel(action)
            except NodeError as error:
                # Parameters that came out of memory can be nonsense too.
                self._land(action)
                self._stop(action, Status.FAULT, "fault", f"the kernel refused: {error}")
            self._keep_result(action)
            self._arrive(position, action)
        else:
            self._transfer(action)
            return
        self.written[action.seq] = self.sram.view(action.address, action.region.nbytes).tobytes()

    def _transfer(self, action: Action) -> None:
        machine = self.machine
        fault = machine.touch.transfer(action)
        away, refused = addressing.issue(machine, action, fault)
        if refused is not None:
            addressing.refuse(machine, refused, self.steps[0].node)
        if action.kind == Kind.DMA_LOAD:
            self._load(action, fault, away)
        else:
            self._store(action, fault, away)
        addressing.ended(machine, action, fault)

    def _keep_result(self, action: Action) -> None:
        """A tensor that never leaves SRAM is what its kernels made."""
        name = action.region.tensor
        if self.values[name].allocation is None:
            self.made.add(name)
            made = self.executor.region(action.region, action.address)
            self.goals[name][slices(action.region.box)] = made

    def _load(self, action: Action, fault: Fault | None, away: int) -> None:
        if away:
            data = addressing.load_from(self.machine, action, away, self.goals)
        else:
            data = self.executor.packed(action.region)
            seen_by_load(self.machine, action)
        if fault is not None and fault.kind == "misaligned-dma":
            data = self._from_below(action, fault.int("bytes", _STEP))
        if fault is not None and fault.kind == "late-dma":
            self.late.append((action, data))
            return
        self.sram.write(action.address, data[: self._length(fault, data.size)])
        self.written[action.seq] = self.sram.view(action.address, data.size).tobytes()
        self._replay(action)
        if fault is not None and fault.kind == "duplicated-dma":
            self.machine.touch.replays.append((action.address, data.copy()))

    def _replay(self, action: Action) -> None:
        """A transfer that is repeated falls on what was loaded to its place since."""
        touch = self.machine.touch
        for each in list(touch.replays):
            address, data = each
            overlap = address < action.address + action.region.nbytes and (
                action.address < address + data.size
            )
            if overlap:
                touch.replays.remove(each)
                end = min(data.size, action.address + action.region.nbytes - address)
                # Not a command of the program: only memory changes.
                self.sram.view(address, end)[:] = data[:end]
                silent(self.machine, action.seq, Space.SRAM, address, data[:end])

    def _store(self, action: Action, fault: Fault | None, away: int) -> None:
        name = action.region.tensor
        self.made.add(name)
        start = action.address
        if fault is not None and fault.kind == "misaligned-dma":
            start -= fault.int("bytes", _STEP)
        held = np.full(action.region.nbytes, 0xFF, np.uint8)
        low = max(start, self.sram.base)
        held[low - start :] = self.sram.view(low, action.region.nbytes - (low - start))
        if away:
            addressing.store_at(self.machine, action, away, held, self.goals)
            self.machine.issuer.set_status(action.seq, Status.TOUCHED)
            return
        moved = self._length(fault, held.size)
        box = slices(action.region.box)
        goal, told = self.goals[name], self.machine.recorder.told.get(self.values[name].id)
        for into in (goal,) if told is None else (goal, told):
            target = np.ascontiguousarray(into[box])
            bytes_of(target)[:moved] = held[:moved]
            into[box] = target

    def _length(self, fault: Fault | None, nbytes: int) -> int:
        if fault is None:
            return nbytes
        if fault.kind == "dropped-dma":
            return 0
        if fault.kind in ("short-dma", "length-overflow"):
            return self.machine.touch.moved(fault, nbytes)
        return nbytes

    def _from_below(self, action: Action, shift: int) -> Bytes:
        """A LOAD whose source begins ``shift`` bytes early: each run takes its neighbours."""
        value = self.values[action.region.tensor]
        array = value.array
        before = self.machine.ddr.read(value.address - shift, shift)
        raw = np.concatenate([before, bytes_of(array)])
        places = np.arange(array.nbytes).reshape((*array.shape, array.dtype.itemsize))
        return raw[places[slices(action.region.box)].reshape(-1)]

    def _arrive(self, position: int, action: Action) -> None:
        """Late transfers land once the kernels of their tile have read."""
        following = self.actions[position + 1] if position + 1 < len(self.actions) else None
        if following is None or following.kind != Kind.KERNEL:
            self._land(action)

    def _land(self, action: Action) -> None:
        for load, data in self.late:
            self.sram.write(load.address, data)
            self.written[load.seq] = data.tobytes()
            self.machine.issuer.delay(load.seq, action.seq)
        self.late = []

    def _strike_kernel(self, position: int, action: Action) -> None:
        label = self.machine.graph.nodes[self.steps[action.step].node].label
        if not self.machine.touch.faults:
            return
        rest = self.actions[position:]
        load = next((a for a in rest if a.kind == Kind.DMA_LOAD), None)
        store = next((a for a in rest if a.kind == Kind.DMA_STORE), None)
        circle = load is not None and store is not None
        fault = self.machine.touch.kernel(action, label, circle=circle)
        if fault is None:
            return
        if fault.kind == absence.LOST:
            absence.lose(self.machine, fault, self.actions[0].seq)
        if fault.kind in ("hang", absence.LOST):
            self._stop(action, Status.HUNG, "hung", "a kernel never ended")
        if load is None or store is None:
            raise UserError(
                f"--fault deadlock: {safe(label)} has no further tile whose load could wait for "
                "this one's store; name a node with more tiles"
            )
        last, first = max(load, store, key=_seq), min(load, store, key=_seq)
        self.machine.waits += [(first.seq, last.seq), (last.seq, first.seq)]
        for between in rest:
            if first.seq < between.seq < last.seq:
                self.machine.issuer.never_taken(between.seq)
        self.machine.issuer.set_status(first.seq, Status.HUNG)
        self._stop(last, Status.HUNG, "hung", "two DMA channels wait for each other")

    def _stop(self, action: Action, status: int, how: str, message: str) -> None:
        self.machine.issuer.set_status(action.seq, status)
        node = self.steps[max(action.step, 0)].node
        raise StoppedError(how, action.seq, node, message)

    def _start(self, value: Value) -> Any:
        array = value.array
        if value.allocation is None:
            return np.zeros(array.shape, array.dtype)
        raw = self.machine.ddr.read(value.address, array.nbytes)
        return raw.view(array.dtype).reshape(array.shape)

    def _settle(self) -> None:
        """Make the stored bytes the tensors', and keep what the record cannot tell else."""
        machine, recorder = self.machine, self.machine.recorder
        for name, goal in self.goals.items():
            value = self.values[name]
            value.data = goal
            if name not in self.made:
                recorder.never_made.add(value.id)
            if value.allocation is not None:
                machine.ddr.place(value.address, goal)
        for action in self.actions:
            data = self.written.get(action.seq)
            if data is None:
                continue
            value = self.values[action.region.tensor]
            array = recorder.told.get(value.id, value.array)
            said = np.ascontiguousarray(array[slices(action.region.box)]).tobytes()
            if data != said:
                machine.writer.put_payload(action.seq, data)
                machine.issuer.set_status(action.seq, Status.TOUCHED)
        for (seq, operand), data in self.executor.observed.items():
            machine.writer.put_observed(seq, operand, data)

    def _compute(self, number: int, operands: Sequence[Any]) -> list[Any]:
        machine, step = self.machine, self.steps[number]
        feeds = {}
        for name, operand in zip(step.reads, operands, strict=True):
            if not name or operand is None:
                continue
            value = machine.values[name]
            assert value.model_dtype is not None
            feeds[name] = machine.numerics.load(
                Stored(operand, value.quantization), value.model_dtype
            )
        results, _ = machine.arithmetic.run(machine.graph.nodes[step.node], feeds, device=True)
        return [
            machine.numerics.store(
                machine.replace.get(name, result), machine.values[name].quantization, name=name
            ).array
            if name
            else None
            for name, result in zip(step.writes, results, strict=True)
        ]


def _seq(action: Action) -> int:
    return action.seq
