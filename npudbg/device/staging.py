"""From a host buffer to the device's copy of an input, and back to the host's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npudbg.device import absence, coherency
from npudbg.device.memory import OPEN_BUS
from npudbg.device.poking import seen_at_the_end
from npudbg.device.stopping import StoppedError
from npudbg.device.values import Value
from npudbg.session.commands import Status
from npudbg.session.errors import UserError
from npudbg.session.text import safe

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
        read = coherency.read_unflushed(
            machine.target.cache, buffer.address - lost, _frame_before(raw), raw_bytes
        )
        raw = np.frombuffer(read, native).reshape(data.shape)
    if machine.touch.take("torn-line", tensor=name) is not None:
        raw = np.frombuffer(_torn(machine, name, buffer, raw), native).reshape(data.shape)
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
    if stored.array is raw:
        try:
            absence.strike(machine, value.by)
        except StoppedError:
            machine.recorder.never_made.add(value.id)
            raise
    memory.record(value)


def _frame_before(raw: np.ndarray[Any, Any]) -> bytes:
    """Return what memory holds of the frame before: another picture, this one mirrored."""
    return np.ascontiguousarray(raw[..., ::-1] if raw.ndim else raw).tobytes()


def _torn(machine: Machine, name: str, buffer: HostBuffer, raw: np.ndarray[Any, Any]) -> bytes:
    """A neighbour's cache line is written back over what another device put into an input.

    Raises:
        UserError: The buffer lies on whole lines.
    """
    cache, nbytes = machine.target.cache, raw.nbytes
    others = {n: (b.address, len(b.raw)) for n, b in machine.inputs.items() if n != name and b.raw}
    beside = coherency.neighbour_of(cache, buffer.address, nbytes, others) if nbytes else None
    if beside is None:
        line = coherency.line_bytes(cache)
        raise UserError(
            f"--fault torn-line: {safe(name)!r} at {buffer.address:#x} lies on whole cache lines "
            f"of {line} bytes, which nothing can tear; place it elsewhere with --host-address "
            f"{safe(name)}={buffer.address + line // 2:#x}"
        )
    if beside.name is not None:
        touched = max(others[beside.name][0], beside.line)
    else:
        touched = beside.line if beside.line < buffer.address else buffer.address + nbytes
    machine.host.flush_line(machine.host_ids.get(beside.name or "", -1), beside.line)
    return coherency.read_torn(
        cache, buffer.address, _frame_before(raw), raw.tobytes(), beside.line, touched
    )


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
        held = coherency.read_undropped(
            machine.target.cache, value.address, bytes(value.array.nbytes), value.array.tobytes()
        )
        seen = Value(
            f"{name}@host", memory.new_id(), "output",
            np.frombuffer(held, value.array.dtype).reshape(value.array.shape),
            value.model_dtype, value.quantization, producer=value.producer,
        )  # fmt: skip
        outputs[name] = memory.model_value(seen)
        memory.record(seen)
    return outputs


def _write_back(machine: Machine, value: Value, number: int) -> None:
    """A dirty line that covers a part of an output leaves the host's cache after the DMA."""
    array = value.array
    if not array.nbytes:
        return
    # The host had cleared the buffer (memset) and not cleaned it.
    held, address, length = coherency.after_eviction(
        machine.target.cache, value.address, bytes(array.nbytes), array.tobytes(), number
    )
    value.data = np.frombuffer(held, array.dtype).reshape(array.shape).copy()
    machine.host.write_back(value, address, length)
    machine.writer.put_payload(machine.issuer.next_seq - 1, bytes(length))
