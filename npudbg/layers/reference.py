"""A node once more in fp32, from its recorded operands: what the value should have been."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npudbg.layers.case import Case
from npudbg.session.reader import Session
from npudbg.session.records import NodeRecord, TensorRecord

_MAX_BYTES = 256 << 20
_NARROW = ("<f2", "bfloat16", "|i1")


def value_in_fp32(
    case: Case, session: Session, node: NodeRecord, tensor: TensorRecord, where: Sequence[int]
) -> float | None:
    """Return the value at ``where`` that the node gives when computed in fp32.

    Args:
        case: Holds the model; without one (a replay) there is nothing to run.
        session: Holds the operands.
        node: The node.
        tensor: The output looked at.
        where: Coordinates in it.

    Returns:
        The value, or None where it cannot be computed.
    """
    if case.graph is None or tensor.dtype not in _NARROW or not len(where):
        return None
    operands = [session.tensors[i] if i >= 0 else None for i in node.inputs]
    if sum(int(np.prod(t.shape)) * 4 for t in operands if t is not None) > _MAX_BYTES:
        return None
    from npudbg.device.noderunner import NodeError, NodeRunner

    graph_node = case.graph.nodes[node.index]
    feeds = {}
    for name, record in zip(graph_node.inputs, operands, strict=True):
        if not name or record is None:
            continue
        array = session.array(record)
        if array is None:
            return None
        feeds[name] = array.astype(np.float32) if record.dtype in ("<f2", "bfloat16") else array
    runner = NodeRunner(case.graph.opset, case.graph.ir_version, case.graph.model.functions)
    try:
        with np.errstate(all="ignore"):
            results, _ = runner.run(graph_node.proto, feeds)
        return float(results[node.outputs.index(tensor.id)][tuple(where)])
    except (NodeError, ValueError, IndexError, TypeError):
        return None
