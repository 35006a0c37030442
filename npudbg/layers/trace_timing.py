"""Commands that took longer than their work explains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Space, box_slices, kind_name
from npudbg.session.dtypes import NON_TENSOR, numpy_dtype
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_KERNEL, _STORE, _HOST = int(Kind.KERNEL), int(Kind.DMA_STORE), int(Space.HOST)
_SLOW = 1.4
_CHUNK = 1 << 14
_MOST = 4
_RUN = 3
"""So many timed commands in a row, all slow to the end, are a clock and not a bank."""


@rule(3, "T370", "T371")
def slow(case: Case) -> Iterator[Finding]:
    """Hold every command's cycles against what the profile says its work costs."""
    session = case.session
    if session is None or session.meta.backend != "simulated" or case.graph is None:
        return
    odd: list[tuple[int, float]] = []
    timed = 0
    after = 0
    costs = _Costs(case, session)
    for low in range(0, session.n_commands, _CHUNK):
        for row in session.commands(low, low + _CHUNK):
            expected = costs.of(row)
            if expected is None or expected <= 0:
                continue
            timed += 1
            ratio = int(row["end"] - row["start"]) / expected
            if ratio > _SLOW:
                odd.append((int(row["seq"]), ratio))
                after = after or timed
    if not odd:
        return
    first, ratio = odd[0]
    remaining = timed - after + 1
    # Banks collide under a transfer; what slows a kernel down is the clock.
    kernel = any(session.command(seq)["kind"] == _KERNEL for seq, _ in odd)
    if len(odd) == remaining and (remaining >= _RUN or timed <= _RUN or kernel):
        yield _clock(session, first, ratio, remaining)
        return
    for seq, factor in odd[:_MOST]:
        yield _transfer(session, seq, factor, costs)


def _clock(session: Session, seq: int, ratio: float, count: int) -> Finding:
    return finding(
        "T371",
        Subject(kind="command", name="clock", seq=seq),
        f"from command {seq} on, all {count} timed commands take {ratio:.1f} times their cycles",
        evidence={"factor": round(ratio, 3), "commands": count, "since": seq},
        fix="lock the frequency; look at thermal_zone while it happens",
        origin="simulated",
    )


def _transfer(session: Session, seq: int, factor: float, costs: _Costs) -> Finding:
    row = session.command(seq)
    number = int(row["tensor"])
    name = safe(session.tensors[number].name) if number >= 0 else "-"
    took, expected = int(row["end"] - row["start"]), costs.of(row)
    return finding(
        "T370",
        Subject(kind="command", name=name, seq=seq, tensor=number, node=int(row["node"])),
        f"command {seq} ({kind_name(row['kind'])} of {name}) took {took} cycles where its bytes "
        f"cost {expected}",
        evidence={"cycles": took, "expected": expected, "factor": round(factor, 3)},
        fix="place operands that are read together in different banks",
        origin="simulated",
    )


class _Costs:
    """Cycles that a command's work costs on the target."""

    def __init__(self, case: Case, session: Session) -> None:
        self._case, self._session = case, session
        self._ops: dict[int, Any] = {}

    def of(self, row: Any) -> int | None:
        """Return the expected cycles of a transfer or kernel, None for anything else."""
        from npudbg.device.banks import conflict_cycles, operands_of
        from npudbg.device.timing import dma_cycles, kernel_cycles, linear_dma_cycles

        kind, number = int(row["kind"]), int(row["tensor"])
        if kind > _STORE or number < 0:
            return None
        tensor = self._session.tensors[number]
        if tensor.dtype in NON_TENSOR:
            return None
        target = self._case.target
        box = tuple((s.start, s.stop) for s in box_slices(row, len(tensor.shape)))
        box += tuple((0, n) for n in tensor.shape[len(box) :])
        if kind != _KERNEL:
            if row["src_space"] == _HOST:
                return linear_dma_cycles(target, int(row["nbytes"]))
            itemsize = numpy_dtype(tensor.dtype).itemsize
            return dma_cycles(target, tensor.shape, box, itemsize, tensor.address or 0)
        found = self._op(int(row["node"]))
        if found is None:
            return None
        kernel, op = found
        if op.outputs[0] != tensor.shape:
            return None  # a further output: it starts and ends with the first
        boxes = kernel.boxes(op, box)
        first = boxes[0] if boxes else None
        cycles = kernel_cycles(target, kernel, op, box, first, self._case.precision)
        return cycles + conflict_cycles(target.memory, operands_of(self._session, row))

    def _op(self, number: int) -> Any:
        if number not in self._ops:
            self._ops[number] = self._make(number)
        return self._ops[number]

    def _make(self, number: int) -> Any:
        from npudbg.device.kernels.base import Op
        from npudbg.device.kernels.registry import kernel_for

        graph = self._case.graph
        if graph is None or not 0 <= number < len(graph.nodes):
            return None
        node, record = graph.nodes[number], self._session.nodes[number]
        kernel = kernel_for(node.op_type, node.domain)
        if kernel is None:
            return None
        tensors = self._session.tensors
        reads = [tensors[i] if i >= 0 else None for i in record.inputs]
        writes = [tensors[i] if i >= 0 else None for i in record.outputs]
        static = {
            i: self._session.array(t)
            for i, t in enumerate(reads)
            if t is not None and t.role in ("weight", "constant") and t.blob is not None
            and t.stats is not None and t.stats.count <= 4096
        }  # fmt: skip
        return kernel, Op(
            node.op_type,
            node.attributes,
            tuple(None if t is None else t.shape for t in reads),
            tuple(None if t is None else t.shape for t in writes),
            node.since_opset,
            {i: a for i, a in static.items() if a is not None},
        )
