"""Operators on an accumulator of fp16: convolution, matrix products, sums and means.

Each gives the terms of its sums in the order of the ONNX weight (input channel, then
kernel rows, then columns; the inner axis of a product): no chip states its own.  A bias is
added to the finished sum, a mean divides it; each is a further rounding to fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device.accumulate import PIECE, Register, Term, running
from npudbg.device.kernels.base import Op
from npudbg.device.kernels.conv import Window
from npudbg.device.kernels.reduce import reduced_axes

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Sums:
    """The sums of one node.

    Attributes:
        result: The node's output, float32 values that fp16 can hold.
        held: The register after the last term, same number of elements as ``result``.
        terms: Flat index of an output -> the terms of its sum, in order.
    """

    result: Array
    held: Array
    terms: Callable[[int], Array]


def narrow_sum(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    """Compute a node whose sums run in fp16.

    Args:
        op: The node, with the shapes of its operands and its output.
        operands: Values by position, of any float type; None for an omitted one.
        register: How sums are rounded.

    Returns:
        Its sums; None if the operator adds nothing up, or in a form not known here.
    """
    compute = _OPERATORS.get(op.op_type)
    if compute is None or not operands or operands[0] is None or op.outputs[0] is None:
        return None
    wide = [
        None if a is None else (a.astype(np.float32) if a.dtype.kind not in "iu" else a)
        for a in operands
    ]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return compute(op, wide, register)


def has_sums(op_type: str) -> bool:
    """Whether an operator's sums can run in fp16."""
    return op_type in _OPERATORS


def _at(*index: Any) -> Any:
    """Return an index whose length is not known beforehand."""
    return index


def _finish(register: Register, held: Array, *steps: Callable[[Array], Array]) -> Array:
    for step in steps:
        held = step(held).astype(np.float32)
        register.put(held)
    return held


