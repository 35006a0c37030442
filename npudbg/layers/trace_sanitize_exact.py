"""Byte-exact sanitizers of SRAM, for `--sanitize`: initialisation and races.

Both walk every command, so they are asked for.  A shadow holds for each byte of SRAM
whether anything wrote it; races are looked for between all engines, for as long as
commands really run side by side.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npudbg.layers.findings import finding
from npudbg.session.commands import Rows, Space, Status, kind_name
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_CHUNK = 1 << 14
_SRAM = int(Space.SRAM)
_MOST = 4
_MOST_SHADOW = 1 << 28
_RAN = (int(Status.OK), int(Status.TOUCHED), int(Status.HUNG))


@dataclass(frozen=True, slots=True)
class Use:
    """One command's use of a stretch of SRAM, in addresses and in cycles."""

    seq: int
    engine: int
    start: int
    end: int
    low: int
    high: int
    writes: bool
    tensor: int
    kind: int


@dataclass(slots=True)
class Checked:
    """What was checked.

    Attributes:
        commands: Commands looked at.
        read: Bytes of SRAM whose initialisation was looked up.
        pairs: Pairs of commands that ran side by side on two engines.
        found: What is wrong.
    """

    commands: int = 0
    read: int = 0
    pairs: int = 0
    found: list[Finding] = field(default_factory=list)


def exact(session: Session) -> Iterator[Finding]:
    """Check SRAM byte by byte; ends with a line about what was checked and its cost."""
    began = time.perf_counter()
    region = next((r for r in session.meta.regions if r.space == "sram"), None)
    if region is None or not 0 < region.nbytes <= _MOST_SHADOW:
        return
    done = Checked()
    shadow = np.zeros(region.nbytes, np.bool_)
    running: list[Use] = []
    for uses in _by_command(session):
        done.commands += 1
        _initialised(session, uses, shadow, region.base, done)
    for use in sorted(_all(session), key=lambda u: (u.start, u.seq)):
        running = [u for u in running if u.end > use.start]
        _races(session, use, running, done)
        running.append(use)
    yield from done.found
    took = time.perf_counter() - began
    yield finding(
        "T387",
        Subject(kind="run", name="sanitize"),
        f"byte-exact: {done.commands:,} commands, {done.read:,} bytes read held against a shadow "
        f"of {region.nbytes:,} bytes, {done.pairs:,} pairs side by side; {len(done.found)} "
        f"findings in {took:.2f} s",
        evidence={"commands": done.commands, "bytes": done.read, "shadow": region.nbytes,
                  "pairs": done.pairs, "findings": len(done.found)},
        origin="simulated",
    )  # fmt: skip


def _by_command(session: Session) -> Iterator[list[Use]]:
    """Give each command's uses of SRAM, what it reads before what it writes."""
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        reads = session.accesses(low, low + _CHUNK)
        reads = reads[reads["space"] == _SRAM]
        reads = reads[np.argsort(reads["seq"], kind="stable")]
        first = np.searchsorted(reads["seq"], rows["seq"], "left")
        after = np.searchsorted(reads["seq"], rows["seq"], "right")
        for row, a, b in zip(rows, first, after, strict=True):
            if int(row["status"]) in _RAN:
                yield _uses(row, reads[a:b])


def _uses(row: Any, reads: Rows) -> list[Use]:
    seq, engine = int(row["seq"]), int(row["engine"])
    start, end, kind = int(row["start"]), int(row["end"]), int(row["kind"])
    found = []
    for read in reads:
        low = int(read["addr"])
        found.append(Use(seq, engine, start, end, low, low + int(read["nbytes"]), False,
                         int(read["tensor"]), kind))  # fmt: skip
    if int(row["dst_space"]) == _SRAM and int(row["nbytes"]) > 0:
        low = int(row["dst"])
        found.append(Use(seq, engine, start, end, low, low + int(row["nbytes"]), True,
                         int(row["tensor"]), kind))  # fmt: skip
    return found


def _all(session: Session) -> Iterator[Use]:
    for uses in _by_command(session):
        yield from uses


def _initialised(session: Session, uses: list[Use], shadow: Any, base: int, done: Checked) -> None:
    for use in uses:
        low, high = max(use.low - base, 0), min(use.high - base, shadow.size)
        if low >= high:
            continue  # outside of SRAM: T380 is about that
        if use.writes:
            shadow[low:high] = True
            continue
        done.read += high - low
        if shadow[low:high].all() or len(done.found) >= _MOST:
            continue
        missing = np.flatnonzero(~shadow[low:high])
        at = base + low + int(missing[0])
        done.found.append(
            finding(
                "T381",
                Subject(kind="command", name=_name(session, use.tensor), seq=use.seq,
                        address=at, space="sram"),
                f"command {use.seq} ({kind_name(use.kind)}) reads {len(missing)} of {high - low} "
                f"bytes of {_name(session, use.tensor)} that nothing wrote, first at sram {at:#x}",
                evidence={"address": at, "bytes": len(missing), "operand_bytes": high - low},
                fix="find the transfer that should have brought these bytes",
                origin="simulated",
            )
        )  # fmt: skip


def _races(session: Session, use: Use, running: list[Use], done: Checked) -> None:
    for other in running:
        # An engine does one thing at a time; two results of a kernel are one command's.
        if other.engine == use.engine or other.seq == use.seq:
            continue
        done.pairs += 1
        if not (use.writes or other.writes) or use.start >= use.end:
            continue
        low, high = max(use.low, other.low), min(use.high, other.high)
        if low >= high or len(done.found) >= _MOST:
            continue
        writer, second = (use, other) if use.writes else (other, use)
        verb = "writes" if second.writes else "reads"
        both = min(use.end, other.end) - use.start
        done.found.append(
            finding(
                "T382",
                Subject(kind="command", name=_name(session, writer.tensor), seq=writer.seq,
                        tensor=writer.tensor, address=low, space="sram"),
                f"command {writer.seq} ({kind_name(writer.kind)}) writes {high - low} bytes at "
                f"sram {low:#x} while command {second.seq} ({kind_name(second.kind)}) {verb} "
                f"them, for {both} cycles",
                evidence={"writer": writer.seq, "other": second.seq, "address": low,
                          "bytes": high - low, "cycles": both},
                fix="make the later of the two wait for the other",
                related=(Subject(kind="command", name=_name(session, second.tensor),
                                 seq=second.seq),),
                origin="simulated",
            )
        )  # fmt: skip


def _name(session: Session, number: int) -> str:
    return safe(session.tensors[number].name) if 0 <= number < len(session.tensors) else "-"
