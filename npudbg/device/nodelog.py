"""What became of each node and fused group: their records in the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npudbg.device.kernels.registry import kernel_for
from npudbg.device.recorder import Recorder
from npudbg.device.values import Value
from npudbg.graph.ir import Graph, Node


class NodeLog:
    """Writes a record for every node, once, and numbers the groups.

    Attributes:
        group: Number of the group that is being run.
        stages: Groups by stage of compilation, as the session keeps them.
    """

    def __init__(self, graph: Graph, recorder: Recorder, values: Mapping[str, Value]) -> None:
        """Start with no node recorded; ``values`` are the machine's, as they come and go."""
        self.group = 0
        self.stages: dict[str, list[dict[str, Any]]] = {"fused": []}
        self._graph, self._recorder, self._values = graph, recorder, values
        self._recorded: set[int] = set()

    def node(self, node: Node, **what: Any) -> None:
        """Record a node; ``what`` are fields of its record."""
        self._recorded.add(node.index)
        self._recorder.node(node, self._ids(node.inputs), self._ids(node.outputs), **what)

    def end_group(self, nodes: Sequence[Node], kernel: str, engine: str) -> None:
        """A group of nodes has run as one task."""
        self.stages["fused"].append(
            {
                "group": self.group,
                "nodes": [n.index for n in nodes],
                "kernel": kernel,
                "engine": engine,
            }
        )
        self.group += 1

    def stopped(
        self, nodes: Sequence[Node], culprit: int, *, hung: bool, message: str, **what: Any
    ) -> None:
        """Record a group in which the device stopped.

        Args:
            nodes: The group.
            culprit: Index of the node that hung.
            hung: It hung; else an address or an operand was refused.
            message: Why it stopped.
            what: Further fields of each record.
        """
        for node in nodes:
            kernel = kernel_for(node.op_type, node.domain)
            status = "hung" if node.index == culprit else "not-run"
            self.node(
                node,
                kernel=kernel.name if kernel is not None else "",
                engine=kernel.engine if kernel is not None else "-",
                group=self.group,
                status=status if hung else "failed",
                note=message,
                **what,
            )

    def not_run(self) -> None:
        """Nodes that a stop left out still stand in the record."""
        for node in self._graph.nodes:
            if node.index not in self._recorded:
                self.node(node, status="not-run")

    def _ids(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._values[n].id if n in self._values else -1 for n in names)
