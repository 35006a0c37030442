"""Element types by name: NumPy's own and the extension types that NPUs use."""

from __future__ import annotations

from typing import Any

import numpy as np

EXTENSION = frozenset(
    {
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "int4",
        "uint4",
        "int2",
        "uint2",
    }
)
NON_TENSOR = frozenset({"sequence", "optional", "map", "string"})


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the record's name of a dtype: ``<f4``, or an extension type's name."""
    return str(dtype.name if dtype.name in EXTENSION else dtype.str)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of that name.

    Raises:
        TypeError: Not a plain element type (object, structured, text …).
    """
    if name in EXTENSION:
        import ml_dtypes

        extension: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extension
    dtype = np.dtype(name)
    if dtype.kind not in "biufc" or dtype.itemsize > 16:
        raise TypeError(f"not an element type: {name!r}")
    return dtype
