"""SRAM working sets and limits of the tensors inside the model, once the shapes are known."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.input_limits import limit_of
from npudbg.layers.words import product
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe


@rule(3, "I259")
def working_set(case: Case) -> Iterator[Finding]:
    """The node whose operands and results exceed SRAM the most."""
    session, sram = case.session, case.target.memory.sram_bytes
    if session is None or not sram or session.meta.backend != "simulated":
        return
    largest, at, over = 0, -1, 0
    for node in session.nodes:
        if node.engine in ("host", "-") or node.first_seq < 0:
            continue
        need = sum(_nbytes(session.tensors[i]) for i in {*node.inputs, *node.outputs} if i >= 0)
        over += need > sram
        if need > largest:
            largest, at = need, node.index
    if at < 0 or largest <= sram:
        return
    node = session.nodes[at]
    yield finding(
        "I259",
        Subject(kind="node", name=safe(node.label), node=at),
        f"{over} of {len(session.nodes)} nodes need more than the {sram} bytes of SRAM at once; "
        f"the largest, {safe(node.label)} ({safe(node.op_type)}), has {largest} bytes of operands "
        f"and results and runs in {node.tiles} tiles",
        evidence={"bytes": largest, "sram_bytes": sram, "nodes_over": over, "tiles": node.tiles},
        fix="a smaller resolution or batch of this layer saves traffic to DDR",
        origin="simulated",
    )


@rule(3, "I257", "I258")
def inner_limits(case: Case) -> Iterator[Finding]:
    """The first node whose result exceeds the target's rank or axis sizes."""
    session, tensor = case.session, case.target.tensor
    if session is None or (tensor.max_rank is None and tensor.max_dim is None):
        return
    seen: set[str] = set()
    for node in session.nodes:
        for number in node.outputs:
            if number < 0:
                continue
            record = session.tensors[number]
            subject = Subject(kind="node", name=safe(node.label), node=node.index)
            found = limit_of(case, subject, record.name, record.shape, fallback=True)
            if found is not None and found.code not in seen:
                seen.add(found.code)
                yield found


def _nbytes(record: TensorRecord) -> int:
    try:
        return product(record.shape) * numpy_dtype(record.dtype).itemsize
    except TypeError:
        return 0
