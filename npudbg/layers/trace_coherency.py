"""Caches that are not coherent: what was not flushed, not dropped, or written back too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe

_CHUNK = 1 << 16


@rule(3, "T350", "T351", "T352")
def coherency(case: Case) -> Iterator[Finding]:
    """Judge the order of host accesses, transfers and cache maintenance."""
    session = case.session
    if session is None or case.target.cache.coherent is not False:
        return
    flushed: set[int] = set()
    dropped: dict[int, int] = {}
    stored: dict[int, int] = {}
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        interesting = (
            (rows["kind"] == Kind.FLUSH)
            | (rows["kind"] == Kind.INVALIDATE)
            | (rows["kind"] == Kind.DMA_STORE)
            | (rows["src_space"] == Space.HOST)
        )
        for row in rows[interesting]:
            seq, tensor, kind = int(row["seq"]), int(row["tensor"]), row["kind"]
            if kind == Kind.FLUSH and row["dst_space"] == Space.DDR:
                if tensor in stored:
                    yield _late(session, case, row, stored[tensor])
            elif kind == Kind.FLUSH:
                flushed.add(tensor)
            elif kind == Kind.INVALIDATE:
                dropped[tensor] = seq
            elif kind == Kind.DMA_STORE:
                stored[tensor] = seq
            elif kind == Kind.DMA_LOAD and tensor not in flushed:
                yield _unflushed(session, case, row)  # it came from the host's memory
    if session.status == "complete":
        for tensor_record in session.tensors:
            last = stored.get(tensor_record.id, -1)
            if tensor_record.role == "output" and last > dropped.get(tensor_record.id, -1):
                yield _undropped(session, tensor_record, last)


def _unflushed(session: Session, case: Case, row: Any) -> Finding:
    seq, number = int(row["seq"]), int(row["tensor"])
    copy = session.tensors[number]
    name = safe(copy.name.removesuffix("@ddr"))
    host = next((h for h in case.inputs if safe(h.name) == name), None)
    evidence: dict[str, Any] = {"command": seq}
    device = session.array(copy)
    text = f"command {seq}: the device read {name} and no FLUSH came before"
    if host is not None and device is not None and device.shape == host.array.shape:
        wrong = int(np.count_nonzero(device != host.array))
        evidence.update(wrong=wrong, elements=int(device.size))
        text += f"; {wrong} of {device.size} elements are those of an earlier frame"
    return finding(
        "T350",
        Subject(kind="command", name=name, seq=seq, tensor=number),
        text,
        evidence=evidence,
        fix="call the driver's sync_for_device before each job",
        origin="simulated",
    )


def _undropped(session: Session, tensor: TensorRecord, last: int) -> Finding:
    name = safe(tensor.name)
    seen = session.tensor(f"{tensor.name}@host")
    evidence: dict[str, Any] = {"last_store": last}
    text = f"output {name}: DMA wrote it (command {last}) and the host read it without INVALIDATE"
    if seen is not None:
        device, host = session.array(tensor), session.array(seen)
        if device is not None and host is not None:
            wrong = int(np.count_nonzero(device != host))
            evidence.update(wrong=wrong, elements=int(device.size))
            text += f"; {wrong} of {device.size} elements are old"
    return finding(
        "T351",
        Subject(kind="tensor", name=name, tensor=tensor.id, seq=last),
        text,
        evidence=evidence,
        fix="call the driver's sync_for_cpu after the job and before reading",
        origin="simulated",
    )


def _late(session: Session, case: Case, row: Any, store: int) -> Finding:
    seq, number = int(row["seq"]), int(row["tensor"])
    address, nbytes = int(row["dst"]), int(row["nbytes"])
    name = safe(session.tensors[number].name)
    line = case.target.cache.line_bytes
    return finding(
        "T352",
        Subject(kind="command", name=name, seq=seq, tensor=number, address=address, space="ddr"),
        f"command {seq}: a dirty cache line was written back over {nbytes} bytes of {name} at "
        f"ddr {address:#x}, after DMA had stored it (command {store})",
        evidence={"address": address, "bytes": nbytes, "stored_by": store, "line": line},
        fix="sync_for_device on the output buffer before the job; do not touch it until it ended",
        related=(Subject(kind="command", name=name, seq=store),),
        origin="simulated",
    )
