"""The simulated NPU: runs a graph, node group by node group, and records it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device import folding
from npudbg.device.emit import Emitter
from npudbg.device.execute import Sram
from npudbg.device.fusion import fuse, split_by_shape
from npudbg.device.hostside import HostSide
from npudbg.device.inject import Injection, execute_touched
from npudbg.device.issue import Issuer
from npudbg.device.kernels.base import Op
from npudbg.device.kernels.registry import kernel_for
from npudbg.device.mapping import Mapper
from npudbg.device.memory import OPEN_BUS, Allocator, Memory
from npudbg.device.noderunner import NodeError, NodeRunner
from npudbg.device.numerics import Numerics
from npudbg.device.recorder import Recorder
from npudbg.device.tiling import Step, tile_group
from npudbg.device.values import Allocation, Value
from npudbg.graph.ir import Graph, Node
from npudbg.session.commands import Status
from npudbg.session.records import MemoryRegion
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

Array = npt.NDArray[Any]
Progress = Callable[[int, int, str], None]

DEFAULT_SRAM_BYTES = 2 << 20
"""Where a profile knows no SRAM size."""


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


@dataclass(slots=True)
class Outcome:
    """How a run ended.

    ``status`` is ``complete``, ``failed``, ``hung`` or ``cancelled``.
    """

    status: str = "complete"
    message: str = ""
    node: int = -1
    outputs: dict[str, Any] | None = None


class Machine:
    """One run of one model on one target.

    Args:
        graph: The model, checked.
        target: The chip's profile.
        writer: The session that is recorded.
        precision: ``fp32``, ``fp16``, ``bf16`` or ``int8``.
        fused: Whether element-wise consumers run on the tile in SRAM.
        injections: What is done to memory or commands, by command number.
        progress: Called with nodes done, nodes in all and the node's label.
        cancel: Set to stop at the next group.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        writer: SessionWriter,
        *,
        precision: str = "fp32",
        fused: bool = True,
        injections: Sequence[Injection] = (),
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        """Power up."""
        self.graph, self.target, self.writer = graph, target, writer
        self.numerics = Numerics(
            precision, target.compute.saturate, target.compute.flush_subnormals
        )
        self.injections = tuple(injections)
        self._progress, self._cancel = progress, cancel
        self.runner = NodeRunner(graph.opset, graph.ir_version, graph.model.functions)
        self.recorder = Recorder(writer, graph)
        self.issuer = Issuer(target)
        self.emitter = Emitter(target, self.issuer, precision)
        self.mapper = Mapper(target, self.numerics)
        self.host = HostSide(target, self.issuer)
        alignment = max(64, target.dma.base_alignment or 1, target.tensor.base_alignment or 1)
        self.ddr_map = Allocator(target.memory.ddr_base, target.memory.ddr_bytes, alignment)
        self.ddr = Memory()
        self.sram_bytes = target.memory.sram_bytes or DEFAULT_SRAM_BYTES
        self.sram = Sram(target.memory.sram_base, self.sram_bytes) if injections else None
        self.values: dict[str, Value] = {}
        self._next_tensor = 0
        self._group = 0
        self.groups = fuse(graph, self.mapper.allowed, enabled=fused)
        self.stages: dict[str, list[dict[str, Any]]] = {"original": [], "fused": [], "mapped": []}
        self._outputs = {v.name for v in graph.outputs}

    # -- the run -------------------------------------------------------------------------

    def regions(self) -> tuple[MemoryRegion, ...]:
        """Return the machine's address spaces."""
        memory = self.target.memory
        return (
            MemoryRegion(space="ddr", base=memory.ddr_base, nbytes=memory.ddr_bytes),
            MemoryRegion(space="sram", base=memory.sram_base, nbytes=self.sram_bytes),
        )

    def run(self, inputs: Mapping[str, HostBuffer], host_ids: Mapping[str, int]) -> Outcome:
        """Run the model.

        Args:
            inputs: A buffer for every input the model needs.
            host_ids: Tensor ids already given to the host's records.
        """
        outcome = Outcome()
        self._next_tensor = max(host_ids.values(), default=-1) + 1
        total = len(self.graph.nodes)
        done = 0
        try:
            for name, buffer in inputs.items():
                self._stage_input(name, buffer, host_ids.get(name, -1))
            for group in self.groups:
                if self._cancel is not None and self._cancel.is_set():
                    outcome.status = "cancelled"
                    break
                if self._progress is not None:
                    self._progress(done, total, group[0].label)
                self._run_group(group)
                done += len(group)
        except _NodeFailedError as error:
            outcome.status, outcome.message = "failed", str(error)
            outcome.node = error.node.index
        self._finish(outcome)
        return outcome

    def _finish(self, outcome: Outcome) -> None:
        if outcome.status == "complete":
            outcome.outputs = {
                v.name: self._model_value(self.values[v.name])
                for v in self.graph.outputs
                if v.name in self.values
            }
            produced = [self.values[v.name] for v in self.graph.outputs if v.name in self.values]
            self.host.synchronise([v for v in produced if v.allocation is not None])
        self._flush()
        for value in self.values.values():
            self._record(value)
        self.recorder.finish()
        self.writer.set_extra("stages", self.stages)
        self.writer.set_extra(
            "engines_busy", dict(zip(self.issuer.engines, self.issuer.busy, strict=True))
        )
        self.writer.set_extra("ddr_peak", self.ddr_map.peak)

    # -- values --------------------------------------------------------------------------

    def _new_id(self) -> int:
        number = self._next_tensor
        self._next_tensor += 1
        return number

    def _stage_input(self, name: str, buffer: HostBuffer, host_id: int) -> None:
        """What a driver does: hand the address over; the device reads raw bytes from there."""
        data = buffer.array
        uses = self._count_uses(name)
        raw_bytes = buffer.raw
        alignment = self.target.dma.base_alignment or 1
        lost = buffer.address % alignment
        if lost:
            # The engine has no wires for the low address bits: it starts at the aligned
            # address below, where memory that is not the tensor's lies.
            unknown = bytes([OPEN_BUS]) * min(lost, len(raw_bytes))
            raw_bytes = unknown + raw_bytes[: len(raw_bytes) - len(unknown)]
        if not isinstance(data, np.ndarray) or data.dtype.kind in "OSUT":
            self.values[name] = Value(
                name, host_id if host_id >= 0 else self._new_id(), "input", data, uses=uses
            )
            return
        native = data.dtype.newbyteorder("=")
        raw = np.frombuffer(raw_bytes, np.uint8).copy().view(native).reshape(data.shape)
        stored = self.numerics.store(raw)
        value = Value(
            f"{name}@ddr", self._new_id(), "input", stored.array, native, stored.quantization,
            uses=uses,
        )  # fmt: skip
        self._allocate(value)
        self.host.stage(
            value, buffer.address - lost, len(raw_bytes), converted=stored.array is not raw
        )
        if lost:
            self.issuer.set_status(value.by, Status.FAULT)
        self.values[name] = value
        self._record(value)

    def value(self, name: str) -> Value:
        """Return the value of a name, fetching a weight when it is first needed."""
        value = self.values.get(name)
        if value is None:
            initializer = self.graph.initializers[name]
            array = initializer.array()
            value = self._constant(name, array, "weight")
        return value

    def _constant(self, name: str, data: Any, role: str, producer: int = -1) -> Value:
        if isinstance(data, np.ndarray) and data.dtype.kind not in "OSUT":
            weight = any(
                n.inputs.index(name) == 1 and n.op_type in ("Conv", "ConvTranspose")
                for n in self.graph.consumers(name)
                if name in n.inputs
            )
            stored = self.numerics.store(data, weight=weight)
            value = Value(
                name, self._new_id(), role, stored.array, data.dtype, stored.quantization,  # type: ignore[arg-type]
            )  # fmt: skip
        else:
            value = Value(name, self._new_id(), role, data)  # type: ignore[arg-type]
        value.static, value.producer = True, producer
        value.uses = self._count_uses(name)
        self.values[name] = value
        return value

    def _count_uses(self, name: str) -> int:
        return len(self.graph.consumers(name)) + (1 << 30 if name in self._outputs else 0)

    def _allocate(self, value: Value, of: Value | None = None) -> None:
        if of is not None and of.allocation is not None:
            value.allocation = of.allocation
        else:
            value.allocation = Allocation(self.ddr_map.take(value.array.nbytes), value.array.nbytes)
            if self.injections:
                self.ddr.place(value.allocation.address, value.array)
        value.allocation.users += 1

    def _record(self, value: Value) -> None:
        """Record a value, once."""
        if not value.recorded:
            value.recorded = True
            self.recorder.tensor(value)

    def _release(self, node: Node) -> None:
        for name in dict.fromkeys(node.reads):
            value = self.values.get(name)
            if value is None:
                continue
            value.uses -= 1
            if value.uses > 0:
                continue
            del self.values[name]
            self._record(value)
            if value.allocation is not None:
                value.allocation.users -= 1
                if value.allocation.users == 0 and value.role != "weight":
                    self.ddr_map.give(value.allocation.address)

    def _model_value(self, value: Value) -> Any:
        if not value.is_tensor or value.model_dtype is None:
            return value.data
        return self.numerics.load(value.stored, value.model_dtype)

    # -- a group -------------------------------------------------------------------------

    def _run_group(self, group: Sequence[Node]) -> None:
        live = []
        for node in group:
            if not self._fold(node):
                self._compute(node)
                live.append(node)
        device = [n for n in live if self.mapper.on_device(n, self.values)]
        for part in split_by_shape(device, lambda name: self.values[name].shape):
            self._run_on_device(part)
        for node in live:
            if node not in device:
                self._run_on_host(node)
        for node in group:
            self._release(node)
        self._flush()

    def _fold(self, node: Node) -> bool:
        """Evaluate a node at compile time if all it needs is known then."""
        result = folding.fold(node, self.value, self.runner)
        if result is None:
            return False
        for name, data in zip(node.outputs, result, strict=True):
            if name:
                self._record(self._constant(name, data, "constant", node.index))
        self._node(node, kernel="folded", engine="-")
        return True

    def _compute(self, node: Node) -> None:
        """Run a node whole on what device memory holds; outputs get values, not yet places."""
        operands = [self.value(n) if n else None for n in node.inputs]
        captured = {n: self.value(n) for n in node.captured}
        try:
            results, kinds = self._call(node, operands, captured)
        except NodeError as error:
            self._node(node, status="failed", note=str(error))
            raise _NodeFailedError(node, str(error)) from None
        reads = [v for v in (*operands, *captured.values()) if v is not None]
        data_shape = folding.shape_depends_on_values(node, reads)
        for name, data, kind in zip(node.outputs, results, kinds, strict=True):
            if not name:
                continue
            value = Value(name, self._new_id(), self._role(name), data, kind=kind)
            if value.is_tensor:
                value.model_dtype = data.dtype
                stored = self.numerics.store(data)
                value.data, value.quantization = stored.array, stored.quantization
            value.data_shape = data_shape
            value.producer, value.uses = node.index, self._count_uses(name)
            self.values[name] = value

    def _call(
        self, node: Node, operands: Sequence[Value | None], captured: Mapping[str, Value]
    ) -> tuple[list[Any], list[str]]:
        feeds: dict[str, Any] = {}
        types: dict[str, Any] = {}
        for name, value in [*zip(node.inputs, operands, strict=True), *captured.items()]:
            if value is None or not name:
                continue
            feeds[name] = self._model_value(value)
            proto = folding.declared_type(value, self.graph)
            if proto is not None:
                types[name] = proto
        return self.runner.run(node.proto, feeds, types)

    def _role(self, name: str) -> Any:
        return "output" if name in self._outputs else "activation"

    def _run_on_device(self, nodes: Sequence[Node]) -> None:
        steps = [self._step(node) for node in nodes]
        if len(steps) == 1 and steps[0].kernel.view:
            self._view(nodes[0])
            return
        inside = {name for step in steps for name in step.writes}
        members = {node.index for node in nodes}
        escaping = frozenset(
            name
            for name in inside
            if name
            and (
                name in self._outputs
                or not self.graph.consumers(name)
                or any(c.index not in members for c in self.graph.consumers(name))
            )
        )
        stationary = frozenset(
            name
            for step in steps
            for name in step.reads
            if name and name not in inside and self.values[name].static
        )
        tiling = tile_group(steps, escaping, stationary, self.sram_bytes)
        if tiling is None:
            if len(nodes) > 1:
                for node in nodes:
                    self._run_on_device([node])
            else:
                self._run_on_host(nodes[0], f"does not fit {self.sram_bytes >> 10} KiB of SRAM")
            return
        for name in sorted({n for s in steps for n in (*s.reads, *s.writes) if n}):
            value = self.values[name]
            if value.allocation is None and (name not in inside or name in escaping):
                self._allocate(value)
                if value.static and value.role == "weight":
                    self._record(value)
        for step in steps:
            for name in step.reads:
                if name and name not in inside:
                    self.host.hand_over(self.values[name])
        before = self.issuer.next_seq
        starts = self.issuer.now
        actions = self.emitter.group(steps, tiling, self.values)
        if self.injections:
            execute_touched(self, steps, actions)
        for node, step in zip(nodes, steps, strict=True):
            for name in node.writes:
                value = self.values[name]
                if value.first < 0:
                    mine = [a.seq for a in actions if a.region.tensor == name]
                    value.first, value.by = (mine[0], mine[-1]) if mine else (-1, -1)
                self._record(value)
            kernel = step.kernel
            self._node(
                node,
                kernel=kernel.name,
                engine=kernel.engine,
                group=self._group,
                tiles=len(tiling.tiles),
                first_seq=before,
                last_seq=self.issuer.next_seq - 1,
                start=starts,
                end=self.issuer.now,
                macs=kernel.macs(step.op, tuple((0, n) for n in step.op.outputs[0] or ()))
                if kernel.macs is not None
                else 0,
            )
        self._stage("fused", nodes, "+".join(s.kernel.name for s in steps), steps[0].kernel.engine)
        self._group += 1

    def _step(self, node: Node) -> Step:
        kernel = kernel_for(node.op_type, node.domain)
        assert kernel is not None
        reads = [self.value(n) if n else None for n in node.inputs]
        writes = [self.values[n] if n else None for n in node.outputs]
        op = Op(
            node.op_type,
            node.attributes,
            tuple(None if v is None else v.shape for v in reads),
            tuple(None if v is None else v.shape for v in writes),
            node.since_opset,
            {
                i: np.asarray(self._model_value(v))
                for i, v in enumerate(reads)
                if v is not None and v.static and v.is_tensor and v.array.size <= 4096
            },
        )
        return Step(
            node.index, op, kernel, node.inputs, node.outputs,
            tuple(v.array.dtype.itemsize if v is not None and v.is_tensor else 0 for v in reads),
            tuple(v.array.dtype.itemsize if v is not None and v.is_tensor else 0 for v in writes),
        )  # fmt: skip

    def _view(self, node: Node) -> None:
        """Another shape of the same bytes: no command moves anything."""
        source, goal = self.values[node.inputs[0]], self.values[node.outputs[0]]
        if source.allocation is None:
            self._allocate(source)
        goal.data = source.array.reshape(goal.array.shape)
        goal.quantization = source.quantization
        self._allocate(goal, source)
        goal.ready, goal.by, goal.first = source.ready, source.by, source.first
        goal.on_host = source.on_host
        self._record(goal)
        self._node(node, kernel="view", engine="-", group=self._group, first_seq=-1, last_seq=-1)
        self._stage("fused", [node], "view", "-")
        self._group += 1

    def _run_on_host(self, node: Node, why: str = "") -> None:
        reads = [self.value(n) for n in node.reads]
        writes = [self.values[n] for n in node.writes]
        for value in writes:
            if value.is_tensor and value.array.nbytes:
                self._allocate(value)
        before, starts = self.issuer.next_seq, self.issuer.now
        self.host.run(node.index, reads, writes)
        for value in writes:
            self._record(value)
        self._node(
            node,
            kernel="host",
            engine="host",
            group=self._group,
            first_seq=before,
            last_seq=self.issuer.next_seq - 1,
            start=starts,
            end=self.issuer.now,
            note=why or self.mapper.why_host(node, self.values),
        )
        self._stage("fused", [node], "host", "host")
        self._group += 1

    def _stage(self, stage: str, nodes: Sequence[Node], kernel: str, engine: str) -> None:
        self.stages[stage].append(
            {
                "group": self._group,
                "nodes": [n.index for n in nodes],
                "kernel": kernel,
                "engine": engine,
            }
        )

    def _node(self, node: Node, **what: Any) -> None:
        self.recorder.node(node, self._ids(node.inputs), self._ids(node.outputs), **what)

    def _ids(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.values[n].id if n in self.values else -1 for n in names)

    def _flush(self) -> None:
        rows, accesses = self.issuer.take()
        if len(rows):
            self.writer.append_commands(rows)
        if len(accesses):
            self.writer.append_accesses(accesses)


class _NodeFailedError(Exception):
    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node = node
