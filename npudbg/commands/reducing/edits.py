"""A part of a model made smaller without leaving out nodes: axes cut, weights zeroed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.graph.cut import Cut

    Array = npt.NDArray[Any]

Axis = tuple[str, int]
"""An axis of an input or of an initializer, by its name."""

_CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
_SHAPED = ("Reshape", "Expand")
_MAX_SHAPE = 8
_MAX_PAIRED = 6


@dataclass(frozen=True, slots=True)
class Sizes:
    """Axes that are cut together, because they have the same size or multiples of one.

    Attributes:
        axes: Of inputs and initializers.
        size: Of each, or what divides all of theirs: a range then means as many parts.
        everywhere: The size is replaced in attributes and shapes too.
    """

    axes: tuple[Axis, ...]
    size: int
    everywhere: bool


def weights_of(part: Cut) -> dict[str, Array]:
    """Return the initializers of a part that hold numbers."""
    from onnx import TensorProto, numpy_helper

    return {
        t.name: numpy_helper.to_array(t)
        for t in part.model.graph.initializer
        if t.data_type != TensorProto.STRING
    }


def input_axes(part: Cut) -> list[Sizes]:
    """Return the axes of the inputs that can be tried: batch, height, width, steps.

    Inputs whose axes of one number have the same size are cut together: a node may add
    them.  Before that all of one number are, by the same share: between them may be a
    node that changes the size, as a pyramid's levels do.
    """
    places: dict[tuple[int, int], dict[int, list[Axis]]] = {}
    for name, array in part.feeds.items():
        for axis, size in enumerate(array.shape):
            if size > 1:
                sizes = places.setdefault((array.ndim, axis), {})
                sizes.setdefault(size, []).append((name, axis))
    found = []
    for sizes in places.values():
        common = math.gcd(*sizes)
        if len(sizes) > 1 and common > 1:
            found.append(Sizes(tuple(a for axes in sizes.values() for a in axes), common, False))
        found += [Sizes(tuple(axes), size, False) for size, axes in sizes.items()]
    return found


def shared_sizes(part: Cut) -> list[Sizes]:
    """Return axes of inputs and weights by their size, those of the largest tensors first.

    Equal sizes belong together in most graphs: channels of a convolution are those of
    its bias, of the normalisation after it and of the next convolution's input.  Where
    they do not, the part does not run and is not taken.
    """
    weights = weights_of(part)
    fixed = _fixed(part, weights)
    groups: dict[int, list[Axis]] = {}
    weight: dict[int, int] = {}
    for name, array in {**weights, **part.feeds}.items():
        for axis, size in enumerate(array.shape):
            if size > 1 and (name, axis) not in fixed:
                groups.setdefault(size, []).append((name, axis))
                weight[size] = weight.get(size, 0) + array.nbytes
    order = sorted(groups, key=lambda size: (-weight[size], -size))
    return [Sizes(tuple(groups[size]), size, True) for size in order]


def few_axes(part: Cut) -> list[Sizes]:
    """Return single axes, then pairs of the same size: the two sides of one product."""
    found = []
    for what in shared_sizes(part):
        if len(what.axes) <= _MAX_PAIRED:
            chosen = [*combinations(what.axes, 1), *combinations(what.axes, 2)]
            found += [Sizes(axes, what.size, False) for axes in chosen]
    return found


def cut_axes(part: Cut, what: Sizes, low: int, high: int) -> Cut:
    """Return a part with ``low`` to ``high`` of some axes alone."""
    import numpy as np

    from npudbg.graph.cut import Cut

    def sliced(name: str, array: Array) -> Array:
        index = [slice(None)] * array.ndim
        for axis, size in enumerate(array.shape):
            if (name, axis) in what.axes:
                share = size // what.size
                index[axis] = slice(low * share, high * share)
        view = array[tuple(index)]
        # What lay there with gaps (a view of the user's) stays one.
        return np.ascontiguousarray(view) if array.flags.c_contiguous else view

    size = high - low
    shapes = _shape_operands(part) if what.everywhere else frozenset()
    weights = {}
    for name, array in weights_of(part).items():
        if any(name == each for each, _ in what.axes):
            weights[name] = sliced(name, array)
        elif name in shapes and (array == what.size).any():
            weights[name] = np.where(array == what.size, size, array).astype(array.dtype)
    feeds = {name: sliced(name, array) for name, array in part.feeds.items()}
    model = _with(part, weights, feeds)
    for node in model.graph.node if what.everywhere else ():
        for attribute in node.attribute:
            if node.op_type in _CONVOLUTIONS and attribute.name == "group":
                attribute.i = size if attribute.i == what.size else attribute.i
    return Cut(model, feeds, part.nodes)


def zeroed(part: Cut, names: Collection[str]) -> Cut:
    """Return a part some of whose weights and inputs are zero wherever they are finite."""
    import numpy as np

    from npudbg.graph.cut import Cut

    def zero(array: Array) -> Array:
        bad = ~np.isfinite(array.astype(np.float64))
        return np.where(bad, array, np.zeros((), array.dtype))

    weights = {n: zero(a) for n, a in weights_of(part).items() if n in names}
    feeds = {n: zero(a) if n in names else a for n, a in part.feeds.items()}
    return Cut(_with(part, weights, feeds), feeds, part.nodes)


def can_be_zeroed(part: Cut, subject: str) -> list[str]:
    """Return the weights and inputs of floating point that are not zero, the largest first.

    Neither what the finding is about nor an input of the node that made it: zero there
    could be another reason for the same finding.
    """
    import numpy as np

    def filled(array: Array) -> bool:
        wide = array.astype(np.float64)
        return bool((np.isfinite(wide) & (wide != 0)).any())

    near = {subject} | {
        i for n in part.model.graph.node if subject in (n.name, *n.output) for i in n.input
    }
    arrays = {**weights_of(part), **{n: a for n, a in part.feeds.items() if n not in near}}
    floats = {n: a for n, a in arrays.items() if a.dtype.kind in "fV" and n != subject}
    return sorted((n for n, a in floats.items() if filled(a)), key=lambda n: -floats[n].nbytes)


def _fixed(part: Cut, weights: Mapping[str, Array]) -> set[Axis]:
    """Axes whose size an attribute states: kernels; and lists of a few integers."""
    fixed: set[Axis] = set()
    for node in part.model.graph.node:
        for name in node.input if node.op_type in _CONVOLUTIONS else ():
            fixed |= {(name, axis) for axis in range(2, 8) if name in weights}
    for name, array in weights.items():
        if array.dtype.kind in "iu" and array.ndim == 1 and array.size <= _MAX_SHAPE:
            fixed.add((name, 0))
    return fixed


def _shape_operands(part: Cut) -> frozenset[str]:
    return frozenset(
        n.input[1] for n in part.model.graph.node if n.op_type in _SHAPED and len(n.input) > 1
    )


def _with(part: Cut, weights: Mapping[str, Array], feeds: Mapping[str, Array]) -> Any:
    """Return a part's model with other weights, and inputs and outputs shaped to fit."""
    import onnx

    from npudbg.graph.cut import tensor_proto

    model = onnx.ModelProto()
    model.CopyFrom(part.model)
    del model.graph.value_info[:]  # of the sizes before
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(tensor_proto(tensor.name, weights[tensor.name]))
    for value in model.graph.input:
        old, new = part.feeds.get(value.name), feeds.get(value.name)
        if old is None or new is None:
            continue
        # A size that the input does not have stays wrong: it may be the finding.
        for dim, before, now in zip(
            value.type.tensor_type.shape.dim, old.shape, new.shape, strict=False
        ):
            if dim.HasField("dim_value") and dim.dim_value == before:
                dim.dim_value = now
    return _inferred(model)


def _inferred(model: Any) -> Any:
    """Let shape inference say anew what the outputs' shapes are."""
    import onnx

    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # it refuses the part: the device will say whether it runs
        return model
    known = {v.name: v for v in found.graph.output}
    for value in model.graph.output:
        value.type.CopyFrom(known[value.name].type)
    return model


def narrowed(part: Cut, what: Sizes, holds: Callable[[Cut, str], bool]) -> Cut:
    """Return a part with the shortest range of some axes that halving finds.

    Args:
        part: The property holds of it.
        what: The axes.
        holds: Whether the property holds of a part; told of the range.
    """
    low, high = 0, what.size
    best = part
    while high - low > 1:
        middle = (low + high) // 2
        for start, stop in ((low, middle), (middle, high)):
            smaller = cut_axes(part, what, start, stop)
            if holds(smaller, f"{start}:{stop}"):
                best, low, high = smaller, start, stop
                break
        else:
            break
    return best
