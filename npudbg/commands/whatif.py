"""What-if: an input, a weight or a tensor replaced, a node kept in the model's type."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.graph.ir import Graph

    Arrays = Mapping[str, npt.NDArray[Any]]


def applied(job: Job, graph: Graph, arrays: Arrays) -> tuple[Graph, Arrays, list[str]]:
    """Return model and inputs with the job's what-ifs, and a note for each.

    Weights become the model's own, so that nothing takes them for damaged ones; what
    a node computes is replaced by the device, when the node has run.

    Raises:
        UserError: There is no such tensor or node, or the file's values do not fit it.
    """
    from npudbg.device.raising import find_nodes

    notes = [f"what if: {safe(name)} is kept in the model's type" for name in sorted(job.raised)]
    find_nodes(graph, job.raised)
    inputs: dict[str, npt.NDArray[Any]] = {}
    weights: dict[str, Any] = {}
    for name, array in job.replace.items():
        if graph.input(name) is not None:
            inputs[name] = array
        elif name in graph.initializers:
            weights[name] = _weight(graph, name, array)
        elif graph.producer(name) is None:
            raise _unknown(graph, name)
        notes.append(f"what if: {safe(name)} holds the values of a file")
    if inputs:
        arrays = {**arrays, **inputs}
    if weights:
        graph = dataclasses.replace(graph, initializers={**graph.initializers, **weights})
    return graph, arrays, notes


def _weight(graph: Graph, name: str, array: npt.NDArray[Any]) -> Any:
    from npudbg.device.replacing import replacement

    own = graph.initializers[name]
    values = replacement(name, array, own.array())
    return dataclasses.replace(own, location=None, sparse=False, _make=lambda: values)


def _unknown(graph: Graph, name: str) -> UserError:
    known = [c.name for c in (*graph.inputs, *graph.defaults)]
    known += [*graph.initializers, *(n for node in graph.nodes for n in node.writes)]
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {safe(near[0])}?" if near else "see `npudbg graph` for its tensors"
    return UserError(f"--set {safe(name)}: the model has no tensor of that name; {hint}")
