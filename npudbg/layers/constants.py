"""What constants should hold: the model's own values of what lies in device memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.graph.ir import Graph, Node
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.reader import Session
from npudbg.session.records import TensorRecord

Array = npt.NDArray[Any]

_MAX_BYTES = 64 << 20


class Constants:
    """The values that a run's constants have by the model.

    An initializer and a Constant node have theirs in the file; what was folded is
    folded once more, from its operands as they are recorded.

    Args:
        graph: The model.
        session: The run.
    """

    def __init__(self, graph: Graph, session: Session) -> None:
        """Look at nothing yet."""
        from npudbg.device.noderunner import NodeRunner

        self._graph, self._session = graph, session
        self._runner = NodeRunner(graph.opset, graph.ir_version, graph.model.functions)

    def meant(self, tensor: TensorRecord) -> Array | None:
        """Return the value of a constant in the model's type; None where it is not known."""
        if tensor.role == "weight":
            own = self._graph.initializers.get(tensor.name)
            return None if own is None else own.array()
        if tensor.role != "constant" or not 0 <= tensor.producer < len(self._graph.nodes):
            return None
        from npudbg.device.folding import constant_of

        node = self._graph.nodes[tensor.producer]
        if node.op_type == "Constant" and not node.domain:
            value: Array | None = constant_of(node)
            return value
        return self._folded(node, tensor.name)

    def own_non_finite(self, tensor: TensorRecord) -> bool:
        """Whether NaN or Inf in a constant comes out of the model file."""
        value = self.meant(tensor)
        if value is None:
            return tensor.role == "constant"
        wide = value if value.dtype.kind in "fc" else value.astype(np.float32)
        if np.isfinite(wide).all():
            return False
        made_of = self._operands(tensor)
        dirty = [t for t in made_of if t.stats is not None and t.stats.nonfinite]
        return not dirty or any(self.own_non_finite(t) for t in dirty)

    def _operands(self, tensor: TensorRecord) -> list[TensorRecord]:
        if not 0 <= tensor.producer < len(self._session.nodes):
            return []
        inputs = self._session.nodes[tensor.producer].inputs
        return [self._session.tensors[i] for i in inputs if i >= 0]

    def _folded(self, node: Node, name: str) -> Array | None:
        from npudbg.device.noderunner import NodeError

        if node.captured:
            return None
        feeds: dict[str, Array] = {}
        numbers = self._session.nodes[node.index].inputs
        for operand, number in zip(node.inputs, numbers, strict=False):
            if not operand:
                continue
            value = self._recorded(operand, number)
            if value is None:
                return None
            feeds[operand] = value
        if sum(v.nbytes for v in feeds.values()) > _MAX_BYTES:
            return None
        try:
            results, _ = self._runner.run(node.proto, feeds)
        except NodeError:
            return None
        result = results[node.outputs.index(name)]
        return result if isinstance(result, np.ndarray) else None

    def _recorded(self, name: str, number: int) -> Array | None:
        """Return an operand as it was folded: the device's values in the model's type."""
        from npudbg.device.numerics import Numerics, Stored

        if not 0 <= number < len(self._session.tensors):
            return None
        record = self._session.tensors[number]
        array = self._session.array(record)
        own, known = self._graph.initializers.get(name), self._graph.value_types.get(name)
        dtype = own.dtype if own is not None else known.dtype if known is not None else ""
        if array is None or not dtype or dtype == record.dtype:
            return array
        return Numerics().load(Stored(array, record.quantization), numpy_dtype(dtype))
