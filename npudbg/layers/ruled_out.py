"""What was checked and is in order, a line a layer, with what it was held against."""

from __future__ import annotations

from collections.abc import Sequence

from npudbg.layers.case import Case
from npudbg.layers.host_address import judged_address
from npudbg.layers.words import plural
from npudbg.session.records import Finding
from npudbg.session.text import safe

_RAN = ("complete", "failed", "hung")


def ruled_out(findings: Sequence[Finding], case: Case, status: str) -> tuple[str, ...]:
    """Return a line for each layer that was checked and gave neither error nor warning."""
    marked = {f.layer for f in findings if f.severity in ("error", "warning")}
    lines = []
    if case.inputs and 1 not in marked:
        lines.append(_host(case))
    if case.model is not None and case.inputs and 2 not in marked:
        lines.append(_input(case))
    if status in _RAN and 3 not in marked:
        lines.append("trace: every command ended, and the device's inputs equal the host's")
    if status == "complete" and 4 not in marked:
        lines.append("output: every value is finite, no output is constant or collapsed")
    lines += _golden(case, status)
    return tuple(lines)


def _golden(case: Case, status: str) -> list[str]:
    """Return that all tensors compared agree with their golden values, where they do."""
    compared = case.compared
    if compared is None or not compared.compared or compared.differing or status != "complete":
        return []
    what = safe(compared.what, 80)
    return [f"golden: {plural(compared.compared, 'tensor')} within tolerance of {what}"]


def _host(case: Case) -> str:
    text = f"host: {plural(len(case.inputs), 'tensor')} C-contiguous, native byte order"
    addresses = [a for host in case.inputs if (a := judged_address(host)) is not None]
    demand = max(case.target.dma.base_alignment or 1, case.target.tensor.base_alignment or 1)
    if addresses:
        together = 0
        for address in addresses:
            together |= address
        step = min(together & -together, 1 << 21) if together else 1 << 21
        text += f", aligned to {step}"
        if demand > 1:
            text += f" (the target wants {demand})"
    elif case.inputs:
        text += ", no address of the board's to judge"
    return text


def _input(case: Case) -> str:
    assert case.model is not None
    fed = len(case.inputs)
    text = f"input: {plural(fed, 'tensor')} of {len(case.model.inputs)} fit name, shape and type"
    if case.graph is not None:
        types = len(case.model.operators)
        text += f"; {plural(types, 'operator type')} run on {case.target.name} or its host"
    return text
