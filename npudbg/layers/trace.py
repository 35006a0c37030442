"""Layer 3, trace: what the device did, judged from its commands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npudbg.layers import (  # noqa: F401
    trace_absent,
    trace_alignment,
    trace_coherency,
    trace_cost,
    trace_hang,
    trace_memory,
    trace_packets,
    trace_refused,
    trace_sanitize,
    trace_stray,
    trace_timing,
    trace_transfers,
    trace_waits,
    trace_weights,
)
from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_rows import origin_of
from npudbg.layers.trace_torn import torn
from npudbg.session.commands import Kind, Status
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_FIRST = 8
_NEAR = 4096
"""How far before its transfer an input's FLUSH is looked for: inputs are staged first."""


@rule(3, "T301", "T302", "T353")
def device_copy(case: Case) -> Iterator[Finding]:
    """Compare what DMA brought with what the host tensor holds."""
    session = case.session
    if session is None:
        return
    for host in case.inputs:
        copy = session.tensor(f"{host.name}@ddr")
        if copy is None or copy.first_seq < 0:
            continue
        row = session.command(copy.first_seq)
        name = safe(host.name)
        subject = Subject(kind="command", name=name, tensor=copy.id, seq=copy.first_seq)
        if row["status"] == Status.FAULT and host.record.address is not None:
            step = case.target.dma.base_alignment or 1
            lost = host.record.address - int(row["src"])
            yield finding(
                "T302",
                subject,
                f"command {copy.first_seq}: the transfer of {name} began at {int(row['src']):#x}, "
                f"{lost:#x} bytes before its buffer (the engine aligns to {step:#x})",
                evidence={
                    "address": host.record.address,
                    "issued": int(row["src"]),
                    "alignment": step,
                    "bytes_before": lost,
                },
                fix=f"allocate the buffer at a multiple of {step:#x}",
                origin="simulated",
            )
        if row["status"] != Status.FAULT and (line := torn(case, session, host, copy)):
            yield line
            continue
        if row["kind"] != Kind.DMA_LOAD:
            continue  # converted by the host, element by element
        if case.target.cache.coherent is False and not _flushed(session, copy.id, copy.first_seq):
            continue  # T350 says why the bytes are old
        device = session.array(copy)
        if device is None or device.dtype.itemsize != host.array.dtype.itemsize:
            continue
        meant = np.ascontiguousarray(host.array).astype(device.dtype, copy=False)
        width = device.dtype.itemsize
        wrong = (
            (device.reshape(-1, 1).view(np.uint8) != meant.reshape(-1, 1).view(np.uint8))
            .reshape(-1, width)
            .any(axis=1)
        )
        count = int(wrong.sum())
        if count:
            first = np.unravel_index(int(wrong.argmax()), device.shape or (1,))
            yield finding(
                "T301",
                subject,
                f"command {copy.first_seq}: {count} of {device.size} elements of {name} on the "
                f"device are not those of the tensor (first at {[int(i) for i in first]})",
                evidence={
                    "wrong": count,
                    "elements": int(device.size),
                    "first": [int(i) for i in first],
                },
                fix="hand over a C-contiguous, native-endian, aligned array",
                origin="simulated",
            )


def _flushed(session: Session, tensor: int, before: int) -> bool:
    rows = session.commands(max(before - _NEAR, 0), before)
    return bool(((rows["kind"] == Kind.FLUSH) & (rows["tensor"] == tensor)).any())


@rule(3, "T311")
def failed(case: Case) -> Iterator[Finding]:
    """Nodes that refused their operands."""
    session = case.session
    if session is None:
        return
    for record in session.nodes:
        if record.status == "failed" and record.kernel == "":
            yield finding(
                "T311",
                Subject(kind="node", name=safe(record.label), node=record.index),
                f"{safe(record.label)} ({safe(record.op_type)}) failed: {safe(record.note, 200)}",
                evidence={"node": record.index},
                origin=origin_of(session),
            )


@rule(3, "T320")
def host_fallback(case: Case) -> Iterator[Finding]:
    """One line for all operators that ran on the host, with their estimated share."""
    session = case.session
    if session is None or session.meta.backend != "simulated":
        return
    hosted = [n for n in session.nodes if n.engine == "host" and n.first_seq >= 0]
    if not hosted or not session.n_cycles:
        return
    by_type: dict[str, int] = {}
    for node in hosted:
        by_type[node.op_type] = by_type.get(node.op_type, 0) + 1
    cost = sum(n.end - n.start for n in hosted)
    names = ", ".join(f"{safe(k, 40)} x{v}" for k, v in sorted(by_type.items())[:_FIRST])
    yield finding(
        "T320",
        Subject(kind="node", name=safe(hosted[0].label), node=hosted[0].index),
        f"{len(hosted)} of {len(session.nodes)} nodes ran on the host ({names}); "
        f"about {cost / session.n_cycles:.0%} of the cycles",
        evidence={"nodes": len(hosted), "operators": by_type, "cycles": cost},
        origin="estimated",
    )
