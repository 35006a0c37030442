"""Commands held against memory: did each transfer do what it says, did each kernel read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_operands import operands
from npudbg.layers.trace_rows import name_of
from npudbg.layers.trace_stray import strays
from npudbg.layers.transfer_bytes import MAX_SHIFT, Bytes, Source, moved_bytes, shift_of, source_of
from npudbg.session.commands import Kind, Space, Status, kind_name
from npudbg.session.memory.writes import Writes
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject

_MOST = 8
_WORD = 4


@rule(3, "T341", "T342", "T343", "T344", "T345", "T346")
def transfers(case: Case) -> Iterator[Finding]:
    """Find the first commands whose bytes are not what they say."""
    session = case.session
    if session is None or session.meta.backend != "simulated":
        return
    found: list[Finding] = []
    found += _loads(session)
    found += operands(session)
    found += _stores(session)
    found.sort(key=lambda f: f.subject.seq or 0)
    yield from found[:_MOST]


def _loads(session: Session) -> Iterator[Finding]:
    writes = Writes(session)
    changed = set(session.observations)
    for seq in session.payloads:
        row = session.command(seq)
        if row["kind"] != Kind.DMA_LOAD or row["status"] == Status.NOT_STARTED:
            continue
        if (seq, -1) in changed:
            continue  # it moved what lay there: T348 is about that
        if strays(session, row):
            continue  # it moved something else: T349 is about that
        meant, got = writes.written.box(row), writes.written.packed(row)
        if meant is None or got is None or meant.size != got.size:
            continue
        old = writes.left(Space.SRAM, int(row["dst"]), meant.size, seq - 1)
        yield _transfer(session, row, meant, got, old, source_of(writes, row))


def _stores(session: Session) -> Iterator[Finding]:
    """Compare what lies in DDR with what lay in SRAM when it was stored."""
    writes = Writes(session)
    dirty = {int(session.command(s)["tensor"]) for s in session.payloads}
    for number in sorted(dirty):
        tensor = session.tensors[number] if 0 <= number < len(session.tensors) else None
        if tensor is None or not 0 <= tensor.producer < len(session.nodes):
            continue
        node = session.nodes[tensor.producer]
        rows = session.commands(node.first_seq, node.last_seq + 1)
        for row in rows[(rows["kind"] == Kind.DMA_STORE) & (rows["tensor"] == number)]:
            got = writes.written.box(row)
            if got is None or row["status"] not in (Status.OK, Status.TOUCHED):
                continue
            if strays(session, row):
                continue
            meant, known = writes.left(Space.SRAM, int(row["src"]), got.size, int(row["seq"]))
            if not known.all() or np.array_equal(meant, got):
                continue
            yield _transfer(session, row, meant, got, None, _below(writes, row, meant))


def _below(writes: Writes, row: Any, meant: Bytes) -> Source:
    """Return SRAM from below a STORE's source on, and the place of each byte it moves."""
    start = int(row["src"])
    below, known = writes.left(Space.SRAM, start - MAX_SHIFT, MAX_SHIFT, int(row["seq"]))
    reach = MAX_SHIFT - int(np.flatnonzero(~known)[-1]) - 1 if not known.all() else MAX_SHIFT
    line = np.concatenate([below[MAX_SHIFT - reach :], meant])
    return line, np.arange(reach, line.size), 0


def _transfer(
    session: Session,
    row: Any,
    meant: Bytes,
    got: Bytes,
    old: tuple[Bytes, npt.NDArray[np.bool_]] | None,
    source: Source | None,
) -> Finding:
    """Name what happened to one transfer.

    Args:
        session: The record.
        row: The command.
        meant: Bytes that its source holds.
        got: Bytes that its destination holds after it.
        old: What the destination held before, and where that is known.
        source: Memory around the source.
    """
    seq, name = int(row["seq"]), name_of(session, row)
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
    moved = moved_bytes(meant, got, old)
    if moved is not None and moved < _WORD and (old is None or not old[1].all()):
        moved = 0  # with old bytes unknown, less than a word is chance: equal bytes
    # What is known to be the old content was not moved, whatever else it looks like.
    untouched = moved == 0 and old is not None and bool(old[1].all())
    shift = 0 if source is None or untouched else shift_of(got, *source)
    if shift:
        evidence["shift"] = shift
        return _found(
            "T345", subject, f"{what} began {shift} bytes below the address that was meant",
            evidence, "place the source at a multiple of the engine's alignment",
        )  # fmt: skip
    if moved == 0:
        return _found(
            "T341", subject, f"{what} ended, and its destination holds what lay there before",
            evidence, "do not reuse a descriptor before its completion was seen",
        )  # fmt: skip
    if moved is not None:
        evidence["moved"] = moved
        return _found(
            "T342", subject, f"{what} moved {moved} of {meant.size} bytes",
            evidence, "compare the length with the width of the descriptor's field",
        )  # fmt: skip
    return _found(
        "T346", subject, f"{what} delivered {int(wrong.sum())} wrong bytes of {meant.size}",
        evidence, "look at what else writes to this range",
    )  # fmt: skip


def _found(code: str, subject: Subject, text: str, evidence: dict[str, Any], fix: str) -> Finding:
    return finding(code, subject, text, evidence=evidence, fix=fix, origin="simulated")
