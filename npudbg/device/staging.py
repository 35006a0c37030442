"""From a host buffer to the device's copy of an input, and back to the host's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npudbg.device.memory import OPEN_BUS, bytes_of
from npudbg.device.poking import seen_at_the_end
from npudbg.device.values import Value
from npudbg.session.commands import Status

if TYPE_CHECKING:
    from npudbg.device.machine import Machine


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """An input in host memory, as a driver is handed it.

    Attributes:
        array: The program's array, with its strides and byte order; or a sequence or
            other Python value for an input that is no tensor.
        address: Where element 0 is said to lie.
        raw: What a copy of ``nbytes`` from that address reads.
    """

    array: Any
    address: int
    raw: bytes


def stage_input(machine: Machine, name: str, buffer: HostBuffer, host_id: int) -> None:
    """Hand an input over: the device reads raw bytes from its address."""
    memory, data = machine.memory, buffer.array
    uses = memory.uses(name)
    if not isinstance(data, np.ndarray) or data.dtype.kind in "OSUT":
        number = host_id if host_id >= 0 else memory.new_id()
        memory.values[name] = Value(name, number, "input", data, uses=uses)
        memory.values[name].recorded = host_id >= 0
        return
    raw_bytes = buffer.raw
    alignment = machine.target.dma.base_alignment or 1
    lost = buffer.address % alignment
    if lost:
        # The engine has no wires for the low address bits: it starts at the aligned
        # address below, where memory that is not the tensor's lies.
        unknown = bytes([OPEN_BUS]) * min(lost, len(raw_bytes))
        raw_bytes = unknown + raw_bytes[: len(raw_bytes) - len(unknown)]
    native = data.dtype.newbyteorder("=")
    raw = np.frombuffer(raw_bytes, np.uint8).copy().view(native).reshape(data.shape)
    unflushed = machine.touch.take("missing-flush", tensor=name) is not None
    if unflushed:
        # What DDR still holds is the frame before; this one was another picture.
        raw = np.ascontiguousarray(raw[..., ::-1] if raw.ndim else raw)
    stored = machine.numerics.store(raw, name=name)
    value = Value(
        f"{name}@ddr", memory.new_id(), "input", stored.array, native, stored.quantization,
        uses=uses,
    )  # fmt: skip
    memory.allocate(value)
    memory.settle(value)
    machine.host.stage(
        value,
        buffer.address - lost,
        len(raw_bytes),
        converted=stored.array is not raw,
        flushed=not unflushed,
    )
    if lost:
        machine.issuer.set_status(value.by, Status.FAULT)
    memory.values[name] = value
    memory.record(value)


def results(machine: Machine) -> dict[str, Any]:
    """Synchronise and return the outputs as the host reads them.

    Late write-backs strike here, and missing invalidates leave the host with what
    its cache holds.
    """
    memory, host = machine.memory, machine.host
    produced = {n: memory.values[n] for n in memory.outputs if n in memory.values}
    placed = {n: v for n, v in produced.items() if v.allocation is not None}
    for name, value in placed.items():
        fault = machine.touch.take("late-writeback", tensor=name)
        if fault is not None:
            _write_back(machine, value, fault.int("line", 0))
    stale = {n for n in placed if machine.touch.take("missing-invalidate", tensor=n) is not None}
    host.synchronise(list(placed.values()), skip={placed[n].id for n in stale})
    seen_at_the_end(machine, list(placed.values()))
    outputs = {n: memory.model_value(v) for n, v in produced.items()}
    for name in stale:
        value = placed[name]
        # The lines that the host allocated and cleared are still in its cache.
        outputs[name] = np.zeros_like(outputs[name])
        seen = Value(
            f"{name}@host", memory.new_id(), "output", np.zeros_like(value.array),
            value.model_dtype, value.quantization, producer=value.producer,
        )  # fmt: skip
        memory.record(seen)
    return outputs


def _write_back(machine: Machine, value: Value, number: int) -> None:
    """A dirty line that covers a part of an output leaves the host's cache after the DMA."""
    line = machine.target.cache.line_bytes or 64
    value.data = value.array.copy()
    raw = bytes_of(value.array)
    offset = (number * line) % max(raw.size, 1)
    length = min(line, raw.size - offset)
    raw[offset : offset + length] = 0
    machine.host.write_back(value, value.address + offset, length)
    seq = machine.issuer.next_seq - 1
    machine.writer.put_payload(seq, bytes(length))
