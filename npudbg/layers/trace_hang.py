"""Runs that hung: which command, who waits for whom, or whose interrupt was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.trace_absent import never_taken
from npudbg.layers.trace_rows import CHUNK, origin_of, with_status
from npudbg.session.commands import Kind, Status, kind_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Origin, Subject
from npudbg.session.text import safe


@rule(3, "T310", "T360", "T361")
def hung(case: Case) -> Iterator[Finding]:
    """Commands without an end: a hang, a lost interrupt or a deadlock."""
    session = case.session
    if session is None:
        return
    rows = with_status(session, Status.HUNG)
    if not rows:
        return
    origin = origin_of(session)
    waits = {int(a): int(b) for a, b in session.extra("waits") or ()}
    waiting = [r for r in rows if r["kind"] == Kind.WAIT]
    stuck = [r for r in rows if r["kind"] != Kind.WAIT]
    jobs = _jobs(session)
    since = ""
    if waiting:
        since = (
            f"; the host has waited since cycle {int(waiting[0]['start'])} for job "
            f"{jobs['completed'] + 1}: {jobs['completed']} of {jobs['submitted']} submitted jobs "
            "completed, its fence was not signalled"
        )
    circle = _circle(waits)
    if circle:
        yield _deadlock(session, circle, since, jobs, origin)
        return
    for row in stuck:
        yield _hang(session, row, since, jobs, origin)
    if not stuck and never_taken(session) is None:
        done = sum(1 for n in session.nodes if n.status == "ok" and n.first_seq >= 0)
        last = session.command(int(waiting[0]["seq"]) - 1) if int(waiting[0]["seq"]) else None
        yield finding(
            "T360",
            Subject(kind="command", name="WAIT", seq=int(waiting[0]["seq"])),
            f"command {int(waiting[0]['seq'])} (WAIT) never ended, and all {done} tasks before it "
            f"did: the interrupt of job {jobs['submitted']} was lost",
            evidence={
                **jobs,
                "tasks_done": done,
                "since": int(waiting[0]["start"]),
                "last_progress": int(last["seq"]) if last is not None else -1,
            },
            fix="look at the interrupt's mask and trigger type, not at the kernels",
            origin=origin,
        )


def _jobs(session: Session) -> dict[str, int]:
    """Return how many jobs the host submitted and how many it saw complete.

    A job is what runs up to a WAIT, as the fence numbers of a driver count it.
    """
    submitted = completed = 0
    for low in range(0, session.n_commands, CHUNK):
        rows = session.commands(low, low + CHUNK)
        status = rows["status"][rows["kind"] == Kind.WAIT]
        submitted += len(status)
        completed += int((status == Status.OK).sum())
    return {"submitted": submitted, "completed": completed}


def _hang(
    session: Session, row: Any, since: str, jobs: Mapping[str, int], origin: Origin
) -> Finding:
    seq, number = int(row["seq"]), int(row["node"])
    node = session.nodes[number] if 0 <= number < len(session.nodes) else None
    label = safe(node.label) if node is not None else "-"
    total = len({n.group for n in session.nodes if n.group >= 0}) + sum(
        1 for n in session.nodes if n.group < 0 and n.status == "not-run"
    )
    done = len({n.group for n in session.nodes if n.group >= 0 and n.status == "ok"})
    operands = [
        safe(session.tensors[int(a["tensor"])].name) for a in session.accesses(seq, seq + 1)
    ]
    state = f"stuck in task {done} of {total}"
    if done == 0:
        state = (
            f"no task of {total} was completed; look at addresses and the IOMMU, not at the kernel"
        )
    return finding(
        "T310",
        Subject(
            kind="command", name=label, seq=seq, node=number if node is not None else None,
            tensor=int(row["tensor"]) if row["tensor"] >= 0 else None,
        ),
        f"command {seq} ({kind_name(row['kind'])} of {label}) started at cycle "
        f"{int(row['start'])} and never ended: {state}{since}",
        evidence={
            **jobs,
            "seq": seq,
            "start": int(row["start"]),
            "tasks_done": done,
            "tasks": total,
            "last_progress": seq - 1,
            "operands": operands,
        },
        fix="look at the command's operands and addresses first, then at its weights",
        origin=origin,
    )  # fmt: skip


def _deadlock(
    session: Session,
    circle: Sequence[int],
    since: str,
    jobs: Mapping[str, int],
    origin: Origin,
) -> Finding:
    parts = []
    for seq in circle:
        row = session.command(seq)
        name = safe(session.tensors[int(row["tensor"])].name) if row["tensor"] >= 0 else "-"
        parts.append(f"command {seq} ({kind_name(row['kind'])} {name})")
    text = " waits for ".join([*parts, parts[0]])
    row = session.command(circle[0])
    return finding(
        "T361",
        Subject(kind="command", name="deadlock", seq=circle[0], node=int(row["node"])),
        f"{text}{since}",
        evidence={"circle": list(circle), "last_progress": min(circle) - 1, **jobs},
        fix="give the draining channel priority, or leave one buffer free",
        related=tuple(Subject(kind="command", seq=s) for s in circle[1:]),
        origin=origin,
    )


def _circle(waits: Mapping[int, int]) -> list[int]:
    """Return the commands of a wait-for cycle, smallest first, or nothing."""
    for start in sorted(waits):
        path = [start]
        while path[-1] in waits:
            following = waits[path[-1]]
            if following in path:
                cycle = path[path.index(following) :]
                turn = cycle.index(min(cycle))
                return cycle[turn:] + cycle[:turn]
            path.append(following)
    return []
