"""Where NaN and Inf begin: the first node with finite operands and a result that is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.made import made
from npudbg.layers.non_finite import counts, first_bad
from npudbg.layers.reference import value_in_fp32
from npudbg.session.commands import Kind, box_slices
from npudbg.session.reader import Session
from npudbg.session.records import Finding, NodeRecord, Origin, Subject, TensorRecord
from npudbg.session.text import safe

_SHOWN = 4


@rule(4, "O401", "O402")
def non_finite(case: Case) -> Iterator[Finding]:
    """Origins in execution order, then the model's outputs."""
    session = case.session
    if session is None:
        return
    dirty = {t.id for t in made(session) if t.stats is not None and t.stats.nonfinite}
    if not dirty:
        return
    origin: Origin = "simulated" if session.meta.backend == "simulated" else "measured"
    first: Subject | None = None
    # Inf that no output shows may be meant (a mask before a softmax); NaN never is.
    reached = any(t.id in dirty and t.role == "output" for t in session.tensors)
    for node in session.nodes:
        # What was folded is a constant: of the model, or damaged in memory.
        if node.kernel == "folded" or any(i in dirty for i in node.inputs if i >= 0):
            continue
        for number in node.outputs:
            if number in dirty:
                found = _origin(case, session, node, session.tensors[number], origin, reached)
                first = first or found.subject
                yield found
    for tensor in session.tensors:
        if tensor.id in dirty and tensor.role == "output":
            yield _symptom(session, tensor, first, origin)


def _origin(
    case: Case,
    session: Session,
    node: NodeRecord,
    tensor: TensorRecord,
    origin: Origin,
    reached: bool,
) -> Finding:
    stats = tensor.stats
    assert stats is not None
    array = session.array(tensor)
    where = first_bad(array) if array is not None else []
    seq = first_writer(session, tensor, where)
    operands = [session.tensors[i] for i in node.inputs if i >= 0]
    evidence: dict[str, Any] = {
        "nan": stats.nan,
        "pos_inf": stats.pos_inf,
        "neg_inf": stats.neg_inf,
        "elements": stats.count,
        "first": where,
        "dtype": tensor.dtype,
        "operands_max_abs": {
            safe(t.name, 60): _max_abs(t) for t in operands if t.stats is not None
        },
    }
    text = f"{safe(node.label)} ({safe(node.op_type)}): {counts(stats)} of {stats.count} elements"
    if array is not None and where:
        bad = np.ascontiguousarray(array[tuple(where)])
        evidence["value"] = str(bad)
        evidence["bytes"] = bad.tobytes().hex()
        text += f", first at {where}"
    wide = value_in_fp32(case, session, node, tensor, where)
    limit = _limit(tensor.dtype)
    if wide is not None:
        evidence["fp32_value"] = wide
        if limit is not None and np.isfinite(wide) and abs(wide) > limit:
            text += f"; in fp32 the value is {wide:.6g}, beyond {limit:g}"
    top = max((v for v in evidence["operands_max_abs"].values() if v is not None), default=None)
    if limit is not None and top is not None and node.op_type in ("Add", "Sub", "Mul"):
        evidence["headroom"] = top / limit
        text += f"; the largest operand is {top:.6g} ({top / limit:.0%} of {limit:g})"
    text += "; all operands are finite"
    return finding(
        "O401",
        Subject(
            kind="tensor", name=safe(tensor.name), tensor=tensor.id, node=node.index,
            seq=seq if seq >= 0 else None,
        ),
        text,
        evidence=evidence,
        fix=_fix(node, tensor, wide, limit),
        severity="error" if reached or stats.nan else "warning",
        certainty="proven" if _all_scanned(operands) else "suspected",
        related=tuple(
            Subject(kind="tensor", name=safe(t.name), tensor=t.id) for t in operands[:_SHOWN]
        ),
        origin=origin,
    )  # fmt: skip


def _symptom(
    session: Session, tensor: TensorRecord, first: Subject | None, origin: Origin
) -> Finding:
    assert tensor.stats is not None
    since = "" if first is None else f"; it began at {first.name}"
    return finding(
        "O402",
        Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
        f"output {safe(tensor.name)}: {counts(tensor.stats)} of {tensor.stats.count} elements"
        f"{since}",
        evidence={
            "nan": tensor.stats.nan,
            "pos_inf": tensor.stats.pos_inf,
            "neg_inf": tensor.stats.neg_inf,
            "elements": tensor.stats.count,
        },
        fix="mend the origin",
        related=() if first is None else (first,),
        origin=origin,
    )


def first_writer(session: Session, tensor: TensorRecord, where: Sequence[int]) -> int:
    """Return the first command that made the element at ``where``, or -1.

    A kernel that writes it in SRAM comes before the transfer that brings it to DDR.
    """
    if tensor.producer < 0 or tensor.producer >= len(session.nodes):
        return tensor.first_seq
    node = session.nodes[tensor.producer]
    if node.first_seq < 0:
        return tensor.first_seq
    rows = session.commands(node.first_seq, node.last_seq + 1)
    for row in rows[rows["tensor"] == tensor.id]:
        if row["kind"] not in (Kind.KERNEL, Kind.HOST, Kind.DMA_STORE):
            continue
        box = box_slices(row, len(tensor.shape))
        if all(s.start <= w < s.stop for s, w in zip(box, where, strict=False)):
            return int(row["seq"])
    return tensor.first_seq


def _max_abs(tensor: TensorRecord) -> float | None:
    s = tensor.stats
    if s is None or s.min is None or s.max is None:
        return None
    return max(abs(s.min), abs(s.max))


def _limit(dtype: str) -> float | None:
    return {"<f2": 65504.0, "<f4": 3.4028235e38, "bfloat16": 3.3895314e38}.get(dtype)


def _all_scanned(operands: Sequence[TensorRecord]) -> bool:
    return all(t.stats is not None for t in operands)


def _fix(node: NodeRecord, tensor: TensorRecord, wide: float | None, limit: float | None) -> str:
    if limit == 65504.0 and wide is not None and np.isfinite(wide):
        return f"keep {safe(node.label)} in fp32 or bf16, or scale its operands down"
    if node.op_type in ("Div", "Reciprocal"):
        return "a divisor is zero: add an epsilon"
    if node.op_type in ("Log", "Sqrt", "Pow", "Asin", "Acos"):
        return "an operand lies outside the function's domain: clip it first"
    return f"look at the operands of {safe(node.label)} at these coordinates"
