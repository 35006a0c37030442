"""The memory under an array: whose it is, where it lies, and its own bytes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .layout import byte_range

Array = npt.NDArray[Any]

MAX_BASE_BYTES = 256 << 20
"""Largest base buffer whose bytes are handed out unless the caller says otherwise."""

_MAX_CHAIN = 64


@dataclass(frozen=True)
class Base:
    """The root buffer that an array is a view of.

    Attributes:
        address: Address of its first byte.
        nbytes: Its size.
        owner: ``self`` when the array owns its memory, else the owner's type.
        keep: Objects that keep the memory alive while this record is held.
    """

    address: int
    nbytes: int
    owner: str
    keep: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def bytes(self) -> memoryview:
        """Return the buffer's bytes, read-only and not copied."""
        if not self.nbytes:
            return memoryview(b"")
        raw = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
        view: Array = np.frombuffer(memoryview(raw).cast("B"), np.uint8)
        view.flags.writeable = False
        kept = view.view(_Kept)
        kept.keep = self.keep
        return memoryview(cast(Any, kept))


class _Kept(np.ndarray[Any, Any]):
    """An ndarray that holds a reference to what owns its memory."""

    keep: tuple[Any, ...]


@dataclass(frozen=True)
class RawCopy:
    """What a driver reads that copies ``nbytes`` from the address of element 0.

    Attributes:
        data: The bytes; those outside the base buffer are 0 here.
        unknown: How many bytes lie outside the base buffer.
        start: First known byte in ``data``.
        stop: One past the last known byte.
    """

    data: bytes
    unknown: int
    start: int
    stop: int


def address_of(array: Array) -> int:
    """Return the address of element 0."""
    return int(array.__array_interface__["data"][0])


def find_base(array: Array) -> Base:
    """Walk ``.base`` to the root owner and return the widest buffer known there.

    For a root that is not an ndarray the buffer protocol is asked (bytes, mmap,
    array.array), then a tensor's storage (``untyped_storage``), else the widest
    ndarray of the chain stands for it.
    """
    arrays, owner = _chain(array)
    if owner is None:
        owner_name = "self" if len(arrays) == 1 else _type_name(arrays[-1])
    else:
        owner_name = _type_name(owner)
        found = _foreign_buffer(owner)
        if found is not None and _covers(found, arrays[-1]):
            return Base(found[0], found[1], owner_name, (owner, found[2]))
    # An owner lies dense between its lowest and its highest byte, whatever its order.
    spans = [_span(a) for a in arrays]
    low, high = max(spans, key=lambda span: span[1] - span[0])
    if owner is None:
        low, high = spans[-1]  # the root owns: views made by as_strided may reach beyond it
    return Base(low, high - low, owner_name, tuple(arrays))


def base_bytes(array: Array, limit: int = MAX_BASE_BYTES) -> memoryview | None:
    """Return the base buffer's own bytes (not copied, read-only).

    Args:
        array: Any array without Python objects.
        limit: Most bytes to hand out.

    Returns:
        The bytes, or None when the buffer is larger than ``limit`` or holds
        references instead of values.
    """
    if array.dtype.hasobject:
        return None
    base = find_base(array)
    return None if base.nbytes > limit else base.bytes()


def raw_from(base: memoryview | bytes, offset: int, nbytes: int) -> RawCopy:
    """Return the raw copy of ``nbytes`` at ``offset`` of a base buffer's bytes."""
    start = min(max(0, -offset), nbytes)
    stop = max(min(nbytes, len(base) - offset), start)
    data = bytearray(nbytes)
    if stop > start:
        data[start:stop] = base[offset + start : offset + stop]
    else:
        start = stop = 0
    return RawCopy(bytes(data), nbytes - (stop - start), start, stop)


def raw_copy(array: Array) -> RawCopy:
    """Return what a raw copy of ``array.nbytes`` from element 0 reads.

    Bytes outside the base buffer are never read; they count as unknown.

    Raises:
        TypeError: The array holds Python objects.
    """
    if array.dtype.hasobject:
        raise TypeError("an array of Python objects has no bytes to copy")
    base = find_base(array)
    return raw_from(base.bytes(), address_of(array) - base.address, array.nbytes)


def wrong_values(array: Array) -> tuple[int, int]:
    """Count elements whose bytes differ after a raw copy: ``(wrong, total)``.

    Elements that a raw copy takes, wholly or in part, from outside the base
    buffer count as wrong: their bytes are not the array's.

    Raises:
        TypeError: The array holds Python objects.
        ValueError: The array itself reaches outside its base buffer (made by
            ``as_strided``): its values must not be read.
    """
    if array.size == 0 or array.itemsize == 0:
        return 0, array.size
    base = find_base(array)
    if not _covers((base.address, base.nbytes, None), array):
        raise ValueError("the array reaches outside its base buffer; its values are not read")
    copy = raw_copy(array)
    packed = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    read = np.frombuffer(copy.data, np.uint8)
    differs = (packed != read).reshape(-1, array.itemsize).any(axis=1)
    first, last = -(-copy.start // array.itemsize), copy.stop // array.itemsize
    differs[:first] = True
    differs[max(last, first) :] = True
    return int(differs.sum()), array.size


def _chain(array: Array) -> tuple[list[Array], Any]:
    """Return the ndarrays from ``array`` to its root, and a root that is none."""
    arrays = [array]
    at: Any = array.base
    for _ in range(_MAX_CHAIN):
        if at is None:
            return arrays, None
        if isinstance(at, np.ndarray):
            arrays.append(at)
            at = at.base
        elif isinstance(at, memoryview):
            at = at.obj if at.obj is not None else b""
            if not isinstance(at, (np.ndarray, memoryview)):
                return arrays, at
        elif type(at).__name__ == "DummyArray":
            # What as_strided puts between a view and the array it was made from.
            at = getattr(at, "base", None)
        else:
            return arrays, at
    return arrays, None


def _span(array: Array) -> tuple[int, int]:
    low, high = byte_range(array.shape, array.strides, array.itemsize)
    address = address_of(array)
    return address + low, address + high


def _covers(found: tuple[int, int, Any], array: Array) -> bool:
    low, high = _span(array)
    return found[0] <= low and high <= found[0] + found[1]


def _foreign_buffer(owner: Any) -> tuple[int, int, Any] | None:
    """Return address, size and a keep-alive of a root that is not an ndarray."""
    try:
        view = np.frombuffer(owner, np.uint8)
        return address_of(view), view.nbytes, view
    except Exception:  # no buffer protocol, not contiguous, or empty
        pass
    try:
        storage = owner.untyped_storage()
        return int(storage.data_ptr()), int(storage.nbytes()), storage
    except Exception:  # not a tensor library's object either
        return None


def _type_name(thing: Any) -> str:
    kind = type(thing)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
