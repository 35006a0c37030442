"""Sanitizers over the record: bounds, initialisation, races, lifetimes.

All of them are cheap (array operations over the command rows), so they are
always on; `--sanitize` has initialisation and races byte by byte instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_rows import name_of
from npudbg.layers.trace_sanitize_exact import exact
from npudbg.layers.trace_stray import strays
from npudbg.session.commands import Kind, Space, Status, kind_name, space_name
from npudbg.session.dtypes import NON_TENSOR
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe

_CHUNK = 1 << 15
_WINDOW = 48
"""Commands after a kernel that are looked at for writes into what it reads."""
_MOST = 4
_MAX_TENSORS = 4000


@rule(3, "T380", "T381", "T382", "T383", "T387")
def sanitize(case: Case) -> Iterator[Finding]:
    """Hold commands against address spaces, each other, and the tensors' lives."""
    session = case.session
    if session is None or session.meta.backend != "simulated" or not session.n_commands:
        return
    found: list[Finding] = []
    checked = list(exact(session)) if case.sanitize else []
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK + _WINDOW)
        found += _bounds(session, rows[:_CHUNK])
        found += [] if case.sanitize else _operands(session, low, rows)
    found += _lives(session)
    yield from found[:_MOST]
    yield from checked


def _bounds(session: Session, rows: Any) -> Iterator[Finding]:
    for region in session.meta.regions:
        space = {"sram": Space.SRAM, "ddr": Space.DDR}.get(region.space)
        if space is None:
            continue
        mine = rows[(rows["dst_space"] == int(space)) & (rows["status"] != int(Status.FAULT))]
        out = (mine["dst"] < region.base) | (
            mine["dst"] + mine["nbytes"] > region.base + region.nbytes
        )
        for row in mine[out][:_MOST]:
            if not strays(session, row):
                yield _outside(
                    session, row, f"{region.space} ends at {region.base + region.nbytes:#x}"
                )
    stores = rows[(rows["dst_space"] == int(Space.DDR)) & (rows["tensor"] >= 0)]
    if not len(stores):
        return
    base = np.array([t.address or 0 for t in session.tensors])
    size = np.array([t.base_nbytes for t in session.tensors])
    number = stores["tensor"]
    low, high = base[number], base[number] + size[number]
    out = (stores["dst"] < low) | (stores["dst"] + stores["nbytes"] > high)
    out &= size[number] > 0
    for row in [r for r in stores[out] if not strays(session, r)][:_MOST]:
        yield _outside(session, row, "it leaves its tensor's buffer")


def _outside(session: Session, row: Any, why: str) -> Finding:
    seq, address = int(row["seq"]), int(row["dst"])
    return finding(
        "T380",
        Subject(
            kind="command", name=name_of(session, row), seq=seq, tensor=int(row["tensor"]),
            address=address, space=space_name(row["dst_space"]),
        ),
        f"command {seq} ({kind_name(row['kind'])} of {name_of(session, row)}) writes "
        f"{int(row['nbytes'])} bytes at {address:#x}: {why}",
        evidence={"address": address, "bytes": int(row["nbytes"])},
        fix="look at the descriptor's length and strides",
        origin="simulated",
    )  # fmt: skip


def _operands(session: Session, low: int, rows: Any) -> Iterator[Finding]:
    """Operands never written, and operands overwritten while they are read."""
    reads = session.accesses(low, low + _CHUNK)
    reads = reads[(reads["space"] == int(Space.SRAM)) & (reads["operand"] >= 0)]
    for read in reads[reads["by"] < 0][:_MOST]:
        row = rows[int(read["seq"]) - low]
        yield finding(
            "T381",
            Subject(
                kind="command", name=name_of(session, row), seq=int(read["seq"]),
                address=int(read["addr"]), space="sram",
            ),
            f"command {int(read['seq'])} ({kind_name(row['kind'])}) reads "
            f"{int(read['nbytes'])} bytes at sram {int(read['addr']):#x} that nothing wrote",
            evidence={"address": int(read["addr"]), "bytes": int(read["nbytes"])},
            fix="find the transfer that should have brought the operand",
            origin="simulated",
        )  # fmt: skip
    if not len(reads):
        return
    at = reads["seq"] - low
    ends = rows["end"][at]
    starts = rows["start"][at]
    for step in range(1, _WINDOW):
        later = at + step
        inside = later < len(rows)
        if not inside.any():
            return
        other = rows[np.minimum(later, len(rows) - 1)]
        clash = (
            inside
            & (other["kind"] == int(Kind.DMA_LOAD))
            & (other["dst_space"] == int(Space.SRAM))
            & (other["status"] == int(Status.OK))
            & (other["dst"] < reads["addr"] + reads["nbytes"])
            & (other["dst"] + other["nbytes"] > reads["addr"])
            & (other["start"] < ends)
            & (other["end"] > starts)
        )
        for read, writer in zip(reads[clash][:1], other[clash][:1], strict=True):
            yield _race(session, read, writer)


def _race(session: Session, read: Any, writer: Any) -> Finding:
    seq, by = int(read["seq"]), int(writer["seq"])
    name = safe(session.tensors[int(read["tensor"])].name)
    return finding(
        "T382",
        Subject(kind="command", name=name, seq=by, tensor=int(writer["tensor"])),
        f"command {by} ({kind_name(writer['kind'])}) writes sram {int(writer['dst']):#x} while "
        f"command {seq} still reads {name} there",
        evidence={"writer": by, "reader": seq, "address": int(writer["dst"])},
        fix="make the load wait for the kernel that reads the slot",
        related=(Subject(kind="command", name=name, seq=seq),),
        origin="simulated",
    )


def _lives(session: Session) -> Iterator[Finding]:
    """Tensors in DDR whose places and lives overlap."""
    last_read: dict[int, int] = {}
    for low in range(0, session.n_commands, _CHUNK):
        reads = session.accesses(low, low + _CHUNK)
        reads = reads[reads["space"] == int(Space.DDR)]
        for number in np.unique(reads["tensor"]):
            last_read[int(number)] = int(reads["seq"][reads["tensor"] == number].max())
    placed = [
        t
        for t in session.tensors
        if t.space == "ddr" and t.address is not None and t.first_seq >= 0
        and t.base_nbytes and t.dtype not in NON_TENSOR
    ]  # fmt: skip
    if len(placed) > _MAX_TENSORS:
        return
    end = session.n_commands
    address = np.array([t.address for t in placed], np.int64)
    size = np.array([t.base_nbytes for t in placed], np.int64)
    born = np.array([t.first_seq for t in placed], np.int64)
    dead = np.array(
        [end if t.role == "output" else last_read.get(t.id, t.last_seq) for t in placed], np.int64
    )
    for i, tensor in enumerate(placed):
        clash = (
            (address < address[i] + size[i])
            & (address + size > address[i])
            & (born > born[i])
            & (born < dead[i])
            & (address != address[i])
        )
        for j in np.flatnonzero(clash)[:1]:
            yield _shared(tensor, placed[int(j)], int(dead[i]))


def _shared(first: TensorRecord, second: TensorRecord, read: int) -> Finding:
    return finding(
        "T383",
        Subject(kind="tensor", name=safe(first.name), tensor=first.id, seq=second.first_seq),
        f"{safe(first.name)} is overwritten by {safe(second.name)} at command {second.first_seq}, "
        f"and is still read by command {read}",
        evidence={"overwritten_at": second.first_seq, "read_at": read},
        fix="the memory plan took its life for shorter than it is",
        related=(Subject(kind="tensor", name=safe(second.name), tensor=second.id),),
        origin="simulated",
    )
