"""Runs in which no engine took commands: none from the start, or none after a reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_rows import CHUNK, name_of, origin_of, with_status
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
    name = name_of(session, row)
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


@rule(3, "T363")
def unrecovered(case: Case) -> Iterator[Finding]:
    """One job was lost, and the device took no command of any job that came after it."""
    session = case.session
    if session is None:
        return
    hung = with_status(session, Status.HUNG)
    waits = [int(r["seq"]) for r in hung if r["kind"] == Kind.WAIT]
    lost = next((int(r["seq"]) for r in hung if r["kind"] != Kind.WAIT), None)
    if lost is None or not waits:
        return
    ignored = [
        int(r["seq"])
        for r in with_status(session, Status.NOT_STARTED)
        if r["seq"] > waits[0] and r["kind"] in _DEVICE
    ]
    later = [w for w in waits if ignored and w > ignored[0]]
    if not later or _taken_after(session, waits[0]):
        return
    name = name_of(session, session.command(ignored[0]))
    yield finding(
        "T363",
        Subject(kind="command", name=name, seq=ignored[0]),
        f"after command {lost} had hung, none of {len(later)} jobs that were submitted again was "
        f"taken: command {ignored[0]} (of {name}) on never started; the reset did not bring the "
        "device back",
        evidence={
            "lost": lost,
            "jobs_after": len(later),
            "jobs_completed_after": 0,
            "first_ignored": ignored[0],
        },
        fix="unload and load the driver, or cut the device's power; look for the firmware's "
        "error code in dmesg, which the driver did not handle",
        related=(Subject(kind="command", seq=lost),),
        origin=origin_of(session),
    )


def _taken_after(session: Session, seq: int) -> bool:
    """Whether an engine of the device took a command after ``seq``."""
    for low in range(seq // CHUNK * CHUNK, session.n_commands, CHUNK):
        rows = session.commands(max(low, seq + 1), low + CHUNK)
        rows = rows[np.isin(rows["kind"], _DEVICE)]
        if (rows["status"] != Status.NOT_STARTED).any():
            return True
    return False


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
