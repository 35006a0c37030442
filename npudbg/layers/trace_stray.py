"""Transfers that went to other memory because their address had lost its upper bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_rows import (
    CHUNK,
    device_address,
    lost_bits,
    meant_address,
    name_of,
    origin_of,
    tensor_of,
)
from npudbg.session.commands import Kind, Space, Status, kind_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe

_MOST = 4
_SHOWN = 3
_OPEN_BUS = 0xFF


@rule(3, "T349")
def stray(case: Case) -> Iterator[Finding]:
    """Find transfers that left their tensor's buffer for an address that is a part of its own."""
    session = case.session
    if session is None:
        return
    found = 0
    for low in range(0, session.n_commands, CHUNK):
        for row in _outside(session, session.commands(low, low + CHUNK)):
            meant = meant_address(session, row)
            kept = None if meant is None else lost_bits(device_address(row), meant)
            if meant is not None and kept is not None:
                yield _stray(session, row, meant, kept)
                found += 1
                if found == _MOST:
                    return


def strays(session: Session, row: Any) -> bool:
    """Whether a transfer's address has lost its upper bits."""
    if row["kind"] not in (Kind.DMA_LOAD, Kind.DMA_STORE):
        return False
    meant = meant_address(session, row)
    return meant is not None and lost_bits(device_address(row), meant) is not None


def _outside(session: Session, rows: Any) -> Any:
    """Return the transfers that ended and whose address lies outside their tensor."""
    load = (rows["kind"] == Kind.DMA_LOAD) & (rows["src_space"] == Space.DDR)
    store = (rows["kind"] == Kind.DMA_STORE) & (rows["dst_space"] == Space.DDR)
    ended = np.isin(rows["status"], (int(Status.OK), int(Status.TOUCHED)))
    known = (rows["tensor"] >= 0) & (rows["tensor"] < len(session.tensors))
    rows, load = rows[(load | store) & ended & known], load[(load | store) & ended & known]
    base = np.array([t.address or 0 for t in session.tensors], np.int64)[rows["tensor"]]
    size = np.array([t.base_nbytes for t in session.tensors], np.int64)[rows["tensor"]]
    address = np.where(load, rows["src"], rows["dst"])
    return rows[(address < base) | (address >= base + size)]


def _stray(session: Session, row: Any, meant: int, kept: int) -> Finding:
    seq, address, write = int(row["seq"]), device_address(row), row["kind"] == Kind.DMA_STORE
    name, tensor = name_of(session, row), tensor_of(session, row)
    assert tensor is not None
    there = _there(session, address, int(row["nbytes"]), seq, read_later=write)
    names = ", ".join(safe(t.name) for t in there[:_SHOWN])
    if write:
        what = f"its bytes went to {address:#x}" + (f", over {names}" if there else "")
    else:
        data = np.frombuffer(session.payload(seq) or b"", np.uint8)
        empty = data.size and (data == _OPEN_BUS).all()
        seen = "nothing answers (all ones)" if empty else f"{names} lies" if there else "others lie"
        what = f"it read {address:#x}, where {seen}"
    return finding(
        "T349",
        Subject(
            kind="command", name=name, seq=seq, tensor=tensor.id,
            node=int(row["node"]) if row["node"] >= 0 else None, address=address, space="ddr",
        ),
        f"command {seq} ({kind_name(row['kind'])} of {name}): {what}; {name} is at {meant:#x}, "
        f"whose bits from {kept} on are missing",
        evidence={
            "address": address,
            "meant_address": meant,
            "kept_bits": kept,
            "direction": "write" if write else "read",
            "there": [safe(t.name) for t in there],
        },
        fix="write the upper half of the address too, or allocate below what the field holds",
        related=tuple(Subject(kind="tensor", name=safe(t.name), tensor=t.id) for t in there),
        origin=origin_of(session),
    )  # fmt: skip


def _there(
    session: Session, address: int, nbytes: int, seq: int, *, read_later: bool
) -> list[TensorRecord]:
    """Return the tensors that lie in a range at a command.

    Args:
        session: The record.
        address: First byte.
        nbytes: Size of the range.
        seq: The command.
        read_later: Of a write only those count whose bytes are still wanted.
    """
    found = {
        t.id: t
        for t in session.tensors
        if t.space == "ddr" and t.address is not None and t.first_seq <= seq
        and t.address < address + nbytes and t.address + t.base_nbytes > address
    }  # fmt: skip
    if not read_later:
        newest = sorted(found.values(), key=lambda t: t.first_seq)
        return newest[-1:]
    wanted = {t.id for t in found.values() if t.role == "output"}
    for low in range(seq // CHUNK * CHUNK, session.n_commands, CHUNK):
        reads = session.accesses(max(low, seq + 1), low + CHUNK)
        wanted |= {int(n) for n in np.unique(reads["tensor"][reads["space"] == int(Space.DDR)])}
    return [t for t in found.values() if t.id in wanted]
