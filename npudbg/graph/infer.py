"""Types of the values inside a graph: what the file states, then onnx's inference.

onnx's inference is native code that a damaged model can send into an endless
loop (an Einsum equation with a stray character does), so it runs in a process of its
own with a time limit.  It is a help, never a judge: without it only what
the file states is known.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from npudbg.graph.ir import Types
from npudbg.graph.types import contract

SECONDS = 20
"""Wall-clock limit of one inference."""
_SMALL = 4096  # bytes: shape operands are small; weights need not be copied to infer

# The parent's search path is set first: a file onnx.py in the working folder is not ours.
_CHILD = """
import sys
sys.path[:] = sys.argv[1:]
import onnx
from onnx import shape_inference
model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
done = shape_inference.infer_shapes(model, check_type=False, data_prop=True)
sys.stdout.buffer.write(done.SerializeToString())
"""


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
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    slim = _without_weights(model)
    _bind(slim.graph, shapes)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", _CHILD, *sys.path],
            input=slim.SerializeToString(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        return onnx.ModelProto.FromString(ran.stdout)
    except (subprocess.SubprocessError, OSError, DecodeError):
        return None


def _bind(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for info in graph.input:
        shape = shapes.get(info.name)
        if shape is not None and info.type.HasField("tensor_type"):
            del info.type.tensor_type.shape.dim[:]
            for n in shape:
                info.type.tensor_type.shape.dim.add().dim_value = n
    if shapes:
        # Stated shapes may hold symbols that are bound now; infer them anew.
        del graph.value_info[:]
        for info in graph.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")


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
        outside = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not outside and math.prod(tensor.dims) * 8 <= _SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in fed:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    graph.sparse_initializer.extend(source.sparse_initializer)
    return slim
