"""Commands held against memory: did each transfer do what it says, did each kernel read it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Space, Status, box_slices, kind_name
from npudbg.session.contents import Contents
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
Source = tuple[Bytes, Places, int]
"""Memory around a source, the place in it of each byte moved, and where the source begins."""
_MOST = 8
_MOST_WRITERS = 32
_WORD = 4
_INDEX = 8
"""Bytes of the widest index, ``int64``."""
_OPEN_BUS = 0xFF
_MAX_SHIFT = 4096
_MAX_SOURCE = 64 << 20
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
    changed = set(session.observations)
    for seq in session.payloads:
        row = session.command(seq)
        if row["kind"] != Kind.DMA_LOAD or row["status"] == Status.NOT_STARTED:
            continue
        if (seq, -1) in changed:
            continue  # it moved what lay there: T348 is about that
        meant, got = contents.box(row), contents.written(row)
        if meant is None or got is None or meant.size != got.size:
            continue
        old = contents.sram(int(row["dst"]), meant.size, seq - 1)
        yield _transfer(session, row, meant, got, old, _source(session, contents, row))


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
            yield _transfer(session, row, meant, got, None, _below(contents, row, meant))


def _below(contents: Contents, row: Any, meant: Bytes) -> Source:
    """Return SRAM from below a STORE's source on, and the place of each byte it moves."""
    start = int(row["src"])
    below, known = contents.sram(start - _MAX_SHIFT, _MAX_SHIFT, int(row["seq"]))
    reach = _MAX_SHIFT - int(np.flatnonzero(~known)[-1]) - 1 if not known.all() else _MAX_SHIFT
    line = np.concatenate([below[_MAX_SHIFT - reach :], meant])
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
    moved = _moved(meant, got, old)
    if moved is not None and moved < _WORD and (old is None or not old[1].all()):
        moved = 0  # with old bytes unknown, less than a word is chance: equal bytes
    # What is known to be the old content was not moved, whatever else it looks like.
    untouched = moved == 0 and old is not None and bool(old[1].all())
    shift = 0 if source is None or untouched else _shift(got, *source)
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


def _kernels(session: Session) -> Iterator[Finding]:
    """Operands that no command had written, and operands that came too late."""
    contents = Contents(session)
    seen: set[tuple[int, int]] = set()
    for seq, operand in session.observations:
        row = session.command(seq)
        reads = session.accesses(seq, seq + 1)
        read = next((r for r in reads if int(r["operand"]) == operand), None)
        held = session.observed(seq, operand)
        if read is None or held is None or read["space"] != Space.SRAM:
            continue
        got = np.frombuffer(held, np.uint8)
        meant, _ = contents.sram(int(read["addr"]), got.size, seq - 1)
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
    twin = _replayed(session, address, got, wrong, by) if replay else None
    if twin is not None:
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
        fix="a failing cell stays at its address when the job is run again; a replay moves",
    )  # fmt: skip


def _replayed(
    session: Session, address: int, got: Bytes, wrong: npt.NDArray[np.intp], by: int
) -> int | None:
    """Return an earlier transfer to this place whose bytes these are."""
    contents = Contents(session)
    # Only transfers to the wrong bytes count: a large operand covers many that are not.
    start, end = int(wrong[0]), int(wrong[-1]) + 1
    writes = session.writes(Space.SRAM, address + start, end - start, by - 1)
    for seq, low, high in itertools.islice(writes, _MOST_WRITERS):
        row = session.command(seq)
        if row["kind"] != Kind.DMA_LOAD or (low, high) != (0, end - start):
            continue
        data = contents.written(row)
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


def _moved(meant: Bytes, got: Bytes, old: tuple[Bytes, npt.NDArray[np.bool_]] | None) -> int | None:
    """Return how many leading bytes arrived if the rest was left alone, else None.

    What a destination held before is known only where a command had written it.
    """
    first = int((got != meant).argmax())
    if old is None:
        # Whatever lay there is not recorded: right bytes, then none that are right.
        return first if (got[first:] != meant[first:]).mean() > 0.5 else None
    before, known = old
    left = (got == before) | ~known
    # Right bytes that are not old ones must have been moved.
    arrived = np.flatnonzero((got == meant) & known & (got != before))
    moved = int(arrived[-1]) + 1 if len(arrived) else 0
    if not known.all():
        moved = max(moved, first if not known[:first].all() else 0)
    moved = min(moved, first)
    return moved if left[first:].all() else None


def _source(session: Session, contents: Contents, row: Any) -> Source | None:
    """Return DDR around a LOAD's source tensor, and the place of each byte it moves."""
    tensor = session.tensors[int(row["tensor"])]
    array = contents.array(tensor)
    if array is None or array.nbytes > _MAX_SOURCE or tensor.address is None:
        return None
    below = _ddr_below(session, contents, tensor, int(row["seq"]))
    raw = np.concatenate([below, np.frombuffer(array.tobytes(), np.uint8)])
    places = np.arange(array.nbytes).reshape((*array.shape, array.dtype.itemsize))
    return raw, places[box_slices(row, array.ndim)].reshape(-1) + below.size, below.size


def _ddr_below(session: Session, contents: Contents, tensor: TensorRecord, seq: int) -> Bytes:
    """Return what the record knows of DDR just below a tensor; elsewhere an open bus."""
    assert tensor.address is not None
    start = tensor.address - _MAX_SHIFT
    out = np.full(_MAX_SHIFT, _OPEN_BUS, np.uint8)
    for other in session.tensors:
        if other.space != "ddr" or other.address is None or other.first_seq > seq:
            continue
        low, high = (
            max(other.address, start),
            min(other.address + other.base_nbytes, tensor.address),
        )
        array = contents.array(other) if low < high else None
        if array is not None:
            data = np.frombuffer(array.tobytes(), np.uint8)
            out[low - start : high - start] = data[low - other.address : high - other.address]
    return out


def _shift(got: Bytes, raw: Bytes, places: Places, own: int) -> int:
    """Return by how many bytes the source was read too low, or 0.

    Args:
        got: What arrived.
        raw: Memory around the source.
        places: Where in it each byte lies that was meant.
        own: Where in it the source tensor begins: what lies below may have changed
            since, and decides only where nothing else can.
    """
    for shift in (1 << k for k in range(13)):
        low = places - shift
        inside = low >= own
        if int(inside.sum()) < max(8, shift // 4):
            inside = low >= 0
        if inside.any() and np.array_equal(raw[low[inside]], got[inside]):
            return shift
    return 0
