"""The simulated NPU: runs a graph, node group by node group, and records it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device import absence, addressing, folding
from npudbg.device.arithmetic import Arithmetic
from npudbg.device.array import granule
from npudbg.device.calibration import Calibration
from npudbg.device.emit import Emitter
from npudbg.device.execute import Sram
from npudbg.device.faults.spec import Fault
from npudbg.device.faults.stretch import stretching
from npudbg.device.faults.touch import Injection, Touch
from npudbg.device.fusion import fuse, inner_tensors, split_by_shape
from npudbg.device.hostside import HostSide
from npudbg.device.issue import Issuer
from npudbg.device.kernels.base import Op
from npudbg.device.kernels.registry import kernel_for
from npudbg.device.mapping import Mapper
from npudbg.device.nodelog import NodeLog
from npudbg.device.noderunner import NodeError, NodeRunner
from npudbg.device.numerics import Numerics
from npudbg.device.poking import poke, seen_by_host
from npudbg.device.raising import kept_tensors
from npudbg.device.recorder import Recorder
from npudbg.device.replacing import replacement
from npudbg.device.residency import Residency
from npudbg.device.staging import HostBuffer, results, stage_input
from npudbg.device.stopping import StoppedError
from npudbg.device.tiling import Step, tile_group
from npudbg.device.touched import TouchedGroup
from npudbg.device.values import Value
from npudbg.graph.ir import Graph, Node
from npudbg.session import refusals, sums
from npudbg.session.records import MemoryRegion
from npudbg.session.refusals import Refusal
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

Array = npt.NDArray[Any]
Progress = Callable[[int, int, str], None]

DEFAULT_SRAM_BYTES = 2 << 20
"""Where a profile knows no SRAM size."""

TIMEOUT_CYCLES = 6_000_000
"""How long the driver waits before it gives up."""

__all__ = ["HostBuffer", "Machine", "Outcome"]


@dataclass(slots=True)
class Outcome:
    """How a run ended.

    ``status`` is ``complete``, ``failed`` (a node), ``fault`` (an address was
    refused), ``hung`` or ``cancelled``.
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
        injections: Bytes written into memory, by command number.
        faults: Faults of the hardware.
        calibration: int8 parameters of every tensor.
        raised: Names or labels of nodes whose results keep the model's type.
        replace: Arrays by tensor name that take the place of what nodes compute.
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
        faults: Sequence[Fault] = (),
        calibration: Calibration | None = None,
        raised: frozenset[str] = frozenset(),
        replace: Mapping[str, Array] | None = None,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        """Power up."""
        self.graph, self.target, self.writer = graph, target, writer
        self.groups = fuse(graph, Mapper(target, Numerics()).allowed, enabled=fused)
        self.numerics = Numerics.of(
            target.compute,
            precision,
            kept_tensors(graph, raised),
            inner_tensors(graph, self.groups) if precision == "int8" else frozenset(),
            calibration,
        )
        self.replace = dict(replace or {})
        self.touch = Touch.plan(injections, faults, graph, target)
        self._progress, self._cancel = progress, cancel
        self.runner = NodeRunner(graph.opset, graph.ir_version, graph.model.functions)
        self.arithmetic = Arithmetic(self.runner, self.numerics)
        self.recorder = Recorder(writer, graph)
        self.memory = Residency(graph, target, self.numerics, self.recorder, self.touch)
        self.values, self.ddr = self.memory.values, self.memory.ddr
        self.iommu = self.memory.iommu
        self.refusals: list[Refusal] = []
        self.issuer = Issuer(target)
        self.emitter = Emitter(target, self.issuer, precision)
        self.mapper = Mapper(target, self.numerics)
        self.host = HostSide(target, self.issuer)
        self.sram_bytes = target.memory.sram_bytes or DEFAULT_SRAM_BYTES
        self.ddr_end = target.memory.ddr_base + target.memory.ddr_bytes
        self._touched = self.touch.active
        self.sram = Sram(target.memory.sram_base, self.sram_bytes) if self._touched else None
        self.waits: list[tuple[int, int]] = []
        self.retries, self.resubmitted = 0, -1
        self.inputs: Mapping[str, HostBuffer] = {}
        self.host_ids: Mapping[str, int] = {}
        self.log = NodeLog(graph, self.recorder, self.values)
        self.issuer.stretch = stretching(self.touch, self.values)

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
        self.inputs, self.host_ids = inputs, host_ids
        self.memory.next_id = max(host_ids.values(), default=-1) + 1
        total = len(self.graph.nodes)
        done = 0
        try:
            for name, buffer in inputs.items():
                stage_input(self, name, buffer, host_ids.get(name, -1))
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
        except StoppedError as error:
            outcome.status, outcome.message, outcome.node = error.status, str(error), error.node
        self._finish(outcome)
        return outcome

    def _finish(self, outcome: Outcome) -> None:
        if outcome.status == "complete" and self.touch.take("lost-interrupt") is not None:
            outcome.status, outcome.message = "hung", "the host was never told that the job ended"
            self.host.never_told(TIMEOUT_CYCLES)
        elif outcome.status == "hung":
            absence.wait_in_vain(self, TIMEOUT_CYCLES)
        elif outcome.status == "complete":
            self._poke_between()
            outcome.outputs = results(self)
            self._poke_between()
        self._flush()
        if outcome.status == "complete":
            self.touch.check_met(self.issuer.next_seq)
        for value in self.values.values():
            self.memory.record(value)
        self.log.not_run()
        self.recorder.finish()
        self.writer.set_extra("stages", self.log.stages)
        if self.numerics.calibration is not None:
            self.writer.set_extra("calibration", self.numerics.calibration.record())
        self.writer.set_extra("waits", self.waits)
        if self.refusals:
            self.writer.set_extra(refusals.KEY, self.refusals)
        if self.arithmetic.noted:
            self.writer.set_extra(sums.KEY, self.arithmetic.noted)
        self.writer.set_extra(
            "engines_busy", dict(zip(self.issuer.engines, self.issuer.busy, strict=True))
        )
        self.writer.set_extra("ddr_peak", self.memory.map.peak)

    # -- a group -------------------------------------------------------------------------

    def _poke_between(self) -> None:
        """Let injections strike that follow a command of no tile: a host operator, a flush."""
        for each in self.touch.due(0, self.issuer.next_seq - 1):
            poke(self, each, {})

    def _run_group(self, group: Sequence[Node]) -> None:
        self._poke_between()
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
            self.memory.release(node)
        self._flush()

    def _fold(self, node: Node) -> bool:
        """Evaluate a node at compile time if all it needs is known then."""
        result = folding.fold(node, self.memory.value, self.runner)
        if result is None:
            return False
        for name, data in zip(node.outputs, result, strict=True):
            if name:
                data = self._replaced(name, data)
                self.memory.constant(name, data, "constant", node.index)
        self.log.node(node, kernel="folded", engine="-")
        return True

    def _compute(self, node: Node) -> None:
        """Run a node whole on what device memory holds; outputs get values, not yet places."""
        operands = [self.memory.value(n) if n else None for n in node.inputs]
        captured = {n: self.memory.value(n) for n in node.captured}
        try:
            device = self.mapper.allowed(node)
            results, kinds = self._call(node, operands, captured, device=device)
        except NodeError as error:
            self.log.node(node, status="failed", note=str(error))
            raise _NodeFailedError(node, str(error)) from None
        reads = [v for v in (*operands, *captured.values()) if v is not None]
        data_shape = folding.shape_depends_on_values(node, reads)
        for name, data, kind in zip(node.outputs, results, kinds, strict=True):
            if not name:
                continue
            data = self._replaced(name, data)
            value = Value(name, self.memory.new_id(), self.memory.role(name), data, kind=kind)
            if value.is_tensor:
                value.model_dtype = data.dtype
                stored = self.numerics.store(data, name=name)
                value.data, value.quantization = stored.array, stored.quantization
            value.data_shape = data_shape
            value.producer, value.uses = node.index, self.memory.uses(name)
            self.values[name] = value

    def _replaced(self, name: str, data: Any) -> Any:
        if name in self.replace:
            data = self.replace[name] = replacement(name, self.replace[name], data)
        return data

    def _call(
        self,
        node: Node,
        operands: Sequence[Value | None],
        captured: Mapping[str, Value],
        *,
        device: bool,
    ) -> tuple[list[Any], list[str]]:
        feeds: dict[str, Any] = {}
        types: dict[str, Any] = {}
        for name, value in [*zip(node.inputs, operands, strict=True), *captured.items()]:
            if value is None or not name:
                continue
            feeds[name] = self.memory.model_value(value)
            proto = folding.declared_type(value, self.graph)
            if proto is not None:
                types[name] = proto
        return self.arithmetic.run(node, feeds, types, device=device, note=True)

    def _run_on_device(self, nodes: Sequence[Node]) -> None:
        steps = [self._step(node) for node in nodes]
        if len(steps) == 1 and steps[0].kernel.view:
            if nodes[0].outputs[0] in self.replace:
                self._run_on_host(nodes[0], "its result is replaced (--set)")
            else:
                self._view(nodes[0])
            return
        inside = {name for step in steps for name in step.writes}
        members = {node.index for node in nodes}
        escaping = frozenset(
            name
            for name in inside
            if name
            and (
                name in self.memory.outputs
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
        matrix = steps[0].kernel.engine == "mac"
        multiples = granule(self.target.compute, steps[0].op, self.emitter.dtype) if matrix else {}
        tiling = tile_group(steps, escaping, stationary, self.sram_bytes, multiples)
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
                self.memory.allocate(value)
                if value.static:
                    self.memory.record(value)
        for step in steps:
            for name in step.reads:
                if name and name not in inside:
                    self.host.hand_over(self.values[name])
        before = self.issuer.next_seq
        starts = self.issuer.now
        actions = self.emitter.group(steps, tiling, self.values)
        try:
            if self._touched:
                TouchedGroup(self, steps, actions).run()
            else:
                addressing.check_mask(self, actions, nodes[0].index)
        except StoppedError as stop:
            self._stopped(stop, nodes, before, starts)
            raise
        for node, step in zip(nodes, steps, strict=True):
            for name in node.writes:
                value = self.values[name]
                if value.first < 0:
                    mine = [a.seq for a in actions if a.region.tensor == name]
                    value.first, value.by = (mine[0], mine[-1]) if mine else (-1, -1)
                self.memory.record(value)
            kernel = step.kernel
            self.log.node(
                node,
                kernel=kernel.name,
                engine=kernel.engine,
                group=self.log.group,
                tiles=len(tiling.tiles),
                first_seq=before,
                last_seq=self.issuer.next_seq - 1,
                start=starts,
                end=self.issuer.now,
                macs=kernel.macs(step.op, tuple((0, n) for n in step.op.outputs[0] or ()))
                if kernel.macs is not None
                else 0,
            )
        self.log.end_group(nodes, "+".join(s.kernel.name for s in steps), steps[0].kernel.engine)

    def _stopped(self, stop: StoppedError, nodes: Sequence[Node], before: int, starts: int) -> None:
        """Record a group up to the command at which the device stopped."""
        self.issuer.cut_after(stop.seq)
        self.log.stopped(
            nodes,
            stop.node,
            hung=stop.status == "hung",
            message=str(stop),
            first_seq=before,
            last_seq=stop.seq,
            start=starts,
            end=self.issuer.now,
        )

    def _step(self, node: Node) -> Step:
        kernel = kernel_for(node.op_type, node.domain)
        assert kernel is not None
        reads = [self.memory.value(n) if n else None for n in node.inputs]
        writes = [self.values[n] if n else None for n in node.outputs]
        op = Op(
            node.op_type,
            node.attributes,
            tuple(None if v is None else v.shape for v in reads),
            tuple(None if v is None else v.shape for v in writes),
            node.since_opset,
            {
                i: np.asarray(self.memory.model_value(v))
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
            self.memory.allocate(source)
        goal.data = source.array.reshape(goal.array.shape)
        self.recorder.viewed(source, goal)
        goal.quantization = source.quantization
        self.memory.allocate(goal, source)
        goal.ready, goal.by, goal.first = source.ready, source.by, source.first
        goal.on_host = source.on_host
        self.memory.record(goal)
        self.log.node(
            node, kernel="view", engine="-", group=self.log.group, first_seq=-1, last_seq=-1
        )
        self.log.end_group([node], "view", "-")

    def _sum_on_host(self, node: Node) -> None:
        """The host sums in its own way what the device could have summed, but does not."""
        if self.numerics.register is None or not self.mapper.allowed(node):
            return
        operands = [self.memory.value(n) if n else None for n in node.inputs]
        captured = {n: self.memory.value(n) for n in node.captured}
        results, _ = self._call(node, operands, captured, device=False)
        self.arithmetic.forget(node)
        for name, data in zip(node.outputs, results, strict=True):
            if name and self.values[name].is_tensor:
                stored = self.numerics.store(self._replaced(name, data), name=name)
                self.values[name].data = stored.array
                self.values[name].quantization = stored.quantization

    def _run_on_host(self, node: Node, why: str = "") -> None:
        self._sum_on_host(node)
        reads = [self.memory.value(n) for n in node.reads]
        writes = [self.values[n] for n in node.writes]
        for value in writes:
            if value.is_tensor and value.array.nbytes:
                self.memory.allocate(value)
        before, starts = self.issuer.next_seq, self.issuer.now
        self.host.run(node.index, reads, writes)
        seen_by_host(self, reads, writes)
        for value in writes:
            self.memory.record(value)
        self.log.node(
            node,
            kernel="host",
            engine="host",
            group=self.log.group,
            first_seq=before,
            last_seq=self.issuer.next_seq - 1,
            start=starts,
            end=self.issuer.now,
            note=why or self.mapper.why_host(node, self.values),
        )
        self.log.end_group([node], "host", "host")

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
