"""Transfers and kernels that the device refused, and which mistake of the driver it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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
    with_status,
)
from npudbg.session import refusals
from npudbg.session.commands import Kind, Space, Status, kind_name, space_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.refusals import Refusal
from npudbg.session.text import safe


@rule(3, "T311", "T362")
def refused(case: Case) -> Iterator[Finding]:
    """Commands that ended in a fault."""
    session = case.session
    if session is None:
        return
    known = refusals.read(session)
    for row in with_status(session, Status.FAULT):
        if row["src_space"] == Space.HOST:
            continue  # a misaligned host buffer: T302
        if row["kind"] == Kind.KERNEL:
            yield _kernel(session, row)
        else:
            yield _transfer(case, session, row, known.get(int(row["seq"])))


class _Cause(NamedTuple):
    """Why an address was refused, and what mends it."""

    text: str
    fix: str
    evidence: dict[str, Any]


def _transfer(case: Case, session: Session, row: Any, said: Refusal | None) -> Finding:
    seq, write = int(row["seq"]), row["kind"] == Kind.DMA_STORE
    way = "write" if write else "read"
    address = said.address if said is not None else device_address(row)
    engines = session.meta.engines
    engine = engines[row["engine"]] if row["engine"] < len(engines) else "-"
    cause = _cause(case, session, row, said)
    tensor, node = tensor_of(session, row), int(row["node"])
    return finding(
        "T362",
        Subject(
            kind="command", name=name_of(session, row), seq=seq,
            tensor=None if tensor is None else tensor.id,
            node=node if 0 <= node < len(session.nodes) else None, address=address,
            space=space_name(row["dst_space"] if write else row["src_space"]),
        ),
        f"command {seq} ({kind_name(row['kind'])} of {name_of(session, row)} on {safe(engine)}): "
        f"address {address:#x} was refused on {way}, {cause.text}",
        evidence={
            "address": address,
            "direction": way,
            "engine": safe(engine),
            "mask_bits": case.target.dma.mask_bits,
            **cause.evidence,
        },
        fix=cause.fix,
        origin=origin_of(session),
    )  # fmt: skip


def _cause(case: Case, session: Session, row: Any, said: Refusal | None) -> _Cause:
    """Tell the driver's mistakes apart by the address, and by who had reached its page."""
    issued, mask = device_address(row), case.target.dma.mask_bits
    meant = meant_address(session, row)
    kept = None if meant is None else lost_bits(issued, meant)
    if kept is not None:
        return _Cause(
            f"it is {meant:#x} of {name_of(session, row)} without its bits from {kept} on",
            "write the upper half of the address too, or allocate below what the field holds",
            {"reason": "truncated", "meant_address": meant, "kept_bits": kept},
        )
    beyond = mask is not None and issued >> mask
    reason = said.reason if said is not None else "beyond-mask" if beyond else "unmapped"
    if reason == "beyond-mask":
        return _Cause(
            f"it exceeds the engine's {mask}-bit mask",
            "allocate and map the buffer with the device's DMA mask",
            {"reason": reason},
        )
    page = said.page_bytes if said is not None else case.target.memory.page_bytes
    start = (said.address if said is not None else issued) // page * page
    evidence = {"reason": reason, "page_address": start, "page_bytes": page}
    if reason == "read-only":
        return _Cause(
            f"its page {start:#x} is mapped for reading only",
            "map the buffer for the device to write (DMA_FROM_DEVICE or DMA_BIDIRECTIONAL)",
            evidence,
        )
    before = _reached(session, start, page, int(row["seq"]))
    if before is None:
        return _Cause(
            f"its page {start:#x} is not mapped, and no command had reached it before",
            "map the buffer for this device before the job is submitted",
            evidence,
        )
    return _Cause(
        f"its page {start:#x} is not mapped any more: command {before} had reached it "
        f"({name_of(session, session.command(before))})",
        "keep the buffer mapped until the job's last command has ended",
        {**evidence, "reason": "unmapped-early", "last_reached_by": before},
    )


def _reached(session: Session, page: int, page_bytes: int, seq: int) -> int | None:
    """Return the newest command before ``seq`` whose transfer touched a page."""
    newest = next((w[0] for w in session.writes(Space.DDR, page, page_bytes, seq - 1)), -1)
    for low in range(seq // CHUNK * CHUNK, -1, -CHUNK):
        reads = session.accesses(low, min(low + CHUNK, seq))
        reads = reads[(reads["space"] == int(Space.DDR)) & (reads["addr"] < page + page_bytes)]
        reads = reads[reads["addr"] + reads["nbytes"] > page]
        if len(reads):
            newest = max(newest, int(reads["seq"].max()))
            break
    return newest if newest >= 0 else None


def _kernel(session: Session, row: Any) -> Finding:
    node = session.nodes[int(row["node"])]
    return finding(
        "T311",
        Subject(kind="command", name=safe(node.label), seq=int(row["seq"]), node=node.index),
        f"command {int(row['seq'])} (KERNEL of {safe(node.label)}): {safe(node.note, 200)}",
        evidence={"node": node.index},
        fix="look at the transfers that brought its operands",
        origin=origin_of(session),
    )
