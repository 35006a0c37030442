"""TensorProto to array: claims are held against the bytes before anything is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npudbg.graph import decode, external
from npudbg.graph.external import EXTERNAL, Folder
from npudbg.graph.ir import Array, Initializer, SparseTensor
from npudbg.graph.types import ELEMENT, PACKED_BITS, itemsize, stored_nbytes
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAX_RANK = 64
MAX_DENSE_BYTES = 1 << 31
"""Largest array that a sparse tensor may unfold to."""

# Which repeated field holds a type's values when raw_data does not (onnx.proto).
_TYPED = {1: "float_data", 7: "int64_data", 8: "string_data", 11: "double_data", 14: "float_data"}
_TYPED |= {12: "uint64_data", 13: "uint64_data", 15: "double_data"}


class Stored:
    """One TensorProto: its checked shape and type, and its values on demand."""

    __slots__ = ("_external", "_proto", "count", "dtype", "name", "shape")

    def __init__(self, proto: Any, folder: Folder, what: str = "initializer") -> None:
        """Check a TensorProto.

        Args:
            proto: The message.
            folder: Where external data may lie.
            what: What the tensor is, for messages.

        Raises:
            UserError: Unknown type, impossible shape, or data that do not fill it.
        """
        self._proto = proto
        self.name = proto.name
        label = f"{what} {safe(proto.name)!r}" if proto.name else what
        if proto.data_type not in ELEMENT:
            raise UserError(f"{label}: element type {proto.data_type} is none that ONNX defines")
        self.dtype = ELEMENT[proto.data_type]
        self.shape = checked_shape(proto.dims, label)
        self.count = math.prod(self.shape)
        self._external = None
        if proto.data_location == EXTERNAL:
            if self.dtype == "string":
                raise UserError(f"{label}: strings cannot lie in external data")
            self._external = folder.find(proto, stored_nbytes(self.dtype, self.count))
        else:
            self._check_size(label)

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded array; 0 for strings."""
        return self.count * itemsize(self.dtype)

    @property
    def location(self) -> str | None:
        """Path of the external data file, if any."""
        return None if self._external is None else str(self._external.path)

    def array(self) -> Array:
        """Return the values, read-only; external data are mapped, not copied."""
        proto = self._proto
        try:
            if self._external is not None:
                if self.dtype not in PACKED_BITS and self.count:
                    return self._mapped()
                made = decode.from_bytes(external.read(self._external), self.dtype, self.count)
            elif proto.HasField("raw_data"):
                made = decode.from_bytes(proto.raw_data, self.dtype, self.count)
            else:
                made = decode.from_fields(proto, self.dtype, self.count)
            made = made.reshape(self.shape)
        except (ValueError, TypeError, OverflowError) as error:
            raise UserError(f"tensor {safe(self.name)!r}: {safe(error)}") from None
        made.setflags(write=False)
        return made

    def _mapped(self) -> Array:
        where = self._external
        assert where is not None
        try:
            return np.memmap(where.path, numpy_dtype(self.dtype), "r", where.offset, self.shape)
        except (OSError, ValueError) as error:
            raise UserError(f"external data of {safe(self.name)!r}: {safe(error)}") from None

    def _check_size(self, label: str) -> None:
        proto = self._proto
        if proto.HasField("raw_data"):
            have, need = len(proto.raw_data), stored_nbytes(self.dtype, self.count)
            unit = "bytes"
            if self.dtype == "string":
                raise UserError(f"{label}: strings cannot be stored as raw data")
        else:
            have, need, unit = self._typed_size()
        if have != need:
            state = f"{need - have:,} are missing" if have < need else "they do not match"
            raise UserError(
                f"{label}: shape {list(self.shape)} of {self.dtype} needs {need:,} {unit} and the "
                f"file holds {have:,}: {state}"
            )

    def _typed_size(self) -> tuple[int, int, str]:
        number = self._proto.data_type
        have = len(getattr(self._proto, _TYPED.get(number, "int32_data")))
        need = self.count
        if number in (14, 15):  # complex: real and imaginary part
            need *= 2
        elif PACKED_BITS.get(self.dtype, 8) <= 4:
            need = stored_nbytes(self.dtype, need)  # an entry holds a byte of them
        return have, need, "values"


def checked_shape(dims: Sequence[int], label: str) -> tuple[int, ...]:
    """Return ``dims`` as a shape.

    Raises:
        UserError: A negative axis, or more axes than an array can have.
    """
    shape = tuple(int(d) for d in dims)
    if len(shape) > MAX_RANK:
        raise UserError(f"{label}: {len(shape)} axes; at most {MAX_RANK} are possible")
    if any(d < 0 for d in shape):
        raise UserError(f"{label}: shape {list(shape)} has a negative axis")
    return shape


def initializer(proto: Any, folder: Folder) -> Initializer:
    """Return a TensorProto as an initializer.

    Raises:
        UserError: See :class:`Stored`.
    """
    stored = Stored(proto, folder)
    return Initializer(
        name=stored.name,
        shape=stored.shape,
        dtype=stored.dtype,
        nbytes=stored.nbytes,
        location=stored.location,
        _make=stored.array,
    )


def sparse_initializer(proto: Any, folder: Folder) -> Initializer:
    """Return a SparseTensorProto as an initializer whose array is dense.

    Raises:
        UserError: See :class:`Stored`; or the dense array would be too large.
    """
    values = Stored(proto.values, folder, "sparse initializer")
    indices = Stored(proto.indices, folder, "indices of sparse initializer")
    label = f"sparse initializer {safe(values.name)!r}"
    shape = checked_shape(proto.dims, label)
    nbytes = math.prod(shape) * itemsize(values.dtype)
    if nbytes > MAX_DENSE_BYTES:
        raise UserError(f"{label}: {nbytes:,} bytes when dense; at most {MAX_DENSE_BYTES:,}")

    def make() -> Array:
        return dense(SparseTensor(values.array(), indices.array(), shape), label)

    return Initializer(
        name=values.name,
        shape=shape,
        dtype=values.dtype,
        nbytes=nbytes,
        location=values.location,
        sparse=True,
        _make=make,
    )


def dense(sparse: SparseTensor, label: str = "sparse tensor") -> Array:
    """Return a sparse tensor as a dense, read-only array.

    Raises:
        UserError: Indices that do not fit the shape.
    """
    out = np.zeros(sparse.shape, sparse.values.dtype)
    try:
        indices = np.asarray(sparse.indices, np.int64)
        if indices.ndim == 1:
            out.reshape(-1)[indices] = sparse.values
        else:
            out[tuple(indices.T)] = sparse.values
    except (IndexError, ValueError, TypeError) as error:
        raise UserError(f"{label}: {safe(error)}") from None
    out.setflags(write=False)
    return out
