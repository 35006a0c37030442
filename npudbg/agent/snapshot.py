"""A value of a call as facts and bytes, whatever the program passed."""

from __future__ import annotations

import ctypes
import reprlib
from typing import Any, cast

import numpy as np

from .describe import describe
from .memory import Array, find_base

WHOLE_BASE = 16 << 20
"""A base buffer up to this size is sent whole, a larger one only around the view."""

_ORT_TYPES = {
    "float": "<f4",
    "double": "<f8",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bool": "|b1",
}

_SHOWN = (list, tuple, dict, str, bytes, int, float, bool, type(None), np.generic)


class Pointed:
    """Memory that a program named by its address alone, or that the runtime owns."""

    def __init__(self, array: Array, owner: str, dtype: str = "") -> None:
        self.array = array
        self.owner = owner
        self.dtype = dtype


def snapshot(name: str, value: Any, limit: int) -> tuple[dict[str, Any], memoryview | None]:
    """Return the facts of one value and the bytes under it.

    Args:
        name: The model's name of the input or output.
        value: ndarray, OrtValue, :class:`Pointed`, list, dict, …
        limit: Most bytes to send for it.

    Returns:
        For a tensor the facts of :func:`~.describe.describe` with ``window``, the
        range of the base buffer (from its first byte) that the bytes are, or
        None when they are not sent.  For anything else ``name``, ``kind``,
        ``type`` and a short ``value``.
    """
    if hasattr(value, "data_ptr") and hasattr(value, "device_name"):
        value = _of_ort_value(value)
    if isinstance(value, Pointed):
        facts, data = _of_array(name, value.array, limit)
        facts["owner"] = value.owner
        facts["dtype"] = value.dtype or facts["dtype"]
        return facts, data
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.kind in "USTMm":
            return _of_text(name, value), None
        return _of_array(name, value, limit)
    kind = type(value)
    shown = reprlib.repr(value) if kind in _SHOWN else f"<{kind.__name__}>"
    return _other(name, kind.__name__.lower(), kind, shown), None


def pointed(device: str, kind: Any, shape: Any, pointer: int, owner: str) -> Pointed | None:
    """Return host memory at an address as an array, or None where it is not on the host."""
    if device.lower() not in ("cpu", "cuda_pinned"):
        return None
    name = _element_name(kind)
    code = _ORT_TYPES.get(name)
    dtype = np.dtype(code) if code else _numpy_type(kind)
    if dtype is None or dtype.hasobject:
        return None
    size = int(np.prod([int(n) for n in shape], dtype=np.int64)) * dtype.itemsize
    if size:
        raw = (ctypes.c_ubyte * size).from_address(int(pointer))
        flat: Array = np.frombuffer(memoryview(raw).cast("B"), np.uint8)
    else:
        flat = np.empty(0, np.uint8)
    array = flat.view(dtype).reshape([int(n) for n in shape])
    return Pointed(array, owner, "bfloat16" if name == "bfloat16" else "")


def _of_ort_value(value: Any) -> Any:
    if not value.is_tensor():
        return f"<OrtValue {value.data_type()}>"
    made = pointed(
        value.device_name(),
        value.data_type(),
        value.shape(),
        value.data_ptr(),
        "onnxruntime.OrtValue",
    )
    return made or f"<OrtValue {value.data_type()} on {value.device_name()}>"


def _of_array(name: str, array: Array, limit: int) -> tuple[dict[str, Any], memoryview | None]:
    facts = describe(array, name)
    facts["window"] = None
    base = find_base(array)
    if facts["outside"]:
        return facts, None  # its own elements may not be readable
    start, stop = 0, base.nbytes
    if stop > WHOLE_BASE:
        # What the view and a raw copy from element 0 can touch.
        start = max(0, facts["low"] - base.address)
        end = max(facts["high"], facts["address"] + facts["nbytes"])
        stop = min(base.nbytes, end - base.address)
    if stop - start > limit:
        return facts, None
    facts["window"] = [start, stop]
    return facts, base.bytes()[start:stop]


def _of_text(name: str, array: Array) -> dict[str, Any]:
    flat = array.reshape(-1)[:4].tolist() if array.size else []
    facts = _other(name, "string", type(array), reprlib.repr(flat))
    facts["shape"] = list(array.shape)
    facts["dtype"] = str(array.dtype.str)
    return facts


def _other(name: str, kind: str, of: type, value: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "type": f"{of.__module__}.{of.__qualname__}"} | {
        "value": value[:200]
    }


def _element_name(kind: Any) -> str:
    text = str(kind)
    return text[7:-1] if text.startswith("tensor(") else ""


def _numpy_type(kind: Any) -> np.dtype[Any] | None:
    try:
        return cast("np.dtype[Any]", np.dtype(kind))
    except TypeError:
        return None
