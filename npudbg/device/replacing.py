"""What-if: an array of the user's takes the place of a tensor of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.errors import UserError
from npudbg.session.text import safe


def replacement(name: str, given: npt.NDArray[Any], own: Any) -> npt.NDArray[Any]:
    """Return ``given`` in the type of the tensor that it replaces, checked against it.

    Args:
        name: The tensor's name.
        given: The user's array.
        own: The tensor's own value.

    Raises:
        UserError: The tensor is none of numbers, or has another shape or kind.
    """
    if not isinstance(own, np.ndarray) or own.dtype.kind in "OSUT":
        raise UserError(f"--set {safe(name)}: not a tensor of numbers; it cannot be replaced")
    if given.shape != own.shape:
        raise UserError(
            f"--set {safe(name)}: the file's shape is {list(given.shape)}, the tensor's "
            f"{list(own.shape)}"
        )
    if given.dtype == own.dtype:
        return given
    if given.dtype.newbyteorder("=") != own.dtype and not (given.dtype.kind == "f" == _kind(own)):
        raise UserError(
            f"--set {safe(name)}: the file holds {given.dtype.name}, the tensor {own.dtype.name}"
        )
    with np.errstate(over="ignore"):
        return given.astype(own.dtype)


def _kind(array: npt.NDArray[Any]) -> str:
    """``f`` for bfloat16 and its kin too."""
    return "f" if array.dtype.name.startswith(("float", "bfloat")) else array.dtype.kind
