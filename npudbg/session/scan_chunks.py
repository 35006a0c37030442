"""A tensor's elements in pieces that stay in the cache, whatever its strides and byte order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK_BYTES = 3 << 17
"""Bytes a piece: the second look at one comes from a second-level cache of 512 KB; in smaller
ones the calls cost more than that saves (measured from 64 KB to 1 MB)."""


def chunks(
    array: npt.NDArray[Any], dtype: np.dtype[Any] | None = None, nbytes: int = CHUNK_BYTES
) -> Iterator[npt.NDArray[Any]]:
    """Give each element once, in memory order, as one-axis contiguous native-order pieces.

    A piece may be a buffer that the next one reuses: do not keep it or write to it.

    Args:
        array: Any strides and byte order, a type that NumPy itself knows.
        dtype: Type of the pieces; the array's own (native order) by default.
        nbytes: Size of a piece.
    """
    wanted = (dtype or array.dtype).newbyteorder("=")
    step = max(1, nbytes // wanted.itemsize)
    if array.dtype == wanted and (array.flags.c_contiguous or array.flags.f_contiguous):
        flat = array.ravel(order="K")
        for at in range(0, flat.size, step):
            yield flat[at : at + step]
        return
    pieces = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=["readonly"],
        op_dtypes=wanted,
        order="K",
        casting="same_kind",
        buffersize=step,
    )
    with pieces:
        for piece in pieces:
            yield np.ascontiguousarray(piece)
