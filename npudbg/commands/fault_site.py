"""Where a finding points in the graph: the operator and the nodes of its subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.graph.ir import Graph
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding

INPUT = "(input)"
"""Stands for the operator of an input of the model."""


def sites(graph: Graph, session: Session, finding: Finding) -> list[int]:
    """Return the nodes that a finding is about: the one at fault, or those that read it.

    Args:
        graph: The model that was run.
        session: The run.
        finding: One of its findings.
    """
    subject = finding.subject
    if subject.node is not None and 0 <= subject.node < len(graph.nodes):
        return [subject.node]
    name = _tensor(session, finding)
    if name:
        producer = graph.producer(name)
        if producer is not None and producer.op_type != "Constant":
            return [producer.index]
        return [n.index for n in graph.consumers(name)]
    if subject.seq is not None and 0 <= subject.seq < session.n_commands:
        node = int(session.command(subject.seq)["node"])
        return [node] if 0 <= node < len(graph.nodes) else []
    if subject.kind in ("node", "operator"):
        return [n.index for n in graph.nodes if subject.name in (n.label, n.op_type, n.operator)]
    return []


def operators(graph: Graph, session: Session, finding: Finding) -> list[str]:
    """Return the operators of :func:`sites`, once each; ``(input)`` for an input's fault."""
    name = _tensor(session, finding)
    if finding.subject.node is None and name and graph.input(name) is not None:
        return [INPUT]
    return list(dict.fromkeys(graph.nodes[i].operator for i in sites(graph, session, finding)))


def _tensor(session: Session, finding: Finding) -> str:
    """Return the graph's name of the tensor that a finding points at, or ``""``."""
    subject = finding.subject
    if subject.kind != "tensor":
        return ""
    name = subject.name
    if subject.tensor is not None and 0 <= subject.tensor < len(session.tensors):
        name = session.tensors[subject.tensor].name
    # Copies of an input on the device and of an output on the host have a suffix.
    return name.removesuffix("@ddr").removesuffix("@host")
