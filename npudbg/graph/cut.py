"""A part of a model as a model of its own: what is read from outside becomes its input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npudbg.graph.ir import Array, Graph, Node
from npudbg.graph.types import ELEMENT
from npudbg.session.dtypes import dtype_name

_NUMBER = {name: number for number, name in ELEMENT.items()}


class UncuttableError(Exception):
    """The part reads a value that was not recorded, or that is no tensor."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a model.

    Attributes:
        model: The ModelProto.
        feeds: Its inputs by name, in its order.
        nodes: Indices of its nodes in the model that it was cut from.
    """

    model: Any
    feeds: Mapping[str, Array]
    nodes: tuple[int, ...]


def cut(
    graph: Graph,
    nodes: Collection[int],
    inputs: Mapping[str, Array],
    value: Callable[[str], Array | None],
    *,
    constants: Collection[str] = (),
    blocked: Collection[str] = (),
    weights: Mapping[str, Array] | None = None,
) -> Cut:
    """Return the part of a model that some of its nodes are.

    Args:
        graph: The model.
        nodes: Indices of the nodes to keep.
        inputs: The model's own inputs, handed on as they are.
        value: Recorded value of a tensor in the model's type, or None if there is none.
        constants: Names of tensors known at compile time: these become initializers.
        blocked: Names of tensors that no cut may go through.
        weights: Values to take in the place of the model's own.

    Raises:
        UncuttableError: A value from outside the part is not there, or blocked.
    """
    import onnx

    kept = [graph.nodes[i] for i in sorted(nodes)]
    made = {name for node in kept for name in node.writes}
    part = onnx.GraphProto(name="minimal")
    for node in kept:
        proto = part.node.add()
        proto.CopyFrom(node.proto)
        # A label tells of an index; the index of this part would be another.
        proto.name = node.label
    infos = {v.name: v for v in (*graph.model.graph.input, *graph.model.graph.output)}
    stored = {t.name: t for t in graph.model.graph.initializer}
    sparse = {t.values.name: t for t in graph.model.graph.sparse_initializer}
    feeds: dict[str, Array] = {}
    for name in dict.fromkeys(n for node in kept for n in node.reads if n not in made):
        if name in inputs:
            feeds[name] = inputs[name]
            part.input.append(infos[name])
        elif name in graph.initializers:
            own = graph.initializers[name]
            if name in (weights or {}):
                part.initializer.append(tensor_proto(name, (weights or {})[name]))
            elif name in sparse:
                part.sparse_initializer.append(sparse[name])
            elif own.location is None and name in stored:
                part.initializer.append(stored[name])
            else:
                part.initializer.append(tensor_proto(name, own.array()))
        else:
            array = None if name in blocked else value(name)
            if array is None:
                raise UncuttableError(name)
            if name in constants:
                part.initializer.append(tensor_proto(name, array))
            else:
                feeds[name] = array
                part.input.append(_info(name, array))
    for name in _results(graph, kept, made):
        part.output.append(_result_info(graph, name, infos.get(name), value(name)))
    return Cut(_model(graph, part), feeds, tuple(n.index for n in kept))


def tensor_proto(name: str, array: Array) -> Any:
    """Return an array as a TensorProto.

    Raises:
        UncuttableError: Its type has no place in one.
    """
    import onnx
    from onnx import numpy_helper

    if array.dtype.kind in "OSUT":
        return numpy_helper.from_array(array.astype(object), name)
    native = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    number = _NUMBER.get(dtype_name(native.dtype))
    if number is None:
        raise UncuttableError(name)
    if number > onnx.TensorProto.BFLOAT16:
        return numpy_helper.from_array(native, name)
    return onnx.TensorProto(
        name=name, data_type=number, dims=native.shape, raw_data=native.tobytes()
    )


def _results(graph: Graph, kept: list[Node], made: set[str]) -> list[str]:
    """Return what the part gives: outputs of the model, and what nothing in it reads."""
    read = {name for node in kept for name in node.reads}
    outputs = {v.name for v in graph.outputs}
    return [n for node in kept for n in node.writes if n in outputs or n not in read]


def _info(name: str, array: Array) -> Any:
    from onnx import helper

    number = _NUMBER.get(dtype_name(array.dtype.newbyteorder("=")))
    if number is None:
        raise UncuttableError(name)
    return helper.make_tensor_value_info(name, number, array.shape)


def _result_info(graph: Graph, name: str, own: Any, array: Array | None) -> Any:
    """Return an output's type: as the model states it, else as recorded, else as inferred."""
    from onnx import helper

    if own is not None and (array is None or own.type.tensor_type.HasField("shape")):
        return own
    if array is not None:
        return _info(name, array)
    known = graph.value_types.get(name)
    number = None if known is None else _NUMBER.get(known.dtype)
    if known is None or number is None or known.kind != "tensor":
        raise UncuttableError(name)
    return helper.make_tensor_value_info(name, number, known.shape)


def _model(graph: Graph, part: Any) -> Any:
    import onnx
    from onnx import helper

    model = onnx.ModelProto(ir_version=max(graph.ir_version, 4), graph=part)
    model.producer_name = graph.model.producer_name
    model.producer_version = graph.model.producer_version
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in graph.opset.items())
    model.functions.extend(graph.model.functions)
    return model
