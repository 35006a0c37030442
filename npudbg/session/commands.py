"""Command and access rows: what the device did, one fixed-width row each.

A run can hold millions of commands, so a command is a row of a NumPy
structured array, never a Python object.  Two streams exist:

* commands (:data:`COMMAND`): what was issued, in order of ``seq``;
* accesses (:data:`ACCESS`): which memory a command *read*, one row an operand.
  What a command wrote is in the command itself (``dst``, ``nbytes``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_BOX_RANK = 6
"""A tile's box names the leading six axes; further axes are always whole."""


class Kind(IntEnum):
    """Kinds of command."""

    DMA_LOAD = 0
    KERNEL = 1
    DMA_STORE = 2
    FLUSH = 3
    INVALIDATE = 4
    WAIT = 5
    HOST = 6
    CONFIG = 7
    """Register or descriptor set-up (machines that decode a real stream)."""


class Space(IntEnum):
    """Address spaces."""

    NONE = 0
    HOST = 1
    DDR = 2
    SRAM = 3


class Status(IntEnum):
    """How a command ended."""

    OK = 0
    HUNG = 1
    """Started, never completed."""
    FAULT = 2
    """Refused by the hardware (IOMMU, alignment, bus)."""
    TOUCHED = 3
    """Completed, but moved or made bytes that an injection had changed."""
    NOT_STARTED = 4


COMMAND = np.dtype(
    [
        ("seq", "<i8"),
        ("start", "<i8"),  # cycle of the device clock
        ("end", "<i8"),
        ("src", "<i8"),
        ("dst", "<i8"),
        ("nbytes", "<i8"),  # bytes written at dst (FLUSH/INVALIDATE: range length)
        ("node", "<i4"),  # node index, -1 = none
        ("tensor", "<i4"),  # tensor moved or made, -1 = none
        ("tile", "<i4"),  # tile number within the node's group, -1 = none
        ("kind", "u1"),
        ("engine", "u1"),  # index into Meta.engines
        ("status", "u1"),
        ("src_space", "u1"),
        ("dst_space", "u1"),
        ("flags", "u1"),
        ("reserved", "<u2"),
        ("box", "<i4", (MAX_BOX_RANK, 2)),  # start and stop per leading axis of `tensor`
    ]
)

ACCESS = np.dtype(
    [
        ("seq", "<i8"),  # the command that reads
        ("addr", "<i8"),
        ("nbytes", "<i8"),
        ("tensor", "<i4"),
        ("operand", "<i2"),  # operand number of the node, -1 = none
        ("space", "u1"),
        ("flags", "u1"),
        ("by", "<i8"),  # seq of the command that put the bytes there, -1 = initial
    ]
)

Rows = npt.NDArray[np.void]


def kind_name(kind: int) -> str:
    """Return the command kind's name, or ``kind 9`` for one not known."""
    try:
        return Kind(kind).name
    except ValueError:
        return f"kind {kind}"


def space_name(space: int) -> str:
    """Return ``host``, ``ddr``, ``sram`` or ``-``."""
    try:
        return "-" if space == Space.NONE else Space(space).name.lower()
    except ValueError:
        return f"space {space}"


def full_box(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the box that covers the whole of ``shape`` (leading six axes)."""
    return tuple((0, n) for n in shape[:MAX_BOX_RANK])


def box_slices(row: Any, rank: int) -> tuple[slice, ...]:
    """Return the slices of a command row's box for a tensor of ``rank`` axes."""
    box = row["box"]
    return tuple(slice(int(a), int(b)) for a, b in box[: min(rank, MAX_BOX_RANK)])
