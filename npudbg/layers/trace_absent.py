"""Runs in which no engine ever took a command: the device is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_rows import CHUNK, origin_of, with_status
from npudbg.session.commands import Kind, Status, kind_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_DEVICE = (Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE)


@rule(3, "T312")
def absent(case: Case) -> Iterator[Finding]:
    """The host rang, waited and rang again, and not one command was taken."""
    session = case.session
    if session is None:
        return
    row = never_taken(session)
    waits = [w for w in with_status(session, Status.HUNG) if w["kind"] == Kind.WAIT]
    if row is None or not waits:
        return
    waited = sum(int(w["end"]) - int(w["start"]) for w in waits)
    first = int(waits[0]["start"])
    share = waited / max(int(waits[-1]["end"]) - first, 1)
    nodes = case.target.board.device_nodes
    looked = ", ".join(safe(n) for n in nodes)
    number = int(row["tensor"])
    name = safe(session.tensors[number].name) if 0 <= number < len(session.tensors) else "-"
    seq = int(row["seq"])
    yield finding(
        "T312",
        Subject(kind="command", name=name, seq=seq),
        f"command {seq} ({kind_name(row['kind'])} of {name}), the first of the device, was never "
        f"taken: {len(waits)} attempts, {waited} cycles of waiting with the host at "
        f"{share:.0%} and every engine at 0",
        evidence={
            "seq": seq,
            "attempts": len(waits),
            "waited_cycles": waited,
            "host_busy": round(share, 4),
            "device_commands_completed": 0,
            "device_nodes": list(nodes),
        },
        fix=f"look for the device node on the board first: {looked}"
        if nodes
        else "look for the driver's device node on the board first (ls /dev, dmesg)",
        origin=origin_of(session),
    )


def never_taken(session: Session) -> Any | None:
    """Return the first command of a device that took none; None if it took any or had none."""
    first = None
    for low in range(0, session.n_commands, CHUNK):
        rows = session.commands(low, low + CHUNK)
        rows = rows[np.isin(rows["kind"], _DEVICE)]
        if (rows["status"] != Status.NOT_STARTED).any():
            return None
        if first is None and len(rows):
            first = rows[0]
    return first
