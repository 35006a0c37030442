"""Two tensors side by side in pieces, as float64, without a full-size copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.errors import UserError

Array = npt.NDArray[Any]
Wide = npt.NDArray[np.float64]
PIECE = 1 << 16
"""Elements a piece: 512 KB of float64."""


def real(array: Array, what: str = "array") -> Array:
    """Return an array of real numbers; a complex one gets a last axis of two parts.

    Raises:
        UserError: The elements are no numbers.
    """
    array = np.asarray(array)
    kind, name = array.dtype.kind, array.dtype.name
    if kind == "c":
        packed = np.ascontiguousarray(array)
        part = np.dtype(f"f{array.dtype.itemsize // 2}").newbyteorder(array.dtype.byteorder)
        return packed.reshape(*array.shape, 1).view(part)
    if kind in "biuf" or name.startswith(("bfloat", "float", "int", "uint")):
        return array
    raise UserError(f"{what}: elements of type {array.dtype} cannot be compared; numbers can")


def pairs(got: Array, golden: Array) -> Iterator[tuple[Wide, Wide]]:
    """Give both tensors' elements in C order, a piece at a time (buffers: do not keep them)."""
    if got.shape != golden.shape:
        raise ValueError(f"shapes {got.shape} and {golden.shape} differ")
    if not got.size:
        return
    pieces = np.nditer(
        [got, golden],
        flags=["external_loop", "buffered"],
        op_flags=[["readonly"], ["readonly"]],
        op_dtypes=[np.dtype(np.float64), np.dtype(np.float64)],
        order="C",
        casting="unsafe",
        buffersize=PIECE,
    )
    with np.errstate(all="ignore"), pieces:
        yield from pieces


def wide(array: Array) -> Wide:
    """Return an array as float64."""
    with np.errstate(all="ignore"):
        result: Wide = array.astype(np.float64)
    return result
