"""Raw element bytes: a file that says nothing of itself, ``FILE:DTYPE:SHAPE``."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from npudbg.graph.files import open_regular, show
from npudbg.graph.ir import Array
from npudbg.session.dtypes import EXTENSION, numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.text import safe

EXAMPLE = "frame.bin:float32:1x3x224x224"
_SHAPE = re.compile(r"\d{1,18}(?:[x,]\d{1,18}){0,63}", re.ASCII)
_NAMES = frozenset(
    [
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    ]
)


def parse_dtype(text: str) -> np.dtype[Any] | None:
    """Return the element type of a name (``float32``, ``<f4``, ``bfloat16``), or None."""
    if text in _NAMES or text in EXTENSION or re.fullmatch(r"[<>|][biufc][0-9]{1,2}", text):
        try:
            return numpy_dtype(text)
        except TypeError:
            return None
    return None


def parse_shape(text: str) -> tuple[int, ...] | None:
    """Return the shape of ``1x3x224x224`` (``scalar`` for none), or None."""
    if text == "scalar":
        return ()
    if not _SHAPE.fullmatch(text):
        return None
    return tuple(int(n) for n in re.split("[x,]", text))


def read(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Read a file that must hold exactly the elements of ``shape``.

    Raises:
        UserError: Its size is another.
    """
    where = show(path)
    file, size = open_regular(path, "a raw tensor")
    count = math.prod(shape)
    need = count * dtype.itemsize
    with file:
        if size != need:
            short = f"{need - size:,} bytes are missing" if size < need else "the file is longer"
            raise UserError(
                f"{where}: {safe('x'.join(map(str, shape)) or 'scalar')} of {dtype.name} needs "
                f"{need:,} bytes and the file has {size:,}: {short}; correct the shape or the type"
            )
        try:
            array = np.fromfile(file, dtype, count)
            return array.reshape(shape)
        except (OSError, ValueError, MemoryError) as error:
            raise UserError(f"{where}: cannot be read ({safe(error)})") from None
