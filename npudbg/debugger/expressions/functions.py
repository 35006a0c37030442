"""The functions of expressions: over the elements that have been made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions.values import ArrayValue, Value, Word, scalar, truth
from npudbg.session.records import Stats
from npudbg.session.scan import scan_fast, scan_limits


class Function(NamedTuple):
    """A function of the language.

    Attributes:
        call: Does it.
        usage: How it is written.
        arguments: Fewest and most.
        help: One line.
    """

    call: Callable[..., Value]
    usage: str
    arguments: tuple[int, int]
    help: str


def _elements(value: Value) -> Any:
    if isinstance(value, ArrayValue):
        return value.flat()
    if isinstance(value, (Word, str, tuple)):
        raise DebuggerError("expected a tensor or a number")
    return np.asarray([value])


def _floats(value: Value) -> Any:
    held = _elements(value)
    return held if held.dtype.kind == "c" else held.astype(np.float64)


def _nan(value: Value) -> Value:
    seen = _limits(value)
    return seen.nan if seen is not None else int(np.count_nonzero(np.isnan(_elements(value))))


def _inf(value: Value) -> Value:
    seen = _limits(value)
    if seen is not None:
        return seen.pos_inf + seen.neg_inf
    return int(np.count_nonzero(np.isinf(_elements(value))))


def _finite(value: Value) -> Value:
    seen = _limits(value)
    return not seen.nonfinite if seen is not None else bool(np.isfinite(_elements(value)).all())


def _limits(value: Value) -> Stats | None:
    """Return what is not finite of real floats, None for what is counted in another way.

    A condition is evaluated after every command: this is the quickest look there is.
    """
    held = _elements(value)
    return scan_limits(held) if held.dtype.kind == "f" else None


def _abs(value: Value) -> Value:
    if isinstance(value, ArrayValue):
        return ArrayValue(np.abs(value.numeric()), value.known, value.name)
    return scalar(np.abs(_elements(value))[0])


def _extreme(pick: Any) -> Callable[..., Value]:
    def call(*values: Value) -> Value:
        found = []
        for value in values:
            held = _elements(value)
            if held.dtype == np.float16 and (seen := scan_fast(held, zeros=False)) is not None:
                # NumPy's own min and max of float16 take a hundred times as long.
                held = np.array(
                    [
                        *(x for x in (seen.min, seen.max) if x is not None),
                        *([np.inf] if seen.pos_inf else ()),
                        *([-np.inf] if seen.neg_inf else ()),
                    ],
                    np.float16,
                )
            elif held.dtype.kind == "f":
                # NaN compares to nothing: it would hide an Inf.
                held = held[~np.isnan(held)]
            if held.size:
                found.append(scalar(pick(held)))
        if not found:
            return float("nan")
        return scalar(pick(np.asarray(found)))

    return call


def _mean(value: Value) -> Value:
    return scalar(_floats(value).mean())


def _std(value: Value) -> Value:
    return scalar(_floats(value).std())


def _sum(value: Value) -> Value:
    held = _elements(value)
    return scalar(held.sum() if held.dtype.kind in "biu" else held.sum(dtype=np.float64))


def _any(value: Value) -> Value:
    return bool(np.any(_elements(value)))


def _all(value: Value) -> Value:
    return bool(np.all(_elements(value)))


def _count(value: Value) -> Value:
    return int(np.count_nonzero(_elements(value)))


def _shape(value: Value) -> Value:
    return tuple(value.array.shape) if isinstance(value, ArrayValue) else ()


def _dtype(value: Value) -> Value:
    if isinstance(value, ArrayValue):
        return str(value.array.dtype.name)
    return type(value).__name__


def _size(value: Value) -> Value:
    return int(value.array.size) if isinstance(value, ArrayValue) else 1


def _pair(one: Value, two: Value) -> tuple[Any, Any]:
    if not isinstance(one, ArrayValue) or not isinstance(two, ArrayValue):
        return _floats(one), _floats(two)
    if one.array.size != two.array.size:
        raise DebuggerError(f"shapes {one.array.shape} and {two.array.shape} differ in size")
    known = np.ones(one.array.size, bool)
    for each in (one, two):
        if each.known is not None:
            known &= each.known.reshape(-1)
    parts = [each.numeric().reshape(-1)[known].astype(np.float64) for each in (one, two)]
    if not parts[0].size:
        raise DebuggerError("no element of both has been written yet")
    return parts[0], parts[1]


def _cos(one: Value, two: Value) -> Value:
    a, b = _pair(one, two)
    length = float(np.sqrt((a * a).sum()) * np.sqrt((b * b).sum()))
    if length == 0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return float(np.clip((a * b).sum() / length, -1, 1))


def _snr(one: Value, two: Value) -> Value:
    a, b = _pair(one, two)
    noise, signal = float(((a - b) ** 2).sum()), float((b * b).sum())
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


def _allclose(one: Value, two: Value, atol: Value = 1e-8, rtol: Value = 1e-5) -> Value:
    a, b = _pair(one, two)
    if not isinstance(atol, (int, float)) or not isinstance(rtol, (int, float)):
        raise DebuggerError("atol and rtol: expected numbers")
    return bool(np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))


def _argmax(value: Value) -> Value:
    if not isinstance(value, ArrayValue):
        raise DebuggerError("expected a tensor")
    held = value.numeric()
    if held.dtype.kind not in "biuf":
        raise DebuggerError("expected a tensor of real numbers")
    flat = held.astype(np.float64).reshape(-1).copy()
    value.flat()
    flat[np.isnan(flat)] = -np.inf
    if value.known is not None:
        flat[~value.known.reshape(-1)] = -np.inf
    at = int(np.argmax(flat))
    if sum(size > 1 for size in held.shape) <= 1:
        return at
    return tuple(int(i) for i in np.unravel_index(at, held.shape))


def _hex(value: Value) -> Value:
    if isinstance(value, Word):
        value = value.number if value.number is not None else value.text
    if isinstance(value, bool) or not isinstance(value, int):
        raise DebuggerError("hex wants a whole number")
    return hex(value)


def _bool(value: Value) -> Value:
    return truth(value)


FUNCTIONS: dict[str, Function] = {
    "nan": Function(_nan, "nan(x)", (1, 1), "number of NaN"),
    "inf": Function(_inf, "inf(x)", (1, 1), "number of +Inf and -Inf"),
    "finite": Function(_finite, "finite(x)", (1, 1), "whether all are finite"),
    "abs": Function(_abs, "abs(x)", (1, 1), "absolute values"),
    "max": Function(_extreme(np.max), "max(x, …)", (1, 16), "largest, NaN left out"),
    "min": Function(_extreme(np.min), "min(x, …)", (1, 16), "smallest, NaN left out"),
    "mean": Function(_mean, "mean(x)", (1, 1), "mean, in float64"),
    "std": Function(_std, "std(x)", (1, 1), "standard deviation, in float64"),
    "sum": Function(_sum, "sum(x)", (1, 1), "sum, in float64 or whole numbers"),
    "any": Function(_any, "any(x)", (1, 1), "whether one is true"),
    "all": Function(_all, "all(x)", (1, 1), "whether all are true"),
    "count": Function(_count, "count(x)", (1, 1), "number of true or non-zero elements"),
    "size": Function(_size, "size(x)", (1, 1), "number of elements"),
    "shape": Function(_shape, "shape(x)", (1, 1), "elements per axis"),
    "dtype": Function(_dtype, "dtype(x)", (1, 1), "element type"),
    "cos": Function(_cos, "cos(x, y)", (2, 2), "cosine of the angle between two"),
    "snr": Function(_snr, "snr(x, y)", (2, 2), "signal (y) to noise (x - y), in dB"),
    "allclose": Function(_allclose, "allclose(x, y, atol, rtol)", (2, 4), "equal within limits"),
    "argmax": Function(_argmax, "argmax(x)", (1, 1), "place of the largest"),
    "hex": Function(_hex, "hex(x)", (1, 1), "a whole number in base 16"),
    "bool": Function(_bool, "bool(x)", (1, 1), "true or false"),
}
