"""The host's part of a run: handing buffers over, operators on the CPU, waiting."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from npudbg.device import coherency
from npudbg.device.issue import Issuer
from npudbg.device.timing import host_cycles, linear_dma_cycles
from npudbg.device.values import Value
from npudbg.session.commands import Kind, Space, Status, full_box
from npudbg.targets.profile import Target

_SYNC_CYCLES = 50


class HostSide:
    """Issues what the CPU and its driver do: FLUSH, INVALIDATE, WAIT, HOST."""

    def __init__(self, target: Target, issuer: Issuer) -> None:
        """Cache maintenance is issued only where the target is known not to be coherent."""
        self._target, self._issuer = target, issuer
        self._maintain = target.cache.coherent is False
        self._engine = issuer.index["host"]
        self._waited = 0

    def stage(
        self, value: Value, address: int, nbytes: int, *, converted: bool, flushed: bool = True
    ) -> None:
        """Hand an input's host buffer to the device.

        Args:
            value: The input in device memory.
            address: Host address of element 0.
            nbytes: Bytes that are read from there.
            converted: The host rounds to the device's type; else DMA copies raw bytes.
            flushed: Whether the driver cleans the cache lines first.
        """
        issuer = self._issuer
        ready = 0
        if flushed:
            ready = self._maintenance(Kind.FLUSH, value.id, Space.HOST, address, nbytes)
        if converted:
            cycles, engine, kind = (
                host_cycles(self._target, value.array.size), self._engine, Kind.HOST,
            )  # fmt: skip
        else:
            cycles, engine, kind = linear_dma_cycles(self._target, nbytes), 0, Kind.DMA_LOAD
        seq, end = issuer.issue(
            kind,
            engine,
            cycles,
            ready,
            tensor=value.id,
            src=(Space.HOST, address),
            dst=(Space.DDR, value.address),
            nbytes=value.array.nbytes,
            box=full_box(value.array.shape),
        )
        issuer.reads(seq, Space.HOST, address, nbytes, value.id, -1, -1)
        value.first = value.by = seq
        value.ready = end

    def hand_over(self, value: Value) -> None:
        """Flush what the host wrote before the device reads it."""
        if value.on_host and value.allocation is not None:
            value.on_host = False
            value.ready = max(
                value.ready,
                self._maintenance(
                    Kind.FLUSH, value.id, Space.DDR, value.address, value.array.nbytes
                ),
            )

    def run(self, node: int, reads: Sequence[Value], writes: Sequence[Value]) -> None:
        """Run an operator on the CPU: wait for its operands, compute, write to DDR."""
        issuer = self._issuer
        ready = self._wait_for(reads, node)
        elements = sum(v.array.size for v in (*reads, *writes) if v.is_tensor)
        cycles = host_cycles(self._target, elements)
        start = 0
        outputs = [v for v in writes if v.allocation is not None]
        for i, value in enumerate(outputs or [None]):
            seq, end = issuer.issue(
                Kind.HOST,
                self._engine,
                cycles,
                ready if i == 0 else start,
                node=node,
                tensor=value.id if value is not None else -1,
                dst=(Space.DDR, value.address) if value is not None else (Space.NONE, 0),
                nbytes=value.array.nbytes if value is not None else 0,
                box=full_box(value.array.shape) if value is not None else None,
                after=i == 0,
            )
            start = end - cycles
            for operand, read in enumerate(reads):
                if read.allocation is not None:
                    issuer.reads(
                        seq, Space.DDR, read.address, read.array.nbytes, read.id, operand, read.by
                    )
            if value is not None:
                value.first = value.by = seq
                value.ready, value.on_host = end, True

    def synchronise(self, outputs: Sequence[Value], skip: Collection[int] = ()) -> None:
        """Wait for the results and make them visible to the CPU.

        Args:
            outputs: The results.
            skip: Tensor ids whose cache lines are not dropped (a driver's fault).
        """
        self._wait_for(outputs, -1, skip)

    def write_back(self, value: Value, address: int, nbytes: int) -> None:
        """A dirty cache line is evicted to DDR."""
        issuer = self._issuer
        issuer.issue(
            Kind.FLUSH,
            self._engine,
            _SYNC_CYCLES,
            value.ready,
            tensor=value.id,
            src=(Space.HOST, address),
            dst=(Space.DDR, address),
            nbytes=nbytes,
        )

    def flush_line(self, tensor: int, address: int) -> None:
        """The driver cleans a cache line of the host's.

        Args:
            tensor: Id of the host tensor that it was cleaned for; -1 for none.
            address: Host address of the line.
        """
        line = coherency.line_bytes(self._target.cache)
        self._maintenance(Kind.FLUSH, tensor, Space.HOST, address, line)

    def never_told(self, engine_cycles: int) -> int:
        """Wait for an interrupt that does not come; returns the command."""
        seq, _ = self._issuer.issue(
            Kind.WAIT, self._engine, engine_cycles, self._issuer.now, status=Status.HUNG
        )
        return seq

    def _wait_for(self, values: Sequence[Value], node: int, skip: Collection[int] = ()) -> int:
        ready = max((v.ready for v in values), default=0)
        device = [v for v in values if v.allocation is not None and not v.on_host and v.by >= 0]
        if device and ready > self._waited:
            _, ready = self._issuer.issue(Kind.WAIT, self._engine, _SYNC_CYCLES, ready, node=node)
            self._waited = ready
        for value in device:
            if value.id in skip:
                continue
            ready = max(
                ready,
                self._maintenance(
                    Kind.INVALIDATE, value.id, Space.DDR, value.address, value.array.nbytes
                ),
            )
        return ready

    def _maintenance(self, kind: Kind, tensor: int, space: int, address: int, nbytes: int) -> int:
        """Clean or drop cache lines over a range; nothing on a coherent target."""
        if not self._maintain:
            return 0
        line = coherency.line_bytes(self._target.cache)
        _, end = self._issuer.issue(
            kind,
            self._engine,
            -(-nbytes // line) + _SYNC_CYCLES,
            tensor=tensor,
            src=(space, address),
            nbytes=nbytes,
        )
        return end
