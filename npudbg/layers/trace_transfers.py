"""Commands held against memory: did each transfer do what it says, did each kernel read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Space, Status, kind_name
from npudbg.session.contents import Contents
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

Bytes = npt.NDArray[np.uint8]
_MOST = 8
_MAX_SHIFT = 4096
_CHUNK = 1 << 14


@rule(3, "T341", "T342", "T343", "T344", "T345", "T346")
def transfers(case: Case) -> Iterator[Finding]:
    """Find the first commands whose bytes are not what they say."""
    session = case.session
    if session is None or session.meta.backend != "simulated":
        return
    found: list[Finding] = []
    found += _loads(session)
    found += _kernels(session)
    found += _stores(session)
    found.sort(key=lambda f: f.subject.seq or 0)
    yield from found[:_MOST]


def _loads(session: Session) -> Iterator[Finding]:
    contents = Contents(session)
    for seq in session.payloads:
        row = session.command(seq)
        if row["kind"] != Kind.DMA_LOAD or row["status"] == Status.NOT_STARTED:
            continue
        meant, got = contents.box(row), contents.written(row)
        if meant is None or got is None or meant.size != got.size:
            continue
        old, known = contents.sram(int(row["dst"]), meant.size, seq - 1)
        yield _transfer(session, row, meant, got, np.where(known, old, got), _source(session, row))


def _stores(session: Session) -> Iterator[Finding]:
    """Compare what lies in DDR with what lay in SRAM when it was stored."""
    contents = Contents(session)
    dirty = {int(session.command(s)["tensor"]) for s in session.payloads}
    for number in sorted(dirty):
        tensor = session.tensors[number] if 0 <= number < len(session.tensors) else None
        if tensor is None or not 0 <= tensor.producer < len(session.nodes):
            continue
        node = session.nodes[tensor.producer]
        rows = session.commands(node.first_seq, node.last_seq + 1)
        for row in rows[(rows["kind"] == Kind.DMA_STORE) & (rows["tensor"] == number)]:
            got = contents.box(row)
            if got is None or row["status"] not in (Status.OK, Status.TOUCHED):
                continue
            meant, known = contents.sram(int(row["src"]), got.size, int(row["seq"]))
            if not known.all() or np.array_equal(meant, got):
                continue
            below, _ = contents.sram(int(row["src"]) - _MAX_SHIFT, _MAX_SHIFT, int(row["seq"]))
            yield _transfer(session, row, meant, got, None, (below, meant))


def _transfer(
    session: Session,
    row: Any,
    meant: Bytes,
    got: Bytes,
    old: Bytes | None,
    source: tuple[Bytes, Bytes] | None,
) -> Finding:
    """Name what happened to one transfer.

    Args:
        session: The record.
        row: The command.
        meant: Bytes that its source holds.
        got: Bytes that its destination holds after it.
        old: What the destination held before, where that is known.
        source: Bytes just below the source, and the source, both linear.
    """
    seq, name = int(row["seq"]), _name(session, row)
    what = f"command {seq} ({kind_name(row['kind'])} of {name})"
    wrong = got != meant
    first = int(wrong.argmax())
    evidence: dict[str, Any] = {
        "bytes": int(meant.size),
        "wrong_bytes": int(wrong.sum()),
        "first_wrong": first,
    }
    subject = Subject(
        kind="command", name=name, seq=seq, tensor=int(row["tensor"]), node=int(row["node"])
    )
    shift = _shift(got, source)
    if shift:
        evidence["shift"] = shift
        return _found(
            "T345", subject, f"{what} began {shift} bytes below the address that was meant",
            evidence, "place the source at a multiple of the engine's alignment",
        )  # fmt: skip
    rest = first if old is None else _first_new(got, meant, old)
    if old is not None and np.array_equal(got, old):
        rest = 0
    unchanged = old is None or np.array_equal(got[rest:], old[rest:])
    if unchanged and rest == 0 and (old is not None or wrong.mean() > 0.5):
        return _found(
            "T341", subject, f"{what} ended, and its destination holds what lay there before",
            evidence, "do not reuse a descriptor before its completion was seen",
        )  # fmt: skip
    if unchanged and np.array_equal(got[:rest], meant[:rest]):
        evidence["moved"] = rest
        return _found(
            "T342", subject, f"{what} moved {rest} of {meant.size} bytes",
            evidence, "compare the length with the width of the descriptor's field",
        )  # fmt: skip
    return _found(
        "T346", subject, f"{what} delivered {int(wrong.sum())} wrong bytes of {meant.size}",
        evidence, "look at what else writes to this range",
    )  # fmt: skip


def _kernels(session: Session) -> Iterator[Finding]:
    """Operands that no command had written, and operands that came too late."""
    contents = Contents(session)
    for seq, operand in session.observations:
        row = session.command(seq)
        reads = session.accesses(seq, seq + 1)
        read = next((r for r in reads if int(r["operand"]) == operand), None)
        held = session.observed(seq, operand)
        if read is None or held is None:
            continue
        got = np.frombuffer(held, np.uint8)
        meant, _ = contents.sram(int(read["addr"]), got.size, seq - 1)
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
    if bits == 1:
        before, after = int(meant[wrong[0]]), int(got[wrong[0]])
        evidence.update(before=before, after=after, how="bit-flip")
        text += f": one bit changed ({before:#04x} to {after:#04x}) after command {by}"
    else:
        twin = _replayed(session, address, got, wrong, by)
        if twin is not None:
            evidence.update(how="replayed", replayed=twin)
            text += f": they are those of command {twin}, which was done once more"
    subject = Subject(
        kind="command", name=name, seq=seq, tensor=tensor.id, node=int(row["node"]), address=at,
        space="sram",
    )  # fmt: skip
    related = (Subject(kind="command", name=name, seq=evidence.get("replayed", by)),)
    return finding(
        "T344", subject, text, evidence=evidence, origin="simulated", related=related,
        fix="a failing cell stays at its address when the job is run again; a replay moves",
    )  # fmt: skip


def _replayed(
    session: Session, address: int, got: Bytes, wrong: npt.NDArray[np.intp], by: int
) -> int | None:
    """Return an earlier transfer to this place whose bytes these are."""
    contents = Contents(session)
    for tried, (seq, low, high) in enumerate(session.writes(Space.SRAM, address, got.size, by - 1)):
        if tried > 32:
            return None
        row = session.command(seq)
        data = contents.written(row)
        if row["kind"] != Kind.DMA_LOAD or data is None:
            continue
        part = data[address + low - int(row["dst"]) :][: high - low]
        inside = wrong[(wrong >= low) & (wrong < low + part.size)]
        if len(inside) == len(wrong) and np.array_equal(part[inside - low], got[inside]):
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
            yield _found(
                "T343",
                Subject(kind="command", name=name, seq=by, tensor=int(read["tensor"])),
                f"command {by} ({name}) arrived at cycle {arrived}, after command {seq} had begun "
                f"to read it at {began}",
                {"transfer": by, "kernel": seq, "arrived": arrived, "began": began},
                "make the kernel wait for the transfer",
            )


def _found(code: str, subject: Subject, text: str, evidence: dict[str, Any], fix: str) -> Finding:
    return finding(code, subject, text, evidence=evidence, fix=fix, origin="simulated")


def _name(session: Session, row: Any) -> str:
    number = int(row["tensor"])
    return safe(session.tensors[number].name) if 0 <= number < len(session.tensors) else "-"


def _first_new(got: Bytes, meant: Bytes, old: Bytes) -> int:
    """Return from where on the destination was left as it was."""
    arrived = np.flatnonzero((got == meant) & (got != old))
    return int(arrived[-1]) + 1 if len(arrived) else 0


def _source(session: Session, row: Any) -> tuple[Bytes, Bytes] | None:
    return None


def _shift(got: Bytes, source: tuple[Bytes, Bytes] | None) -> int:
    """Return by how many bytes a linear source was read too low, or 0."""
    if source is None:
        return 0
    below, exact = source
    line = np.concatenate([below, exact])
    end = line.size
    for shift in (1 << k for k in range(2, 13)):
        if shift <= below.size and np.array_equal(line[end - shift - got.size : end - shift], got):
            return shift
    return 0
