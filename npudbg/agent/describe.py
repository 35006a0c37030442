"""What an array is: not its values, but its place, order and owner in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import layout
from .memory import RawCopy, address_of, base_bytes, find_base, raw_copy, raw_from, wrong_values

__all__ = [
    "RawCopy",
    "base_bytes",
    "describe",
    "dtype_name",
    "raw_copy",
    "raw_from",
    "wrong_elements",
    "wrong_values",
]

Array = npt.NDArray[Any]


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return NumPy's type string with byte order, or an extension type's name.

    A type string that does not lead back to the same type (``<V2`` for
    ``bfloat16``) is no name for it.
    """
    try:
        if np.dtype(dtype.str) == dtype:
            return str(dtype.str)
    except (TypeError, ValueError):
        pass
    return str(dtype.name)


def describe(array: Array, name: str = "") -> dict[str, Any]:
    """Return what ``array`` is, as JSON-ready values.

    Args:
        array: Any ndarray; it is neither copied nor changed.
        name: What the program calls it.

    Returns:
        ``name``, ``kind`` (``tensor``), ``shape``, ``dtype``, ``itemsize``,
        ``strides`` (bytes), ``nbytes`` (of the values), ``size``; ``address`` of
        element 0, ``low`` and ``high`` (first and one past the last address
        touched); ``base_address``, ``base_nbytes``, ``offset`` (element 0 in the
        base buffer), ``owner`` (``self`` or the root's type), ``outside`` (bytes
        between ``low`` and ``high`` that the base buffer does not hold);
        ``c_contiguous``, ``f_contiguous``, ``writeable``, ``aligned`` (to the
        dtype only), ``overlap`` (True, False, or None where not decided),
        ``permutation`` (axes for ``transpose`` that make it C-contiguous, or
        None) and ``transposed_by`` (its inverse: the ``transpose`` that made this
        view from a C-order array), ``wrong`` (elements that a raw copy takes from
        a wrong place, None where not counted).
    """
    address = address_of(array)
    low, high = layout.byte_range(array.shape, array.strides, array.itemsize)
    base = find_base(array)
    end = base.address + base.nbytes
    inside = max(0, min(address + high, end) - max(address + low, base.address))
    order = layout.permutation(array.shape, array.strides, array.itemsize)
    try:
        wrong: int | None = wrong_elements(array)[0]
    except MemoryError:
        wrong = None
    return {
        "name": name,
        "kind": "tensor",
        "shape": list(array.shape),
        "dtype": dtype_name(array.dtype),
        "itemsize": array.itemsize,
        "strides": list(array.strides),
        "nbytes": array.nbytes,
        "size": array.size,
        "address": address,
        "low": address + low,
        "high": address + high,
        "base_address": base.address,
        "base_nbytes": base.nbytes,
        "offset": address - base.address,
        "owner": base.owner,
        "outside": high - low - inside,
        "c_contiguous": bool(array.flags.c_contiguous),
        "f_contiguous": bool(array.flags.f_contiguous),
        "writeable": bool(array.flags.writeable),
        "aligned": bool(array.flags.aligned),
        "overlap": layout.overlaps(array.shape, array.strides, array.itemsize),
        "permutation": None if order is None else list(order),
        "transposed_by": None if order is None else [order.index(i) for i in range(len(order))],
        "wrong": wrong,
    }


def wrong_elements(array: Array) -> tuple[int, int]:
    """Count elements that a raw copy takes from a wrong place: ``(wrong, total)``.

    By position: an element is right when its offset from element 0 is the one
    that C order gives it.  For equality of values see :func:`wrong_values`.

    Raises:
        MemoryError: Contrived strides with more than 32 million distinct offsets.
    """
    return layout.misplaced(array.shape, array.strides, array.itemsize)
