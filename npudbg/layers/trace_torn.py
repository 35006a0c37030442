"""A torn cache line, told from the bytes that arrived on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.findings import finding
from npudbg.layers.trace_rows import origin_of
from npudbg.layers.words import of_tensor
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe

_NEAR = 4096
"""How many commands before an input's transfer its neighbours' flushes are looked for."""


def torn(case: Case, session: Session, host: HostTensor, copy: TensorRecord) -> Finding | None:
    """Return a finding if all wrong bytes of an input lie in one line that was flushed for others.

    Args:
        case: What is judged.
        session: The run.
        host: The input in host memory.
        copy: The input on the device.
    """
    address, line = host.record.address, case.target.cache.line_bytes
    if case.target.cache.coherent is not False or address is None or not line:
        return None
    wrong = _wrong_elements(session, host, copy)
    if wrong is None or not len(wrong):
        return None
    size, nbytes = host.array.dtype.itemsize, host.array.nbytes
    low, high = address + int(wrong[0]) * size, address + (int(wrong[-1]) + 1) * size
    at = low // line * line
    if high > at + line or (at >= address and at + line <= address + nbytes):
        return None  # not one line, or one that no one else has a part of
    flushed = _flush_of_neighbour(session, copy, at)
    if flushed is None:
        return None
    other = _neighbour(case, host, at, line)
    seq, name = copy.first_seq, safe(host.name)
    by = f"input {safe(other.name)}" if other is not None else "what lies beside it on the heap"
    part = min(at + line, address + nbytes) - max(at, address)
    return finding(
        "T353",
        Subject(kind="command", name=name, seq=seq, tensor=copy.id, address=at, space="host"),
        f"command {seq}: {len(wrong)} elements of {name} at {low:#x} to {high - 1:#x} are those of "
        f"an earlier frame: the {line}-byte cache line at {at:#x} also holds {by}, and writing it "
        f"back (command {flushed}) put old bytes over new ones",
        evidence={
            "line": line,
            "line_address": at,
            "wrong": len(wrong),
            "elements": int(host.array.size),
            "bytes_lost": high - low,
            "bytes_in_line": part,
            "neighbour": safe(other.name) if other is not None else None,
            "flushed_by": flushed,
        },
        fix=f"align each buffer to {line} bytes and round its size up to {line}",
        related=(
            Subject(kind="command", seq=flushed),
            *((of_tensor(other),) if other is not None else ()),
        ),
        origin=origin_of(session),
    )


def _wrong_elements(session: Session, host: HostTensor, copy: TensorRecord) -> Any:
    """Return flat indices of elements that arrived other than they are; None if not told."""
    device, array = session.array(copy), host.array
    if device is None or device.shape != array.shape or copy.quantization is not None:
        return None
    if not array.flags.c_contiguous or not array.dtype.isnative:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        meant = array.astype(device.dtype)
    raw = [a.reshape(-1, 1).view(np.uint8) for a in (device, meant)]
    return np.flatnonzero((raw[0] != raw[1]).any(axis=1))


def _flush_of_neighbour(session: Session, copy: TensorRecord, at: int) -> int | None:
    """Return the command before an input's transfer that cleaned just this line for another."""
    rows = session.commands(max(copy.first_seq - _NEAR, 0), copy.first_seq)
    hits = rows[
        (rows["kind"] == Kind.FLUSH)
        & (rows["src_space"] == Space.HOST)
        & (rows["src"] == at)
        & (rows["tensor"] != copy.id)
    ]
    return int(hits["seq"][-1]) if len(hits) else None


def _neighbour(case: Case, host: HostTensor, at: int, line: int) -> HostTensor | None:
    """Return the input that lies in the same line, if one does."""
    for other in case.inputs:
        start = other.record.address
        if other is host or start is None:
            continue
        if start < at + line and start + other.array.nbytes > at:
            return other
    return None
