"""The session's tensors against golden values: the first that diverges, and why.

For a case that comes with golden values alone.  Where the run was compared tensor
by tensor already (``case.compared``), the rule of that table speaks, not these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.compare.comparison import compare, numbers
from npudbg.layers.compare.records import Comparison, Tolerance
from npudbg.layers.findings import finding, rule
from npudbg.session.errors import UserError
from npudbg.session.jsonable import jsonable
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Origin, Quantization, Subject, TensorRecord
from npudbg.session.text import safe

_NARROW = frozenset({"fp16", "bf16", "int8"})
_RELATED = 0.3
_MOST_RELATED = 8


@dataclass(frozen=True, slots=True)
class _Held:
    """A tensor held against its golden values."""

    tensor: TensorRecord
    comparison: Comparison

    @property
    def diverges(self) -> bool:
        return self.comparison.verdict == "diverges"


@rule(4, "O411", "O412", "O413", "O414")
def golden(case: Case) -> Iterator[Finding]:
    """The first divergent tensor in execution order; every output with a wrong layout."""
    session = case.session
    if session is None or not case.golden or case.compared is not None:
        return
    good: list[TensorRecord] = []
    first: _Held | None = None
    later: list[_Held] = []
    for tensor in _in_order(session, case):
        held = _hold(session, case, tensor, layouts=first is None or tensor.role == "output")
        if held is None:
            continue
        if not held.diverges:
            if first is None:
                good.append(tensor)
            continue
        if first is None:
            first = held
        else:
            later.append(held)
    if first is None:
        return
    yield _first(case, session, first, good, later)
    for held in later:
        if held.tensor.role == "output" and held.comparison.layout is not None:
            yield _layout(session, held)


def _in_order(session: Session, case: Case) -> list[TensorRecord]:
    """Return the tensors with golden values: inputs, then as the nodes write them."""
    wanted = [
        t
        for t in session.tensors
        if t.name in case.golden and t.role in ("input", "activation", "output")
    ]
    return sorted(wanted, key=lambda t: (t.producer, t.id))


def _hold(session: Session, case: Case, tensor: TensorRecord, *, layouts: bool) -> _Held | None:
    array = session.array(tensor)
    if array is None:
        return None
    expected = case.golden[tensor.name]
    if tensor.quantization is not None and expected.dtype.kind not in "biu":
        array = dequantised(array, tensor.quantization)
    try:
        comparison = compare(
            array,
            expected,
            tolerance=Tolerance(channels=tensor.role == "output"),
            previous=case.golden_before.get(tensor.name),
            layouts=layouts,
        )
    except UserError:  # text, sequences
        return None
    return _Held(tensor, comparison)


def dequantised(array: npt.NDArray[Any], by: Quantization) -> npt.NDArray[np.float32]:
    """Return real values: ``scale * (q - zero_point)``, per tensor or along an axis."""
    scale, zero = np.array(by.scale, np.float32), np.array(by.zero_point, np.float32)
    if by.axis is not None and array.ndim and scale.size == array.shape[by.axis]:
        shape = [1] * array.ndim
        shape[by.axis] = -1
        scale = scale.reshape(shape)
        zero = zero.reshape(shape) if zero.size > 1 else zero
    result: npt.NDArray[np.float32] = (array.astype(np.float32) - zero) * scale
    return result


def _origin(session: Session) -> Origin:
    return "simulated" if session.meta.backend == "simulated" else "measured"


def _subject(tensor: TensorRecord) -> Subject:
    return Subject(
        kind="tensor",
        name=safe(tensor.name),
        tensor=tensor.id,
        node=tensor.producer if tensor.producer >= 0 else None,
    )


def _first(
    case: Case, session: Session, held: _Held, good: list[TensorRecord], later: list[_Held]
) -> Finding:
    """Return the finding of the first divergent tensor."""
    if held.comparison.layout is not None:
        return _layout(session, held)
    tensor, comparison = held.tensor, held.comparison
    metrics = comparison.metrics
    operands = _operands(session, tensor, {t.id for t in good})
    precise = _is_precision(case, session, held)
    evidence = _evidence(held)
    evidence["agree_before"] = [safe(t.name, 60) for t in good[-_MOST_RELATED:]]
    evidence["compared_before"] = len(good)
    evidence["operands_unknown"] = [safe(t.name, 60) for t in operands]
    text = f"{_kind(tensor)} {safe(tensor.name)}{_by(session, tensor)}: "
    text += numbers(metrics) if metrics is not None else comparison.reasons[0].message
    if metrics is not None and not metrics.nonfinite_got:
        text += "; all finite" + ("" if precise else _in_range(held))
    if precise:
        text += f", so {safe(_precision(case, session))} loses it here, not NaN or Inf"
    elif comparison.reasons and metrics is not None:
        text += f"; {comparison.reasons[0].message}"
    text = f"first divergent {text}"
    outputs = [h for h in later if h.tensor.role == "output"]
    return finding(
        "O413" if precise else "O411",
        _subject(tensor),
        text,
        evidence=evidence,
        fix=_fix(precise, operands, tensor),
        # That it diverges is on record; that precision is why is a conclusion.
        certainty="suspected" if precise else "proven",
        related=tuple(_subject(h.tensor) for h in outputs[:_MOST_RELATED]),
        origin=_origin(session),
    )


def _fix(precise: bool, unknown: list[TensorRecord], tensor: TensorRecord) -> str:
    if precise:
        return "keep this node in fp32 (or its original precision) and run again"
    if unknown:
        names = ", ".join(safe(t.name, 60) for t in unknown[:3])
        return f"bisect with a layer dump: give golden values of what it reads too ({names})"
    if tensor.producer < 0:
        return "feed the input that the golden values were made with"
    return "its operands agree: look at this node's weights, attributes and lowering"


def _layout(session: Session, held: _Held) -> Finding:
    layout = held.comparison.layout
    assert layout is not None
    late = layout.kind == "batch-late"
    tensor = held.tensor
    evidence = _evidence(held)
    evidence["layout"] = jsonable(layout)
    return finding(
        "O414" if late else "O412",
        _subject(tensor),
        f"{_kind(tensor)} {safe(tensor.name)}{_by(session, tensor)}: {layout.message}",
        evidence=evidence,
        fix="wait for the run to end before the output is read, and read the buffer it filled"
        if late
        else "unpack the buffer as stated before it is compared or decoded",
        origin=_origin(session),
    )


def _evidence(held: _Held) -> dict[str, Any]:
    comparison = held.comparison
    evidence: dict[str, Any] = {
        "failed": list(comparison.failed),
        "shape": list(comparison.got_shape),
        "golden_shape": list(comparison.golden_shape),
        "reasons": [r.name for r in comparison.reasons],
    }
    if comparison.metrics is not None:
        evidence["metrics"] = jsonable(comparison.metrics)
    return evidence


def _kind(tensor: TensorRecord) -> str:
    return tensor.role if tensor.role in ("input", "output") else "tensor"


def _by(session: Session, tensor: TensorRecord) -> str:
    if not 0 <= tensor.producer < len(session.nodes):
        return ""
    node = session.nodes[tensor.producer]
    return f" ({safe(node.label, 60)}, {safe(node.op_type, 40)})"


def _in_range(held: _Held) -> str:
    metrics = held.comparison.metrics
    if metrics is None or metrics.got_range is None or metrics.golden_range is None:
        return ""
    low, high = metrics.golden_range
    width = (high - low) / 4
    inside = metrics.got_range[0] >= low - width and metrics.got_range[1] <= high + width
    return " and in the golden range" if inside else ""


def _operands(session: Session, tensor: TensorRecord, known: set[int]) -> list[TensorRecord]:
    """Return the operands of the node that wrote a tensor for which nothing is known."""
    if not 0 <= tensor.producer < len(session.nodes):
        return []
    operands = [session.tensors[n] for n in session.nodes[tensor.producer].inputs if n >= 0]
    return [t for t in operands if t.role in ("input", "activation") and t.id not in known]


def _precision(case: Case, session: Session) -> str:
    return session.meta.precision or case.precision


def _is_precision(case: Case, session: Session, held: _Held) -> bool:
    """Tell whether loss of precision is what the numbers resemble.

    The run is in a narrow precision, everything is finite, and the values still
    follow the golden ones; collapse, clipping and the like have their own names.
    """
    metrics = held.comparison.metrics
    if metrics is None or metrics.nonfinite_got or held.tensor.producer < 0:
        return False
    if _precision(case, session) not in _NARROW or metrics.correlation is None:
        return False
    named = {r.name for r in held.comparison.reasons}
    return metrics.correlation >= _RELATED and named <= {"noise", "scale", "offset", "isolated"}
