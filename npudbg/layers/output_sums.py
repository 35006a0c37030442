"""Sums that an fp16 accumulator got wrong though their operands and results fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session import sums
from npudbg.session.records import Finding, Subject
from npudbg.session.sums import WrongSum
from npudbg.session.text import safe

_CODES = {"overflow": "O407", "stall": "O408"}


@rule(4, "O407", "O408")
def accumulators(case: Case) -> Iterator[Finding]:
    """Tell the worst sum of each node whose accumulator overflowed or stalled."""
    session = case.session
    if session is None:
        return
    for wrong in sums.read(session):
        if not 0 <= wrong.node < len(session.nodes):
            continue
        node, tensor = session.nodes[wrong.node], session.tensor(wrong.tensor)
        yield finding(
            _CODES[wrong.kind],
            Subject(
                kind="node",
                name=safe(node.label),
                node=wrong.node,
                tensor=None if tensor is None else tensor.id,
            ),
            f"{safe(node.label)} ({safe(node.op_type)}): {told(wrong)}",
            evidence=evidence(wrong),
            fix="sum in fp32 (--accumulate fp32 shows the effect), keep the node in fp32, "
            "or scale its operands down",
            origin="simulated",
        )


def told(wrong: WrongSum) -> str:
    """Return one line with the numbers of a wrong sum."""
    reached = "Inf or NaN" if wrong.reached is None else f"{wrong.reached:g}"
    text = f"fp16 sum of K={wrong.terms} terms at {list(wrong.at)} "
    if wrong.kind == "overflow":
        text += (
            f"overflows at term {wrong.term}: {reached}, exact {wrong.exact:.6g} "
            f"(running sum up to {wrong.peak:.6g}, fp16 ends at 65504)"
        )
    else:
        text += (
            f"stalls at {reached}, exact {wrong.exact:.6g}: {wrong.absorbed} terms were too small "
            f"to change it, none did after term {wrong.term}"
        )
    return f"{text}; {wrong.outputs} of {wrong.elements} results are as wrong"


def evidence(wrong: WrongSum) -> dict[str, Any]:
    """Return the numbers of a wrong sum by name."""
    return {k: v for k, v in msgspec.to_builtins(wrong).items() if k not in ("node", "tensor")}
