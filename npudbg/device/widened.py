"""A model's nodes in fp32 throughout: what fp16 weights and casts would give without rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from npudbg.device.noderunner import NodeRunner, Value
from npudbg.device.reference import Reference
from npudbg.graph.ir import Graph

_HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


class WideRunner(NodeRunner):
    """Runs nodes with every fp16 or bf16 operand widened; no result is narrowed.

    A narrow type that ONNX Runtime itself adds (inside of a body, a function) is
    widened when it leaves the node.
    """

    def run(
        self,
        node: onnx.NodeProto,
        operands: Mapping[str, Value],
        types: Mapping[str, onnx.TypeProto] | None = None,
    ) -> tuple[list[Value], list[str]]:
        """Run one node in fp32; see :meth:`NodeRunner.run`."""
        fed = {name: widened(value) for name, value in operands.items()}
        results, kinds = super().run(_without_narrowing(node), fed, types)
        return [widened(r) for r in results], kinds


class Widened(Reference):
    """Runs a model node by node in fp32, whatever narrow type it declares."""

    def __init__(self, graph: Graph) -> None:
        """Keep the model."""
        super().__init__(graph)
        functions: Sequence[Any] = graph.model.functions
        self._runner = WideRunner(graph.opset, graph.ir_version, functions)


def widened(value: Value) -> Value:
    """Return fp16 and bf16 arrays as fp32; anything else as it is."""
    if isinstance(value, np.ndarray) and (
        value.dtype == np.float16 or value.dtype.name == "bfloat16"
    ):
        return value.astype(np.float32)
    return value


def _without_narrowing(node: onnx.NodeProto) -> onnx.NodeProto:
    if node.op_type != "Cast" or node.domain:
        return node
    if not any(a.name == "to" and a.i in _HALF for a in node.attribute):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.name == "to":
            attribute.i = TensorProto.FLOAT
    return copy
