"""What a kernel is: which region of each operand a tile of the output needs.

A kernel does not compute; arithmetic is the node's own, run on the bytes that
the tile's operands hold in SRAM.  A kernel says, for a box of the output, which
box of every operand must be in SRAM, along which axes the output may be cut,
and how many cycles a tile takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy.typing as npt

Box = tuple[tuple[int, int], ...]
"""Start and stop per axis."""


def whole(shape: Sequence[int]) -> Box:
    """Return the box that covers ``shape``."""
    return tuple((0, n) for n in shape)


def extent(box: Box) -> tuple[int, ...]:
    """Return the shape of a box."""
    return tuple(stop - start for start, stop in box)


def volume(box: Box) -> int:
    """Return the number of elements of a box."""
    return prod(stop - start for start, stop in box)


def slices(box: Box) -> tuple[slice, ...]:
    """Return a box as an index."""
    return tuple(slice(start, stop) for start, stop in box)


@dataclass(slots=True)
class Op:
    """A node with all that is known when it is about to run.

    Attributes:
        op_type: ONNX operator.
        attributes: Python values by name.
        operands: Shape per operand, None for an omitted one.
        itemsizes: Bytes per element per operand.
        outputs: Shape per output, None for an omitted one.
        opset: Version of the operator set.
        static: Values of operands that are known at compile time, by position.
    """

    op_type: str
    attributes: Mapping[str, Any]
    operands: tuple[tuple[int, ...] | None, ...]
    outputs: tuple[tuple[int, ...] | None, ...]
    opset: int = 0
    static: Mapping[int, npt.NDArray[Any]] = field(default_factory=dict)

    def ints(self, name: str, default: Sequence[int]) -> list[int]:
        """Return a list-of-int attribute."""
        value = self.attributes.get(name)
        return [int(v) for v in value] if value is not None else list(default)

    def int(self, name: str, default: int) -> int:
        """Return an int attribute."""
        return int(self.attributes.get(name, default))

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


Boxes = Callable[[Op, Box], "list[Box | None] | None"]
"""Operand boxes for an output box; None as a whole = this case cannot be tiled."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of the device.

    Attributes:
        name: What listings show.
        engine: ``mac`` or ``vec``.
        boxes: Operand regions for an output region.  A None entry means that the
            operand is not read from memory (a parameter in the descriptor) or
            that this tile does not touch it.
        axes: Output axes along which a tile may be cut, first choice first.
        macs: Multiply-accumulates of a box, for a ``mac`` kernel.
        fusible: Element-wise: may run on a tile that is already in SRAM.
        view: Moves nothing; the output is the operand's bytes under another shape.
        cost: Vector operations an element.
    """

    name: str
    engine: str
    boxes: Boxes
    axes: Callable[[Op], Sequence[int]]
    macs: Callable[[Op, Box], int] | None = None
    fusible: bool = False
    view: bool = False
    cost: int = 1


def all_whole(op: Op, box: Box) -> list[Box | None]:
    """Every operand whole: the kernel is not cut."""
    return [None if s is None else whole(s) for s in op.operands]


def no_axes(op: Op) -> Sequence[int]:
    """Nothing may be cut."""
    return ()


def leading_axes(op: Op) -> Sequence[int]:
    """Every output axis may be cut, outermost first."""
    shape = op.outputs[0]
    return range(len(shape)) if shape is not None else ()


def broadcast_box(shape: Sequence[int], out_shape: Sequence[int], box: Box) -> Box:
    """Return the region of an operand that broadcasts to ``box`` of the output."""
    skip = len(out_shape) - len(shape)
    return tuple(
        box[skip + i] if n == out_shape[skip + i] else (0, min(n, 1)) for i, n in enumerate(shape)
    )
