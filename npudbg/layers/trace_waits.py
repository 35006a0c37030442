"""Waits and what they are for: results that nobody waited for, waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Rows, Space, Status, kind_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_CHUNK = 1 << 15
_MOST = 4
_DEVICE = (int(Kind.DMA_LOAD), int(Kind.KERNEL), int(Kind.DMA_STORE))
_WAIT, _HOST = int(Kind.WAIT), int(Kind.HOST)


@rule(3, "T384", "T386")
def waits(case: Case) -> Iterator[Finding]:
    """Hold every WAIT against the jobs that end, and every host read against the WAITs."""
    session = case.session
    if session is None or session.meta.backend != "simulated" or not session.n_commands:
        return
    if session.status != "complete":
        return  # a hung run has other findings, and its last WAIT has no end
    found = list(_walk(session))
    yield from [f for f in found if f.code == "T384"][:_MOST]
    yield from [f for f in found if f.code == "T386"][:_MOST]


def _walk(session: Session) -> Iterator[Finding]:
    """Go through the run once: the last WAIT, and the last end of anything on the device."""
    waited, last_wait, ended = -1, -1, -1
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        busy = np.isin(rows["kind"], _DEVICE) & (rows["status"] != int(Status.NOT_STARTED))
        ends = np.maximum.accumulate(np.where(busy, rows["end"], -1))
        for at in np.flatnonzero((rows["kind"] == _WAIT) | (rows["kind"] == _HOST)):
            row = rows[at]
            now = max(ended, int(ends[at]))
            if row["kind"] == _HOST:
                yield from _early(session, int(row["seq"]), waited, last_wait)
                continue
            if now <= waited:
                yield _nothing(int(row["seq"]), last_wait)
            waited, last_wait = int(row["end"]), int(row["seq"])
        ended = max(ended, int(ends[-1]) if len(ends) else -1)
    yield from _outputs(session, last_wait)


def _nothing(seq: int, before: int) -> Finding:
    why = f"nothing ended on the device since WAIT {before}" if before >= 0 else (
        "nothing was submitted before it"
    )  # fmt: skip
    return finding(
        "T386",
        Subject(kind="command", name="WAIT", seq=seq),
        f"command {seq} waits for a job that is not there: {why}",
        evidence={"wait": seq, "before": before},
        fix="wait once for each job, after it was submitted",
        origin="simulated",
    )


def _early(session: Session, seq: int, waited: int, last_wait: int) -> Iterator[Finding]:
    """A HOST command that reads what the device stored after the last WAIT had ended."""
    reads = session.accesses(seq, seq + 1)
    for read in reads[(reads["space"] == int(Space.DDR)) & (reads["by"] >= 0)]:
        by: Rows = session.command(int(read["by"]))
        if int(by["kind"]) not in _DEVICE or int(by["end"]) <= waited:
            continue
        number = int(read["tensor"])
        known = 0 <= number < len(session.tensors)
        name = safe(session.tensors[number].name) if known else "-"
        yield finding(
            "T384",
            Subject(kind="command", name=name, seq=seq, tensor=number if known else None),
            f"command {seq} (HOST) reads {name}, stored by command {int(read['by'])} "
            f"({kind_name(int(by['kind']))}), without a WAIT in between",
            evidence={"stored_by": int(read["by"]), "last_wait": last_wait, "read_by": seq},
            fix="wait for the job's completion before reading",
            origin="simulated",
        )
        return


def _outputs(session: Session, last_wait: int) -> Iterator[Finding]:
    """Outputs whose last store no WAIT follows."""
    for tensor in session.tensors:
        if tensor.role != "output" or tensor.last_seq < 0 or tensor.space != "ddr":
            continue
        row = session.command(tensor.last_seq)
        if row["kind"] == int(Kind.DMA_STORE) and tensor.last_seq > last_wait:
            yield finding(
                "T384",
                Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id,
                        seq=tensor.last_seq),
                f"output {safe(tensor.name)} is stored by command {tensor.last_seq} and read "
                "without a WAIT",
                evidence={"stored_by": tensor.last_seq, "last_wait": last_wait},
                fix="wait for the job's completion before reading",
                origin="simulated",
            )  # fmt: skip
