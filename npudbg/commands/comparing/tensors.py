"""Which tensors of two sessions differ, in the order in which they came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudbg.session.comparison import Pair, TensorDifference

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.session.reader import Session
    from npudbg.session.records import TensorRecord

    Mask = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Match:
    """A tensor of either session by one name; one of them may lack it."""

    name: str
    a: TensorRecord | None
    b: TensorRecord | None

    @property
    def record(self) -> TensorRecord:
        """A's record, or B's where A has none."""
        found = self.a or self.b
        assert found is not None
        return found


def matches(a: Session, b: Session) -> list[Match]:
    """Return the tensors of both sessions in execution order, matched by name.

    A weight or an input stands before the first node that reads it.
    """
    left = {t.name: t for t in reversed(a.tensors)}
    right = {t.name: t for t in reversed(b.tensors)}
    found = [Match(name, left.get(name), right.get(name)) for name in {**left, **right}]
    return sorted(found, key=lambda m: _order(m.record))


def _order(record: TensorRecord) -> tuple[int, int, int]:
    if record.producer >= 0:
        return record.producer, 1, record.id
    if record.role == "input":
        return -1, 0, record.id
    return min(record.consumers, default=-1), 0, record.id


def reason(a: Session, b: Session, match: Match) -> TensorDifference | None:
    """Return in what a tensor differs, without metrics; None if it is the same."""
    import numpy as np

    one, other = match.a, match.b
    if one is None or other is None:
        return _difference(a, b, match, "only-b" if one is None else "only-a")
    if one.shape != other.shape:
        return _difference(
            a, b, match, "shape", Pair(name="shape", a=list(one.shape), b=list(other.shape))
        )
    if one.blob is None or other.blob is None:
        if (one.blob is None) == (other.blob is None):
            changed = one.value != other.value or _stats(one) != _stats(other)
            return _difference(a, b, match, "values") if changed else None
        return _difference(a, b, match, "not-kept")
    if one.dtype != other.dtype:
        return _difference(a, b, match, "dtype", Pair(name="dtype", a=one.dtype, b=other.dtype))
    if one.quantization != other.quantization:
        return _difference(a, b, match, "values")
    x, y = np.frombuffer(a.blob(one.blob), np.uint8), np.frombuffer(b.blob(other.blob), np.uint8)
    if not np.array_equal(x, y):
        return _difference(a, b, match, "values")
    if one.strides != other.strides:
        strides = Pair(name="strides", a=list(one.strides), b=list(other.strides))
        return _difference(a, b, match, "strides", strides)
    return None


def with_metrics(a: Session, b: Session, match: Match, found: TensorDifference) -> TensorDifference:
    """Return a difference with the metrics of B's values beside A's, where both have values."""
    import msgspec

    from npudbg.layers.compare.closeness import closeness

    if found.reason not in ("values", "dtype"):
        return found
    x, y = values(a, match.a), values(b, match.b)
    if x is None or y is None:
        return found
    return msgspec.structs.replace(found, metrics=closeness(y, x, atol=0.0, rtol=0.0))


def values(session: Session, record: TensorRecord | None) -> npt.NDArray[Any] | None:
    """Return a tensor's values as real numbers: int8 with its scale applied."""
    import numpy as np

    array = None if record is None else session.array(record)
    if record is None or array is None or record.quantization is None:
        return array
    scale = np.asarray(record.quantization.scale, np.float64)
    zero = np.asarray(record.quantization.zero_point, np.float64)
    axis = record.quantization.axis
    if axis is not None and scale.size > 1 and 0 <= axis < array.ndim:
        along = [1] * array.ndim
        along[axis] = -1
        scale, zero = scale.reshape(along), zero.reshape(along)
    try:
        return np.asarray((array.astype(np.float64) - zero) * scale)
    except ValueError:  # parameters that do not fit the tensor: compared as they are stored
        return array


def mask(a: Session, b: Session, match: Match) -> Mask | None:
    """Return which elements differ in their bytes; None where that cannot be said."""
    import numpy as np

    x = None if match.a is None else a.array(match.a)
    y = None if match.b is None else b.array(match.b)
    if x is None or y is None or x.shape != y.shape:
        return None
    if x.dtype != y.dtype:
        return np.ones(x.shape, bool)
    size = max(x.dtype.itemsize, 1)
    raw = [np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(-1, size) for v in (x, y)]
    return np.asarray((raw[0] != raw[1]).any(axis=1).reshape(x.shape))


def _stats(record: TensorRecord) -> Any:
    """Return the statistics that do not depend on the order in which values are summed."""
    s = record.stats
    return None if s is None else (s.count, s.nan, s.pos_inf, s.neg_inf, s.zeros, s.min, s.max)


def _difference(
    a: Session, b: Session, match: Match, why: Any, what: Pair | None = None
) -> TensorDifference:
    record = match.record
    nodes = (a if match.a is not None else b).nodes
    made = 0 <= record.producer < len(nodes)
    return TensorDifference(
        name=match.name,
        role=record.role,
        node=nodes[record.producer].label if made else "",
        tensor=record.id,
        reason=why,
        what=what,
    )
