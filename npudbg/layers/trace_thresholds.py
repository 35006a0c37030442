"""Counters beyond the profile's limits, and the node that does most to bring them there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.counters import counters
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Counter, Finding, NodeRecord, Subject
from npudbg.session.text import safe

_CHUNK = 1 << 15
_MOVES = (int(Kind.DMA_LOAD), int(Kind.DMA_STORE))
_LOOK_FOR = {
    "pe_utilisation": (
        "cycles off the array",
        "look for a serial chain and for unfused operators (T331, T333)",
    ),
    "sram_bandwidth": (
        "bytes of SRAM",
        "look for redundant transposes and for operands that are not reused (T332, T334)",
    ),
    "noc_congestion": (
        "cycles of transfers",
        "fuse small layers in a row; move what computes little (decoding) to the host",
    ),
    "dma_saturation": (
        "cycles of transfers",
        "look for small packets and for short rows (T335); spread loads over channels",
    ),
}
"""By counter: what a node's part in it is counted in, and what the field looks for."""


@rule(3, "T330")
def thresholds(case: Case) -> Iterator[Finding]:
    """Counters beyond what the profile calls dangerous."""
    session = case.session
    if session is None or not case.target.thresholds or not session.n_cycles:
        return
    for counter in counters(session, case.target):
        limit = case.target.thresholds.get(counter.name)
        if limit is None:
            continue
        bad = (
            counter.value < limit.dangerous
            if limit.high_is_good
            else (counter.value > limit.dangerous)
        )
        if bad:
            yield _found(session, counter, limit.dangerous)


def _found(session: Session, counter: Counter, dangerous: float) -> Finding:
    what, fix = _LOOK_FOR.get(counter.name, ("", ""))
    text = f"{counter.name} is {counter.value:.1%}; the profile calls {counter.dangerous} dangerous"
    evidence: dict[str, object] = {"value": counter.value, "dangerous": dangerous}
    related: tuple[Subject, ...] = ()
    worst = _worst(session, counter.name)
    if worst is not None:
        node, part = worst
        text += f"; most {what} are {safe(node.label, 60)}'s, {part:.0%}"
        evidence.update(node=node.index, share=round(part, 4))
        related = (Subject(kind="node", name=safe(node.label), node=node.index),)
    return finding(
        "T330", Subject(kind="run", name=counter.name), text, evidence=evidence, fix=fix,
        related=related, origin="simulated",
    )  # fmt: skip


def _worst(session: Session, name: str) -> tuple[NodeRecord, float] | None:
    """Return the node with the largest part in a counter, and its share of all nodes'."""
    count = len(session.nodes)
    if name not in _LOOK_FOR or not count:
        return None
    part = np.zeros(count, np.int64)
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        own = (rows["node"] >= 0) & (rows["node"] < count)
        if name == "sram_bandwidth":
            _sram_bytes(session, low, rows, own, part)
            continue
        engines = session.meta.engines
        mac = engines.index("mac") if "mac" in engines else -1
        chosen = own & (
            (rows["engine"] != mac) if name == "pe_utilisation" else np.isin(rows["kind"], _MOVES)
        )
        np.add.at(part, rows["node"][chosen], rows["end"][chosen] - rows["start"][chosen])
    at, total = int(part.argmax()), int(part.sum())
    return (session.nodes[at], int(part[at]) / total) if total > 0 else None


def _sram_bytes(
    session: Session,
    low: int,
    rows: npt.NDArray[np.void],
    own: npt.NDArray[np.bool_],
    part: npt.NDArray[np.int64],
) -> None:
    written = own & (rows["dst_space"] == int(Space.SRAM))
    np.add.at(part, rows["node"][written], rows["nbytes"][written])
    reads = session.accesses(low, low + _CHUNK)
    reads = reads[reads["space"] == int(Space.SRAM)]
    at = reads["seq"] - low
    np.add.at(part, rows["node"][at][own[at]], reads["nbytes"][own[at]])
