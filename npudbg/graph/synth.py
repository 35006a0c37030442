"""Inputs made up from the model's contract, the same for the same seed."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from npudbg.graph.ir import Array
from npudbg.graph.types import itemsize
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.records import ValueContract
from npudbg.session.text import safe

MAX_BYTES = 4 << 30
_WORDS = ("", "a", "npu", "edge device", "tensor 3", "naïve")
_INT_STOP = 4


def synthesize(contract: ValueContract, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Make a value that fits an input's contract.

    Floats are standard normal.  uint8 and int8 take their whole range (pixels,
    quantised values).  Wider integers are often indices or lengths and stay in 0 to 3;
    an integer scalar is 1.  Each input has its own stream, named by seed and name.

    Args:
        contract: The input.
        shape: Its bound shape.
        seed: Any non-negative integer.

    Returns:
        An array; for a sequence, a list with one.

    Raises:
        UserError: A kind that cannot be made up, or one too large.
    """
    name = safe(contract.name)
    if contract.kind == "sequence" and contract.dtype not in ("sequence", "map", "optional"):
        return [_tensor(contract, shape, seed, name)]
    if contract.kind not in ("tensor", "optional") or contract.dtype in ("sequence", "map", ""):
        kind = contract.kind if contract.dtype else f"{contract.kind} of unknown type"
        raise UserError(f"input {name!r} is a {kind} and cannot be made up; give it with --input")
    return _tensor(contract, shape, seed, name)


def _tensor(contract: ValueContract, shape: tuple[int, ...], seed: int, name: str) -> Array:
    # An element of a string array is a pointer of 8 bytes.
    nbytes = math.prod(shape) * (itemsize(contract.dtype) or 8)
    if nbytes > MAX_BYTES:
        raise UserError(
            f"input {name!r}: shape {safe(list(shape))} takes {nbytes:,} bytes; at most "
            f"{MAX_BYTES:,} are made up; give smaller --dim values"
        )
    rng = np.random.default_rng([seed, zlib.crc32(contract.name.encode("utf-8", "replace"))])
    try:
        return _values(contract.dtype, shape, rng)
    except MemoryError:
        raise UserError(f"input {name!r}: {nbytes:,} bytes do not fit in memory") from None


def _values(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if dtype == "string":
        words = np.array(_WORDS, dtype=object)
        return np.asarray(words[rng.integers(0, len(_WORDS), shape)], dtype=object).reshape(shape)
    target = numpy_dtype(dtype)
    if target.kind == "b":
        return rng.integers(0, 2, shape, np.uint8).astype(np.bool_)
    if target.kind == "c":
        parts = rng.standard_normal((*shape, 2), np.float32)
        return np.asarray(parts[..., 0] + 1j * parts[..., 1]).astype(target)
    if "int" in target.name:
        if not shape:
            return np.asarray(1).astype(target)
        if target.name in ("uint8", "int8"):
            limits = np.iinfo(target)
            return rng.integers(limits.min, limits.max, shape, target, endpoint=True)
        stop = 2 if target.name in ("int2", "uint2") else _INT_STOP
        return rng.integers(0, stop, shape, np.int64).astype(target)
    if target == np.float64:
        return np.asarray(rng.standard_normal(shape))
    return np.asarray(rng.standard_normal(shape, np.float32)).astype(target, copy=False)
