"""Small packets: transfers whose set-up takes longer than their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind, Status
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe
from npudbg.targets.fields import source

_CHUNK = 1 << 15
_MANY = 20
_HALF = 0.5
_SHARE = 0.2
"""Of all DMA cycles: what set-up of small packets may take before it is worth a word."""
_MOVES = (int(Kind.DMA_LOAD), int(Kind.DMA_STORE))


@rule(3, "T335")
def small_packets(case: Case) -> Iterator[Finding]:
    """Many transfers that cost more to start than to do, where the profile knows the cost."""
    from npudbg.device.descriptors import descriptor_of

    session, target = case.session, case.target
    if session is None or session.meta.backend != "simulated":
        return
    if not target.dma.setup_cycles or source(target, "dma.setup_cycles") is None:
        return
    total = small = moves = lost = descriptors = 0
    by_tensor: dict[int, int] = {}
    first: Any = None
    for low in range(0, session.n_commands, _CHUNK):
        for row in session.commands(low, low + _CHUNK):
            if int(row["kind"]) not in _MOVES or int(row["status"]) == Status.NOT_STARTED:
                continue
            found = descriptor_of(session, row, target)
            if found is None:
                continue
            moves += 1
            total += found.cycles.total
            if found.cycles.setup <= found.cycles.data:
                continue
            small += 1
            descriptors += found.shape.descriptors
            lost += found.cycles.setup
            number = int(row["tensor"])
            by_tensor[number] = by_tensor.get(number, 0) + found.cycles.setup
            first = row if first is None else first
    if small < _MANY or small < _HALF * moves or lost < _SHARE * total:
        return
    worst = max(by_tensor, key=lambda n: by_tensor[n])
    tensor = session.tensors[worst]
    yield finding(
        "T335",
        Subject(kind="tensor", name=safe(tensor.name), tensor=worst, seq=int(first["seq"])),
        f"{small} of {moves} transfers take longer to set up than to move: {lost:,} cycles, "
        f"{lost / total:.0%} of the DMA's; most of them for {safe(tensor.name, 60)}",
        evidence={"small": small, "transfers": moves, "descriptors": descriptors,
                  "setup_cycles": lost, "dma_cycles": total, "share": round(lost / total, 4),
                  "tensor_cycles": by_tensor[worst]},
        fix="merge small tensors into one buffer, fuse their layers, or cut larger tiles",
        origin="simulated",
    )  # fmt: skip
