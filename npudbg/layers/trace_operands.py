"""Operands held against SRAM: bytes that no command wrote, transfers that came too late."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.findings import finding
from npudbg.layers.trace_rows import OWN_POKE, poked_by_hand
from npudbg.session.commands import Kind, Space, kind_name
from npudbg.session.memory.writes import Writes
from npudbg.session.memory.written import Written
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

Bytes = npt.NDArray[np.uint8]
_MOST_WRITERS = 32
_INDEX = 8
"""Bytes of the widest index, ``int64``."""
_CHUNK = 1 << 14


def operands(session: Session) -> Iterator[Finding]:
    """Operands that no command had written, and operands that came too late."""
    writes = Writes(session)
    seen: set[tuple[int, int]] = set()
    for seq, operand in session.observations:
        row = session.command(seq)
        reads = session.accesses(seq, seq + 1)
        read = next((r for r in reads if int(r["operand"]) == operand), None)
        held = session.observed(seq, operand)
        if read is None or held is None or read["space"] != Space.SRAM:
            continue
        got = np.frombuffer(held, np.uint8)
        meant, _ = writes.left(Space.SRAM, int(read["addr"]), got.size, seq - 1)
        first = int(read["addr"]) + int((meant != got).argmax())
        # The same cell is read by every tile that follows: once is enough.
        if (first, int(read["by"])) not in seen:
            seen.add((first, int(read["by"])))
            yield _changed(session, row, read, meant, got)
    yield from _late(session)


def _changed(session: Session, row: Any, read: Any, meant: Bytes, got: Bytes) -> Finding:
    seq, address = int(row["seq"]), int(read["addr"])
    wrong = np.flatnonzero(meant != got)
    bits = int(np.unpackbits(meant[wrong] ^ got[wrong]).sum()) if len(wrong) else 0
    at = address + int(wrong[0]) if len(wrong) else address
    by = int(read["by"])
    tensor = session.tensors[int(read["tensor"])]
    name = safe(tensor.name)
    evidence: dict[str, Any] = {
        "address": at, "bytes": len(wrong), "bits": bits, "written_by": by, "read_by": seq,
    }  # fmt: skip
    text = (
        f"command {seq} ({kind_name(row['kind'])}) read {len(wrong)} bytes of {name} at sram "
        f"{at:#x} that no command wrote"
    )
    # In a flag or an index one bit can be all that a replay changes.
    replay = bits > 1 or (bits == 1 and got.size <= _INDEX)
    poked = poked_by_hand(session, "sram", at, seq)
    twin = _replayed(session, address, got, wrong, by) if replay and poked is None else None
    if poked is not None:
        evidence.update(how="set", after=poked)
        text += f": they were set after command {poked}"
    elif twin is not None:
        evidence.update(how="replayed", replayed=twin)
        text += f": they are those of command {twin}, which was done once more"
    elif bits == 1:
        before, after = int(meant[wrong[0]]), int(got[wrong[0]])
        evidence.update(before=before, after=after, how="bit-flip")
        text += f": one bit changed ({before:#04x} to {after:#04x}) after command {by}"
    subject = Subject(
        kind="command", name=name, seq=seq, tensor=tensor.id, node=int(row["node"]), address=at,
        space="sram",
    )  # fmt: skip
    related = (Subject(kind="command", name=name, seq=evidence.get("replayed", by)),)
    return finding(
        "T344", subject, text, evidence=evidence, origin="simulated", related=related,
        fix=OWN_POKE if poked is not None
        else "a failing cell stays at its address when the job is run again; a replay moves",
    )  # fmt: skip


def _replayed(
    session: Session, address: int, got: Bytes, wrong: npt.NDArray[np.intp], by: int
) -> int | None:
    """Return an earlier transfer to this place whose bytes these are."""
    written = Written(session)
    # Only transfers to the wrong bytes count: a large operand covers many that are not.
    start, end = int(wrong[0]), int(wrong[-1]) + 1
    writes = session.writes(Space.SRAM, address + start, end - start, by - 1)
    for seq, low, high in itertools.islice(writes, _MOST_WRITERS):
        row = session.command(seq)
        if row["kind"] != Kind.DMA_LOAD or (low, high) != (0, end - start):
            continue
        data = written.packed(row)
        if data is None:
            continue
        part = data[address + start - int(row["dst"]) :][: end - start]
        if np.array_equal(part[wrong - start], got[wrong]):
            return int(seq)
    return None


def _late(session: Session) -> Iterator[Finding]:
    """Kernels that started before the transfer of an operand had ended."""
    for low in range(0, session.n_commands, _CHUNK):
        reads = session.accesses(low, low + _CHUNK)
        reads = reads[(reads["by"] >= 0) & (reads["space"] == Space.SRAM)]
        if not len(reads):
            continue
        base = int(reads["by"].min())
        rows = session.commands(base, low + _CHUNK)
        start, end = rows["start"], rows["end"]
        early = start[reads["seq"] - base] < end[reads["by"] - base]
        for read in reads[early]:
            seq, by = int(read["seq"]), int(read["by"])
            if session.command(by)["kind"] != Kind.DMA_LOAD:
                continue
            name = safe(session.tensors[int(read["tensor"])].name)
            began, arrived = int(start[seq - base]), int(end[by - base])
            yield finding(
                "T343",
                Subject(kind="command", name=name, seq=by, tensor=int(read["tensor"])),
                f"command {by} ({name}) arrived at cycle {arrived}, after command {seq} had begun "
                f"to read it at {began}",
                evidence={"transfer": by, "kernel": seq, "arrived": arrived, "began": began},
                fix="make the kernel wait for the transfer",
                origin="simulated",
            )
