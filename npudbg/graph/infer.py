"""Types of the values inside a graph: what the file states, then onnx's inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudbg.graph.ir import Types
from npudbg.graph.types import contract

_SMALL = 4096  # bytes: shape operands are small; weights need not be copied to infer


def value_types(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> Types:
    """Return a contract for every value whose type is stated or can be inferred.

    Args:
        model: A checked ModelProto.
        shapes: Shapes that inputs are bound to.
    """
    inferred = _infer(model, shapes)
    graph = model.graph if inferred is None else inferred.graph
    types: Types = {}
    for group in (graph.value_info, graph.output, graph.input):
        for info in group:
            types[info.name] = contract(info)
    return types


def _infer(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any | None:
    import onnx
    from onnx import shape_inference

    slim = _without_weights(model)
    for info in slim.graph.input:
        shape = shapes.get(info.name)
        if shape is not None and info.type.HasField("tensor_type"):
            del info.type.tensor_type.shape.dim[:]
            for n in shape:
                info.type.tensor_type.shape.dim.add().dim_value = n
    if shapes:
        # Stated shapes may hold symbols that are bound now; infer them anew.
        del slim.graph.value_info[:]
        for info in slim.graph.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
    try:
        return shape_inference.infer_shapes(slim, check_type=False, data_prop=True)
    except (shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        # Inference is a help, never a judge: a model that it cannot follow may well run.
        return None


def _without_weights(model: Any) -> Any:
    """Return a copy whose large initializers are inputs of the same type and shape."""
    import onnx

    slim = onnx.ModelProto()
    slim.ir_version = max(model.ir_version, 4)
    slim.opset_import.extend(model.opset_import)
    slim.functions.extend(model.functions)
    source, graph = model.graph, slim.graph
    graph.name = source.name or "graph"
    graph.node.extend(source.node)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.input.extend(source.input)
    fed = {info.name for info in source.input}
    for tensor in source.initializer:
        count = 1
        for n in tensor.dims:
            count *= n
        if tensor.data_location == onnx.TensorProto.EXTERNAL or count * 8 > _SMALL:
            if tensor.name not in fed:
                graph.input.append(
                    onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )
        else:
            graph.initializer.append(tensor)
    graph.sparse_initializer.extend(source.sparse_initializer)
    return slim