def _product(a: Array, b: Array, register: Register) -> Array:
    """Return ``a @ b`` of batches of matrices with equal leading axes."""
    batch, rows, inner, columns = prod(a.shape[:-2]), a.shape[-2], a.shape[-1], b.shape[-1]
    left, right = a.reshape(batch, rows, inner), b.reshape(batch, inner, columns)
    out = np.empty((batch, rows, columns), np.float32)
    wide = max(1, PIECE // max(columns, 1))
    for n, low in product(range(batch), range(0, rows, wide)):
        # Rows of the left operand lie K apart: transposed once, each term reads a line.
        part = np.ascontiguousarray(left[n, low : low + wide].T)

        def terms(part: Array = part, n: int = n) -> Iterator[Term]:
            for k in range(inner):
                yield lambda to, k=k: np.multiply.outer(part[k], right[n, k], out=to)  # type: ignore[misc]

        out[n, low : low + wide] = running((part.shape[1], columns), terms(), register)
    return out.reshape(*a.shape[:-1], columns)


def _matmul(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    a, b = operands[0], operands[1]
    shape = op.outputs[0]
    if a is None or b is None or shape is None or a.ndim < 1 or b.ndim < 1:
        return None
    left = a[None] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, (*lead, *left.shape[-2:]))
    right = np.broadcast_to(right, (*lead, *right.shape[-2:]))
    held = _product(left, right, register)

    def terms(flat: int) -> Array:
        at = np.unravel_index(flat, held.shape)
        row: Array = left[_at(*at[:-2], at[-2])]
        column: Array = right[_at(*at[:-2], slice(None), at[-1])]
        return row * column

    return Sums(held.reshape(shape), held, terms)


def _gemm(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    a, b = operands[0], operands[1]
    if a is None or b is None:
        return None
    left, right = (a.T if op.int("transA", 0) else a), (b.T if op.int("transB", 0) else b)
    held = _product(left, right, register)
    alpha, beta = (np.float32(op.attributes.get(n, 1.0)) for n in ("alpha", "beta"))
    bias = operands[2] if len(operands) > 2 else None
    steps: list[Callable[[Array], Array]] = [] if alpha == 1 else [lambda x: x * alpha]
    if bias is not None:
        steps.append(lambda x: x + beta * bias)
    return Sums(
        _finish(register, held, *steps),
        held,
        lambda flat: left[flat // right.shape[1]] * right[:, flat % right.shape[1]],
    )


def _padded(op: Op, image: Array, kernel: list[int]) -> tuple[Array, Window]:
    """Return the image with room for every window of the output, and the windows."""
    out = op.outputs[0]
    assert out is not None
    window = Window(op, kernel, image.shape[2:])
    pads = []
    for i, n in enumerate(image.shape[2:]):
        reach = (out[2 + i] - 1) * window.strides[i] + (kernel[i] - 1) * window.dilations[i] + 1
        pads.append((window.begin[i], max(0, reach - window.begin[i] - n)))
    return np.pad(image, [(0, 0), (0, 0), *pads]), window


def _tap(window: Window, taps: Sequence[int], out: Sequence[int]) -> tuple[slice, ...]:
    """Return where the output's windows have one tap of the kernel."""
    starts = [t * d for t, d in zip(taps, window.dilations, strict=True)]
    return tuple(
        slice(s, s + (n - 1) * step + 1, step)
        for s, n, step in zip(starts, out, window.strides, strict=True)
    )


def _conv(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    image, weight, shape = operands[0], operands[1], op.outputs[0]
    if image is None or weight is None or shape is None or image.ndim < 3:
        return None
    kernel, group = list(weight.shape[2:]), op.int("group", 1)
    padded, window = _padded(op, image, kernel)
    batch, spatial, per = shape[0], shape[2:], shape[1] // group
    inner = weight.shape[1]
    padded = padded.reshape(batch, group, inner, *padded.shape[2:])
    filters = weight.reshape(group, per, inner, *kernel)
    places = list(product(range(inner), *(range(k) for k in kernel)))
    held = np.empty((batch, group, per, *spatial), np.float32)
    area = max(prod(spatial), 1)
    many = max(1, PIECE // area)
    some, wide = min(per, many), max(1, many // max(per, 1))
    ones = (1,) * len(spatial)
    for n, g, c in product(range(batch), range(0, group, wide), range(0, per, some)):
        x, w = padded[n, g : g + wide], filters[g : g + wide, c : c + some]

        def terms(x: Array = x, w: Array = w) -> Iterator[Term]:
            for channel, *taps in places:
                line = x[_at(slice(None), channel, *_tap(window, taps, spatial))]
                factor = w[_at(slice(None), slice(None), channel, *taps)]
                factor = factor.reshape(*factor.shape, *ones)
                yield lambda to, a=line, b=factor: np.multiply(a[:, None], b, out=to)  # type: ignore[misc]

        held[n, g : g + wide, c : c + some] = running((*w.shape[:2], *spatial), terms(), register)

    def one(flat: int) -> Array:
        n, g, c, *at = (int(i) for i in np.unravel_index(flat, held.shape))
        cut = tuple(
            slice(o * s, o * s + (k - 1) * d + 1, d)
            for o, s, k, d in zip(at, window.strides, kernel, window.dilations, strict=True)
        )
        found: Array = (padded[_at(n, g, slice(None), *cut)] * filters[g, c]).reshape(-1)
        return found

    total = held.reshape(shape)
    bias = operands[2] if len(operands) > 2 else None
    steps = [] if bias is None else [lambda x: x + bias.reshape(-1, *(1 for _ in spatial))]
    return Sums(_finish(register, total, *steps), total, one)


def _lines(lanes: Array, register: Register) -> Array:
    """Return the sums of the rows of a matrix."""
    columns = np.ascontiguousarray(lanes.T)
    return np.concatenate(
        [
            running(
                (min(PIECE, lanes.shape[0] - low),),
                (lambda to, x=line[low : low + PIECE]: np.copyto(to, x) for line in columns),  # type: ignore[misc]
                register,
            )
            for low in range(0, max(lanes.shape[0], 1), PIECE)
        ]
    )


def _along(
    data: Array, axes: Sequence[int], shape: Sequence[int], register: Register, *, mean: bool
) -> Sums:
    kept = [a for a in range(data.ndim) if a not in axes]
    count = prod(data.shape[a] for a in axes)
    lanes = data.transpose(*kept, *axes).reshape(-1, count) if data.size else data.reshape(0, 1)
    held = _lines(lanes, register)
    steps = [lambda x: x / np.float32(count)] if mean else []
    return Sums(_finish(register, held, *steps).reshape(shape), held, lambda flat: lanes[flat])


def _reduce(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    data, axes, shape = operands[0], reduced_axes(op), op.outputs[0]
    if data is None or not axes or shape is None or not data.size:
        return None
    return _along(data, axes, shape, register, mean=op.op_type == "ReduceMean")


def _global_average(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    data, shape = operands[0], op.outputs[0]
    if data is None or shape is None or not data.size:
        return None
    return _along(data, range(2, data.ndim), shape, register, mean=True)


def _average(op: Op, operands: Sequence[Array | None], register: Register) -> Sums | None:
    image, shape = operands[0], op.outputs[0]
    if image is None or shape is None or "kernel_shape" not in op.attributes:
        return None
    kernel = op.ints("kernel_shape", ())
    if op.int("ceil_mode", 0) and op.int("count_include_pad", 0):
        return None  # which of the padding counts differs from version to version
    padded, window = _padded(op, image, kernel)
    inside, _ = _padded(op, np.ones((1, 1, *image.shape[2:]), np.float32), kernel)
    spatial = shape[2:]
    taps = list(product(*(range(k) for k in kernel)))
    held = np.empty((shape[0] * shape[1], *spatial), np.float32)
    planes = padded.reshape(-1, *padded.shape[2:])
    some = max(1, PIECE // max(prod(spatial), 1))
    for low in range(0, len(planes), some):
        part = planes[low : low + some]
        cuts = (part[_at(slice(None), *_tap(window, each, spatial))] for each in taps)
        held[low : low + some] = running(
            (len(part), *spatial),
            (lambda to, x=cut: np.copyto(to, x) for cut in cuts),  # type: ignore[misc]
            register,
        )
    count = np.float32(prod(kernel))
    if not op.int("count_include_pad", 0):
        count = sum(inside[_at(0, 0, *_tap(window, each, spatial))] for each in taps)
    flat_planes = [planes[_at(slice(None), *_tap(window, each, spatial))] for each in taps]
    return Sums(
        _finish(register, held, lambda x: x / count).reshape(shape),
        held,
        lambda flat: np.array([p.reshape(-1)[flat] for p in flat_planes], np.float32),
    )


_OPERATORS: dict[str, Callable[[Op, Sequence[Array | None], Register], Sums | None]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "ReduceSum": _reduce,
    "ReduceMean": _reduce,
    "GlobalAveragePool": _global_average,
    "AveragePool": _average,
}
