"""Device memory that changed though no command wrote it, found by who read it next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_rows import OWN_POKE, poked_by_hand
from npudbg.layers.trace_stray import strays
from npudbg.session.commands import Kind, Space, kind_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe

_MOST = 8

Places = npt.NDArray[np.intp]


@rule(3, "T348")
def device_memory(case: Case) -> Iterator[Finding]:
    """Find the first reads of DDR whose bytes are not those that were left there."""
    session = case.session
    if session is None or session.meta.backend != "simulated":
        return
    seen: set[tuple[int, int]] = set()
    for seq, operand in session.observations:
        reads = session.accesses(seq, seq + 1)
        read = next((r for r in reads if int(r["operand"]) == operand), None)
        held = session.observed(seq, operand)
        if read is None or held is None or read["space"] != Space.DDR:
            continue
        tensor = session.tensors[int(read["tensor"])]
        left = _left(session, tensor, int(read["addr"]), len(held))
        if left is None:
            continue
        got = np.frombuffer(held, np.uint8)
        wrong = np.flatnonzero(left != got)
        # The same bytes are read by every tile that needs them: once is enough.
        first = int(read["addr"]) + int(wrong[0]) if len(wrong) else 0
        if not len(wrong) or (first, int(read["by"])) in seen:
            continue
        if _overwritten(session, first, seq):
            continue  # T349 is about that
        seen.add((first, int(read["by"])))
        yield _changed(session, read, tensor, wrong, left, got)
        if len(seen) == _MOST:
            return


def _overwritten(session: Session, address: int, seq: int) -> bool:
    """Whether a transfer that had gone astray was the last to write an address."""
    newest = next((w[0] for w in session.writes(Space.DDR, address, 1, seq - 1)), None)
    return newest is not None and strays(session, session.command(newest))


def _left(
    session: Session, tensor: TensorRecord, address: int, nbytes: int
) -> npt.NDArray[np.uint8] | None:
    """Return what commands had left in a range of a tensor's place."""
    array = session.array(tensor)
    if array is None or tensor.address is None:
        return None
    start = address - tensor.address
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)[max(start, 0) : start + nbytes]
    return raw if raw.size == nbytes else None


def _changed(
    session: Session,
    read: Any,
    tensor: TensorRecord,
    wrong: Places,
    left: npt.NDArray[np.uint8],
    got: npt.NDArray[np.uint8],
) -> Finding:
    seq, by = int(read["seq"]), int(read["by"])
    row = session.command(seq)
    address = int(read["addr"]) + int(wrong[0])
    bits = int(np.unpackbits(left[wrong] ^ got[wrong]).sum())
    before, after = int(left[wrong[0]]), int(got[wrong[0]])
    name = safe(tensor.name)
    reader = "the host" if row["kind"] in (Kind.WAIT, Kind.INVALIDATE) else kind_name(row["kind"])
    since = f"command {by} had written it" if by >= 0 else "it was put there"
    evidence = {
        "address": address, "bytes": len(wrong), "bits": bits, "before": before, "after": after,
        "written_by": by, "read_by": seq,
    }  # fmt: skip
    poked = poked_by_hand(session, "ddr", address, seq)
    if poked is not None:
        evidence["set_after"] = poked
    how = f"; they were set after command {poked}" if poked is not None else ""
    count = "1 byte" if len(wrong) == 1 else f"{len(wrong)} bytes"
    return finding(
        "T348",
        Subject(
            kind="tensor", name=name, tensor=tensor.id, seq=seq, address=address, space="ddr",
            node=int(row["node"]) if row["node"] >= 0 else None,
        ),
        f"{name} changed in device memory after {since}: {count} from ddr {address:#x} on "
        f"({before:#04x} to {after:#04x}{', one bit' if bits == 1 else ''}), "
        f"read by command {seq} ({reader}){how}",
        evidence=evidence,
        fix=OWN_POKE
        if poked is not None
        else f"`watch {address:#x}` and `reverse-continue` in a replay stop where it changed; "
        "look for another master that writes there, or test the memory",
        origin="simulated",
        related=(Subject(kind="command", name=name, seq=by),) if by >= 0 else (),
    )  # fmt: skip
