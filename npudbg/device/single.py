"""One layer at a time: the device's arithmetic on golden inputs, so that errors do not add up.

In a whole run each layer reads what the layer before has rounded.  Here each fused
group reads the model's own values, rounded once to the device's type; what it
gives differs from the model's by the group's own error alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npudbg.device.arithmetic import Arithmetic
from npudbg.device.calibration import Calibration
from npudbg.device.fusion import fuse, inner_tensors
from npudbg.device.mapping import Mapper
from npudbg.device.noderunner import NodeRunner
from npudbg.device.numerics import Numerics
from npudbg.device.raising import kept_tensors
from npudbg.device.reference import Reference
from npudbg.graph.ir import Graph, Node
from npudbg.targets.profile import Target

Array = npt.NDArray[Any]


class Layer(NamedTuple):
    """One result of one node.

    Attributes:
        node: The node.
        name: The tensor.
        golden: What the model gives.
        device: What the device gives on golden inputs, widened to the model's type.
    """

    node: Node
    name: str
    golden: Array
    device: Array


def single_layers(
    graph: Graph,
    target: Target,
    inputs: Mapping[str, Array],
    *,
    precision: str,
    calibration: Calibration | None = None,
    fused: bool = True,
    given: Mapping[str, Array] | None = None,
) -> Iterator[Layer]:
    """Yield each tensor result of each node, computed from golden inputs.

    Args:
        graph: The model.
        target: The profile: what runs fused, how results are rounded.
        inputs: A value for every input that the model needs.
        precision: ``fp32``, ``fp16``, ``bf16`` or ``int8``.
        calibration: int8 parameters.
        fused: Whether element-wise nodes run in the group of what they follow; inside
            of a group values are the device's own.
        given: Golden values to use instead of ONNX Runtime's (dumps of a board or of
            another tool), where they have a result's number of elements.

    Raises:
        UserError: ONNX Runtime refuses a node.
    """
    groups = fuse(graph, Mapper(target, Numerics()).allowed, enabled=fused)
    numerics = Numerics.of(
        target.compute,
        precision,
        kept_tensors(graph),
        inside=inner_tensors(graph, groups) if precision == "int8" else frozenset(),
        calibration=calibration,
    )
    runner = _Runner(graph, numerics, Mapper(target, numerics))
    golden: dict[str, Any] = dict(inputs)
    uses = {n: len(graph.consumers(n)) for node in graph.nodes for n in node.writes}
    steps = Reference(graph).run(inputs)
    ahead: set[int] = set()  # groups need not be runs of neighbouring nodes
    for group in groups:
        while not {n.index for n in group} <= ahead:
            node, results = next(steps)
            ahead.add(node.index)
            golden.update(_replaced(results, given or {}))
        yield from runner.group(group, golden)
        for name in [r for node in group for r in dict.fromkeys(node.reads)]:
            if name in uses:
                uses[name] -= 1
                if not uses[name]:
                    golden.pop(name, None)


def _replaced(results: Mapping[str, Any], given: Mapping[str, Array]) -> dict[str, Any]:
    """Return results with those that are given in their place, in the model's type and shape."""
    found = dict(results)
    for name, own in results.items():
        array = given[name] if name in given and isinstance(own, np.ndarray) else None
        if array is not None and array.size == own.size and array.dtype.kind in "fiub":
            found[name] = array.reshape(own.shape).astype(own.dtype, copy=False)
    return found


class _Runner:
    def __init__(self, graph: Graph, numerics: Numerics, mapper: Mapper) -> None:
        self._graph, self._numerics = graph, numerics
        self._mapper = mapper
        self._runner = Arithmetic(
            NodeRunner(graph.opset, graph.ir_version, graph.model.functions), numerics
        )

    def group(self, group: Sequence[Node], golden: Mapping[str, Any]) -> Iterator[Layer]:
        own: dict[str, Any] = {}
        known = self._numerics.calibration
        # A unit that computes in fp16 reads fp16: int8 is its neighbour's rounding.
        half = known is not None and any(w in known.half for node in group for w in node.writes)
        for node in group:
            feeds = {}
            for name in dict.fromkeys(node.reads):
                feeds[name] = own[name] if name in own else self._given(name, golden, half)
            results, _ = self._runner.run(node, feeds, device=self._mapper.allowed(node))
            for name, result in zip(node.outputs, results, strict=True):
                if not name:
                    continue
                own[name] = self._rounded(result, name)
                if isinstance(result, np.ndarray) and isinstance(golden[name], np.ndarray):
                    yield Layer(node, name, golden[name], own[name])

    def _given(self, name: str, golden: Mapping[str, Any], half: bool) -> Any:
        if name in golden:
            if half and isinstance(golden[name], np.ndarray) and golden[name].dtype.kind == "f":
                return golden[name].astype(np.float16).astype(golden[name].dtype)
            return self._rounded(golden[name], name)
        weight = any(
            n.op_type in ("Conv", "ConvTranspose") and n.inputs[1] == name
            for n in self._graph.consumers(name)
        )
        return self._rounded(
            self._graph.initializers[name].array(), name, weight=weight, constant=True
        )

    def _rounded(
        self, value: Any, name: str, *, weight: bool = False, constant: bool = False
    ) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OSUT":
            return value
        stored = self._numerics.store(value, weight=weight, constant=constant, name=name)
        return self._numerics.load(stored, value.dtype)
