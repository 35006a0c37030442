"""Element values from a TensorProto's bytes and typed fields, as onnx.proto lays them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.graph.ir import Array
from npudbg.graph.types import PACKED_BITS
from npudbg.session.dtypes import EXTENSION, numpy_dtype

_FLOAT, _DOUBLE = ("<f4", "<c8"), ("<f8", "<c16")


def from_bytes(raw: bytes, dtype: str, count: int) -> Array:
    """Return ``count`` elements of raw data, read-only; ``raw`` has their exact size."""
    if count == 0:
        return np.empty(0, numpy_dtype(dtype))
    if dtype in PACKED_BITS:
        return _elements(_unpack(np.frombuffer(raw, np.uint8), PACKED_BITS[dtype], count), dtype)
    return np.frombuffer(raw, numpy_dtype(dtype), count)


def from_fields(proto: Any, dtype: str, count: int) -> Array:
    """Return ``count`` elements of the typed field that holds them.

    Raises:
        ValueError: A string that is not UTF-8.
    """
    if dtype == "string":
        return np.array([s.decode("utf-8") for s in proto.string_data], dtype=object)
    if dtype in _FLOAT:
        return np.array(proto.float_data, "<f4").view(dtype)
    if dtype in _DOUBLE:
        return np.array(proto.double_data, "<f8").view(dtype)
    if dtype == "<i8":
        return np.array(proto.int64_data, "<i8")
    if dtype in ("<u4", "<u8"):
        return np.array(proto.uint64_data, "<u8").astype(dtype)
    codes = np.array(proto.int32_data, "<i4")
    bits = PACKED_BITS.get(dtype, 8)
    if bits <= 4:  # an entry holds a byte of several elements; 6-bit types have one each
        return _elements(_unpack(codes.astype(np.uint8), bits, count), dtype)
    if dtype in EXTENSION or dtype == "<f2":
        width = numpy_dtype(dtype).itemsize
        return codes.astype(f"<u{width}").view(numpy_dtype(dtype))
    return codes.astype(dtype)


def _unpack(data: npt.NDArray[np.uint8], bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Spread packed elements to a byte each; the first stands in the lowest bits."""
    if bits == 6:
        stream = np.unpackbits(data, bitorder="little")[: count * bits].reshape(count, bits)
        return np.packbits(stream, axis=1, bitorder="little").reshape(-1)
    per_byte = 8 // bits
    codes = np.empty((data.size, per_byte), np.uint8)
    for at in range(per_byte):
        codes[:, at] = (data >> (bits * at)) & ((1 << bits) - 1)
    return codes.reshape(-1)[:count]


def _elements(codes: npt.NDArray[np.uint8], dtype: str) -> Array:
    target = numpy_dtype(dtype)
    if dtype.startswith("uint"):
        made: Array = codes.astype(target)
    elif dtype.startswith("int"):
        sign = 1 << (PACKED_BITS[dtype] - 1)
        made = ((codes ^ sign).astype(np.int8) - np.int8(sign)).astype(target)
    else:
        made = codes.view(target)
    return made
