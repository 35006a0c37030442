"""External data of bodies and attributes, brought into the model itself.

Backends run a node on its own, away from the model's folder, so a tensor that
travels inside the node must carry its bytes.  The graph's own initializers
stay outside and are mapped when read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from npudbg.graph import external
from npudbg.graph.bodies import bodies
from npudbg.graph.external import EXTERNAL, Folder
from npudbg.graph.tensors import checked_shape
from npudbg.graph.types import ELEMENT, stored_nbytes
from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAX_BYTES = 1 << 30


def inline_external(model: Any, folder: Folder) -> None:
    """Read the external tensors inside the model's nodes into the messages.

    Raises:
        UserError: A file is missing, short or outside the folder, or all are too large.
    """
    total = 0
    groups = [model.graph.node, *(f.node for f in model.functions)]
    for tensor in (t for nodes in groups for t in _tensors(nodes)):
        if tensor.data_location != EXTERNAL:
            continue
        label = f"tensor {safe(tensor.name)!r}"
        dtype = ELEMENT.get(tensor.data_type)
        if dtype is None or dtype == "string":
            raise UserError(f"{label}: element type {tensor.data_type} cannot be external data")
        count = math.prod(checked_shape(tensor.dims, label))
        nbytes = stored_nbytes(dtype, count)
        total += nbytes
        where = folder.find(tensor, nbytes)
        if total > MAX_BYTES:
            raise UserError(f"{label}: external data inside nodes exceed {MAX_BYTES:,} bytes")
        tensor.raw_data = external.read(where)
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")


def _tensors(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
            for entry in (*sparse, *attribute.sparse_tensors):
                yield entry.values
                yield entry.indices
        for body in bodies(node):
            yield from body.initializer
            for entry in body.sparse_initializer:
                yield entry.values
                yield entry.indices
            yield from _tensors(body.node)
