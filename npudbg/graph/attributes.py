"""AttributeProto to Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npudbg.graph.bodies import captured, operators
from npudbg.graph.external import Folder
from npudbg.graph.ir import Attributes, SparseTensor, Subgraph
from npudbg.graph.tensors import Stored, checked_shape

# Numbers of AttributeProto.AttributeType (onnx.proto).
_BY_TYPE = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse_tensor",
    12: "sparse_tensors",
    13: "tp",
    14: "type_protos",
}


def read(node: Any, folder: Folder) -> Attributes:
    """Return a NodeProto's attributes as Python values.

    Raises:
        UserError: A tensor attribute that is impossible (see :class:`~.tensors.Stored`).
    """
    values: dict[str, Any] = {}
    lazy: dict[str, Callable[[], Any]] = {}
    for attribute in node.attribute:
        field = _BY_TYPE.get(attribute.type) or _guess(attribute)
        name = attribute.name
        if field in ("f", "i"):
            values[name] = getattr(attribute, field)
        elif field == "s":
            values[name] = _text(attribute.s)
        elif field in ("floats", "ints"):
            values[name] = list(getattr(attribute, field))
        elif field == "strings":
            values[name] = [_text(s) for s in attribute.strings]
        elif field == "t":
            lazy[name] = Stored(attribute.t, folder, f"attribute {name!r}").array
        elif field == "tensors":
            lazy[name] = _all([Stored(t, folder).array for t in attribute.tensors])
        elif field == "sparse_tensor":
            lazy[name] = _sparse(attribute.sparse_tensor, folder)
        elif field == "sparse_tensors":
            lazy[name] = _all([_sparse(t, folder) for t in attribute.sparse_tensors])
        elif field == "g":
            values[name] = subgraph(attribute.g)
        elif field == "graphs":
            values[name] = [subgraph(g) for g in attribute.graphs]
        elif field == "tp":
            values[name] = " ".join(str(attribute.tp).split())
        elif field == "type_protos":
            values[name] = [" ".join(str(t).split()) for t in attribute.type_protos]
    return Attributes(values, lazy)


def subgraph(proto: Any) -> Subgraph:
    """Return what a body holds."""
    return Subgraph(
        name=proto.name,
        inputs=tuple(v.name for v in proto.input),
        outputs=tuple(v.name for v in proto.output),
        captured=captured(proto),
        operators=operators(proto),
        proto=proto,
    )


def _guess(attribute: Any) -> str:
    # Files of IR version 1 do not state an attribute's type.
    for field in ("f", "i", "s", "t", "g"):
        if attribute.HasField(field):
            return field
    repeated = ("floats", "ints", "strings", "tensors", "graphs")
    return next((f for f in repeated if len(getattr(attribute, f))), "")


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _all(makers: list[Callable[[], Any]]) -> Callable[[], list[Any]]:
    return lambda: [make() for make in makers]


def _sparse(proto: Any, folder: Folder) -> Callable[[], SparseTensor]:
    values = Stored(proto.values, folder, "sparse attribute")
    indices = Stored(proto.indices, folder, "indices of sparse attribute")
    shape = checked_shape(proto.dims, "sparse attribute")
    return lambda: SparseTensor(values.array(), indices.array(), shape)
