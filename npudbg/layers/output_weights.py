"""Constants that are not finite: the model's own, and those that the device's type cannot hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.constants import Constants
from npudbg.layers.findings import finding, rule
from npudbg.layers.made import made
from npudbg.layers.non_finite import counts, first_bad
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.scan import scan
from npudbg.session.text import safe

_HARMLESS = frozenset(
    {"Add", "Sub", "Where", "Max", "Min", "Clip", "Greater", "Less", "GreaterOrEqual",
     "LessOrEqual", "Equal", "Pad", "Expand"}
)  # fmt: skip
"""Readers that a number beyond all others may be meant for: masks before a softmax, open ends
of a clamp, bounds.  Infinity does the same there."""

_LARGEST = {
    "<f2": ("fp16", 65504.0, 65520.0),
    "bfloat16": ("bf16", 3.3895313892515355e38, (2 - 2**-8) * 2.0**127),
}
"""Format, its largest number, and the least that no longer rounds to it (IEEE 754-2019, 4.3.1)."""
_SHOWN = 3


@rule(4, "I290", "I246")
def weights(case: Case) -> Iterator[Finding]:
    """Tell a model's own NaN and Inf from values that became Inf, or the limit, on the device."""
    session = case.session
    if session is None:
        return
    constants = None if case.graph is None else Constants(case.graph, session)
    for tensor in made(session):
        stats = tensor.stats
        if stats is None or tensor.role not in ("weight", "constant"):
            continue
        if stats.nonfinite and (constants is None or constants.own_non_finite(tensor)):
            own = None if constants is None else constants.meant(tensor)
            yield _not_finite(session, tensor, own)
        elif constants is not None and tensor.dtype in _LARGEST and _at_the_end(tensor):
            yield from _beyond(case, session, tensor, constants.meant(tensor))


def _at_the_end(tensor: TensorRecord) -> bool:
    stats = tensor.stats
    return stats is not None and bool(
        stats.pos_inf or stats.neg_inf or stats.at_min or stats.at_max
    )


def _beyond(
    case: Case, session: Session, tensor: TensorRecord, own: npt.NDArray[Any] | None
) -> Iterator[Finding]:
    """Tell of values of the model that exceed what the device's type holds."""
    if own is None or own.dtype.kind != "f" or own.dtype == numpy_dtype(tensor.dtype):
        return
    form, limit, lost = _LARGEST[tensor.dtype]
    size = np.abs(own)
    wrong = np.isfinite(size) & (size >= lost)
    beyond = int(np.count_nonzero(wrong))
    if not beyond:
        return
    readers = [session.nodes[i] for i in tensor.consumers if 0 <= i < len(session.nodes)]
    kinds = {n.op_type for n in readers}
    meant = bool(readers) and kinds <= _HARMLESS
    first = [int(i) for i in np.unravel_index(int(wrong.argmax()), own.shape)]
    largest = float(size[wrong].max())
    becomes = f"stands at {limit:g}" if case.target.compute.saturate else "is Inf"
    users = ", ".join(f"{safe(n.label)} ({safe(n.op_type)})" for n in readers[:_SHOWN])
    yield finding(
        "I246",
        Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
        f"weight {safe(tensor.name)}: {beyond} of {own.size} values exceed {limit:g}, the largest "
        f"of {form} (largest {largest:g}, first at {first}): each {becomes} on the device; read "
        f"by {users or 'no node'}",
        evidence={
            "beyond": beyond,
            "elements": int(own.size),
            "limit": limit,
            "largest": largest,
            "first": first,
            "precision": form,
            "readers": sorted(safe(k, 40) for k in kinds),
        },
        fix="keep the nodes that read it in fp32 (--cast NODE=fp32 shows the effect), or fold its "
        "factor into another weight",
        severity="info" if meant else "error",
        origin="simulated" if session.meta.backend == "simulated" else "measured",
    )


def _not_finite(session: Session, tensor: TensorRecord, own: npt.NDArray[Any] | None) -> Finding:
    """Tell of NaN and Inf in the model's own value; the device's where that is not known."""
    array = session.array(tensor) if own is None else own
    where = first_bad(array) if array is not None else []
    users = [safe(session.nodes[i].label) for i in tensor.consumers[:3] if i < len(session.nodes)]
    stats = tensor.stats if own is None else scan(own)
    assert stats is not None
    return finding(
        "I290",
        Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
        f"weight {safe(tensor.name)} holds {counts(stats)} "
        f"(first at {where}), read by {', '.join(users) or 'no node'}",
        evidence={
            "nan": stats.nan,
            "inf": stats.pos_inf + stats.neg_inf,
            "first": where,
        },
        fix="export the model again from finite weights",
        # Masks are made of -Inf on purpose.
        severity="error" if stats.nan or stats.pos_inf else "info",
    )
