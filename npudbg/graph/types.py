"""ONNX's element types and type messages in the words of the session's records."""

from __future__ import annotations

from typing import Any

from npudbg.session.dtypes import EXTENSION, NON_TENSOR, numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.records import ValueContract
from npudbg.session.text import safe

# Numbers of TensorProto.DataType (onnx.proto); the file format never changes them.
ELEMENT = {
    1: "<f4",
    2: "|u1",
    3: "|i1",
    4: "<u2",
    5: "<i2",
    6: "<i4",
    7: "<i8",
    8: "string",
    9: "|b1",
    10: "<f2",
    11: "<f8",
    12: "<u4",
    13: "<u8",
    14: "<c8",
    15: "<c16",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
PACKED_BITS = {
    "uint4": 4,
    "int4": 4,
    "float4_e2m1fn": 4,
    "uint2": 2,
    "int2": 2,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
"""Element types that a file stores several to a byte."""

_PLACEHOLDERS = frozenset({"", "?", "-1", "*", "None", "none"})
"""Names that exporters write for "unknown": they do not tie two axes together."""


def element_name(number: int) -> str:
    """Return the record name of a TensorProto data type.

    Raises:
        KeyError: Not a type that this version knows.
    """
    return ELEMENT[number]


def itemsize(dtype: str) -> int:
    """Return the bytes of one decoded element; 0 for strings and non-tensors."""
    return 0 if dtype in NON_TENSOR else numpy_dtype(dtype).itemsize


def stored_nbytes(dtype: str, count: int) -> int:
    """Return the bytes that ``count`` elements take in a file (sub-byte types packed)."""
    bits = PACKED_BITS.get(dtype)
    return count * itemsize(dtype) if bits is None else (count * bits + 7) // 8


def plain_name(dtype: str) -> str:
    """Return a dtype's name for people: ``float32`` for ``<f4``."""
    if dtype in NON_TENSOR or dtype in EXTENSION:
        return dtype
    try:
        return str(numpy_dtype(dtype).name)
    except TypeError:
        return dtype


def contract(info: Any, *, optional: bool = False) -> ValueContract:
    """Return what a ValueInfoProto says.

    A sequence has the element type of its tensors; an optional has that of what
    it wraps, or ``sequence``; a map that of its values.  An element type that
    is not stated is ``""``.

    Raises:
        UserError: An element type that no version known here defines.
    """
    name: str = info.name
    kind, dtype, shape = _read(info.type, name, 0)
    return ValueContract(
        name=name, dtype=dtype, shape=shape, kind=kind, optional=optional or kind == "optional"
    )


def _read(
    proto: Any, name: str, depth: int
) -> tuple[str, str, tuple[int | str | None, ...] | None]:
    if depth > 8:
        raise UserError(f"value {safe(name)!r}: its type is nested more than 8 deep")
    which = proto.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, which)
        kind = "tensor" if which == "tensor_type" else "sparse"
        dtype = _element(tensor.elem_type, name)
        shape = tuple(_axis(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
        return kind, dtype, shape
    if which == "sequence_type":
        inner, dtype, shape = _read(proto.sequence_type.elem_type, name, depth + 1)
        return "sequence", dtype if inner == "tensor" else inner, shape
    if which == "optional_type":
        inner, dtype, shape = _read(proto.optional_type.elem_type, name, depth + 1)
        return "optional", dtype if inner == "tensor" else inner, shape
    if which == "map_type":
        _, dtype, _ = _read(proto.map_type.value_type, name, depth + 1)
        return "map", dtype, None
    if which == "opaque_type":
        return "opaque", "", None
    return "tensor", "", None


def _element(number: int, name: str) -> str:
    if number == 0:
        return ""
    try:
        return ELEMENT[number]
    except KeyError:
        raise UserError(
            f"value {safe(name)!r}: element type {number} is none that ONNX defines "
            "(known: 1 to 28); was the model made by a newer exporter?"
        ) from None


def _axis(dim: Any) -> int | str | None:
    which = dim.WhichOneof("value")
    if which == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    # A name that is not UTF-8 comes as bytes: it cannot be typed, so it names nothing.
    if which == "dim_param" and isinstance(dim.dim_param, str):
        return None if dim.dim_param in _PLACEHOLDERS else str(dim.dim_param)
    return None
