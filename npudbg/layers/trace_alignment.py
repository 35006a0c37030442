"""Accesses that break what the profile says of alignment: buffers, lengths, bank words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Space, Status, kind_name, space_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe
from npudbg.targets.profile import Target

_CHUNK = 1 << 15
_LOAD, _STORE, _SRAM = int(Kind.DMA_LOAD), int(Kind.DMA_STORE), int(Space.SRAM)


@rule(3, "T385")
def misaligned(case: Case) -> Iterator[Finding]:
    """Device buffers, lengths of transfers and operands in SRAM against the profile."""
    session = case.session
    if session is None or session.meta.backend != "simulated" or not session.n_commands:
        return
    yield from _buffers(session, case.target)
    yield from _lengths(session, case.target)
    yield from _operands(session, case.target)


def _buffers(session: Session, target: Target) -> Iterator[Finding]:
    """Tensors in device memory that do not begin where the engine's buffers have to."""
    step = target.dma.base_alignment
    if step is None:
        return
    odd = [
        t for t in session.tensors
        if t.space == "ddr" and t.address is not None and t.first_seq >= 0 and t.address % step
    ]  # fmt: skip
    for tensor in odd[:1]:
        assert tensor.address is not None
        yield _found(
            session, session.command(tensor.first_seq), tensor.id, tensor.address, "ddr",
            f"{safe(tensor.name)} lies at {tensor.address:#x}, {tensor.address % step:#x} past a "
            f"multiple of {step:#x} that the engine wants ({len(odd)} such buffers)",
            {"remainder": tensor.address % step, "alignment": step, "count": len(odd)},
            f"allocate the buffer at a multiple of {step:#x}",
        )  # fmt: skip


def _lengths(session: Session, target: Target) -> Iterator[Finding]:
    """Transfers whose runs are no multiple of the length that the engine counts in."""
    from npudbg.device.descriptors import descriptor_of

    step = target.dma.length_alignment
    if step is None or step < 2:
        return
    count = moves = 0
    first: Any = None
    run = 0
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        moving = (rows["kind"] == _LOAD) | (rows["kind"] == _STORE)
        for row in rows[moving & (rows["status"] != int(Status.NOT_STARTED))]:
            found = descriptor_of(session, row, target)
            if found is None:
                continue
            moves += 1
            if found.shape.run % step:
                count += 1
                first, run = (row, found.shape.run) if first is None else (first, run)
    if first is None:
        return
    seq = int(first["seq"])
    yield _found(
        session, first, int(first["tensor"]), int(first["dst"]), space_name(first["dst_space"]),
        f"command {seq} ({kind_name(first['kind'])}) moves runs of {run} bytes; the engine counts "
        f"in units of {step} ({count} of {moves} transfers)",
        {"bytes": run, "alignment": step, "count": count, "transfers": moves},
        f"pad the innermost axis to a multiple of {step} bytes",
    )  # fmt: skip


def _operands(session: Session, target: Target) -> Iterator[Finding]:
    """Operands that begin inside a word of a bank, where the profile knows its banks."""
    stated = {"memory.bank_bytes_per_cycle"} <= set(target.sources)
    step = target.memory.bank_bytes_per_cycle
    if not stated or step < 2:
        return
    count = seen = 0
    first: Any = None
    for low in range(0, session.n_commands, _CHUNK):
        reads = session.accesses(low, low + _CHUNK)
        reads = reads[(reads["space"] == _SRAM) & (reads["operand"] >= 0)]
        odd = np.flatnonzero(reads["addr"] % step)
        seen, count = seen + len(reads), count + len(odd)
        if first is None and len(odd):
            first = reads[odd[0]]
    if first is None:
        return
    seq, address = int(first["seq"]), int(first["addr"])
    words = (address + int(first["nbytes"]) - 1) // step - address // step + 1
    need = -(-int(first["nbytes"]) // step)
    yield _found(
        session, session.command(seq), int(first["tensor"]), address, "sram",
        f"command {seq} reads an operand at sram {address:#x}, {address % step} bytes into a bank "
        f"word of {step}: {words} words where {need} hold it ({count} of {seen} operands)",
        {"remainder": address % step, "alignment": step, "count": count, "operands": seen,
         "words": words, "words_aligned": need},
        f"place operands at multiples of {step} bytes",
    )  # fmt: skip


def _found(
    session: Session, row: Any, tensor: int, address: int, space: str, text: str,
    evidence: dict[str, Any], fix: str,
) -> Finding:  # fmt: skip
    name = safe(session.tensors[tensor].name) if 0 <= tensor < len(session.tensors) else "-"
    return finding(
        "T385",
        Subject(kind="command", name=name, seq=int(row["seq"]), tensor=tensor, address=address,
                space=space),
        text,
        evidence={"address": address, **evidence},
        fix=fix,
        origin="simulated",
    )  # fmt: skip
