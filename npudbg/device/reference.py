"""The model as it is, node by node: what a device is compared with and calibrated on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudbg.device.noderunner import NodeRunner
from npudbg.graph.ir import Graph, Node


class Reference:
    """Runs a model in its own types with ONNX Runtime, one node after the other.

    Sessions are kept from one run to the next.  Bit-equal to a run of the whole model
    without optimisation.
    """

    def __init__(self, graph: Graph) -> None:
        """Keep the model."""
        self.graph = graph
        self._runner = NodeRunner(graph.opset, graph.ir_version, graph.model.functions)

    def run(self, inputs: Mapping[str, Any]) -> Iterator[tuple[Node, dict[str, Any]]]:
        """Yield every node with what it gives; values live until their last reader.

        Args:
            inputs: A value for every input that the model needs.

        Raises:
            UserError: ONNX Runtime refuses a node.
        """
        values: dict[str, Any] = dict(inputs)
        uses = {n: len(self.graph.consumers(n)) for node in self.graph.nodes for n in node.writes}
        for node in self.graph.nodes:
            feeds = {name: self._value(name, values) for name in dict.fromkeys(node.reads)}
            results, _ = self._runner.run(node.proto, feeds)
            given = {n: r for n, r in zip(node.outputs, results, strict=True) if n}
            yield node, given
            values.update((n, r) for n, r in given.items() if uses.get(n))
            for name in feeds:
                if name in uses:
                    uses[name] -= 1
                    if not uses[name]:
                        values.pop(name, None)

    def _value(self, name: str, values: Mapping[str, Any]) -> Any:
        return values[name] if name in values else self.graph.initializers[name].array()
