"""Small models that the graph's tests share."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT


def value(name, shape=("N", 4), elem=F):
    return helper.make_tensor_value_info(name, elem, shape)


def model(nodes, inputs, outputs, initializers=(), *, opset=17, ir=9, functions=(), imports=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), *imports],
        ir_version=ir,
        functions=list(functions),
        producer_name="tests",
        producer_version="1.0",
    )
    return made


def gemm():
    """x (N,4) @ w (4,3) + b (3), then Relu."""
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    b = numpy_helper.from_array(np.array([1, -2, 3], np.float32), "b")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], name="mm"),
        helper.make_node("Add", ["xw", "b"], ["s"], name="bias"),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    return model(nodes, [value("x")], [value("y", ("N", 3))], [w, b])


def save(made, path):
    path.write_bytes(made.SerializeToString())
    return path


def external(path, *, location="w.bin", offset=0, length=None, payload=None):
    """The gemm model whose ``w`` lies outside; writes the data file if ``payload``."""
    made = gemm()
    w = made.graph.initializer[0]
    data = w.raw_data
    w.ClearField("raw_data")
    w.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": location, "offset": str(offset)}
    if length is not None:
        entries["length"] = str(length)
    for key, text in entries.items():
        w.external_data.add(key=key, value=text)
    if payload is not None:
        (path.parent / location).write_bytes(payload if payload else data)
    return save(made, path)
