"""DMA descriptors of recorded transfers: a function of the record and the profile alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npudbg.device.timing import TransferCycles, transfer_cycles
from npudbg.device.transfer import Shape, region_shape
from npudbg.session.commands import MAX_BOX_RANK, Kind, Space
from npudbg.session.dtypes import NON_TENSOR, numpy_dtype
from npudbg.session.reader import Session
from npudbg.targets.profile import Target

_MOVES = (int(Kind.DMA_LOAD), int(Kind.DMA_STORE))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What the engine is handed for one transfer (for each part of it, if there are several).

    Attributes:
        shape: Run, repetitions and pitches, on the strided side (DDR).
        element: Bytes an element.
        address: First byte on the strided side.
        length: Bytes that one descriptor moves.
        field: ``length`` as the register holds it: modulo two to the bits of the field.
        bits: Of the length field; None where the profile does not say.
        bursts: Issued for the whole transfer, less those cut in two.
        splits: Bursts that an address boundary cuts in two.
        cycles: Of the transfer alone on its channel, by cause.
        took: Cycles in the record.
    """

    shape: Shape
    element: int
    address: int
    length: int
    field: int
    bits: int | None
    bursts: int
    splits: int
    cycles: TransferCycles
    took: int

    @property
    def truncated(self) -> bool:
        """Whether the length does not fit its field."""
        return self.field != self.length


def descriptor_of(session: Session, row: Any, target: Target) -> Descriptor | None:
    """Return the descriptor of a transfer; None for any other command or damaged row.

    Args:
        session: The record.
        row: A row of :data:`~npudbg.session.commands.COMMAND`.
        target: The profile that it ran on.
    """
    number = int(row["tensor"])
    if int(row["kind"]) not in _MOVES or not 0 <= number < len(session.tensors):
        return None
    tensor = session.tensors[number]
    if tensor.dtype in NON_TENSOR:
        return None
    itemsize = numpy_dtype(tensor.dtype).itemsize
    base = tensor.address or 0
    if int(row["src_space"]) == Space.HOST:
        # The driver's copy of a whole buffer is linear on both sides.
        shape = Shape(0, max(int(row["nbytes"]), 0), (), ())
        base = int(row["src"])
    else:
        dims = tensor.shape
        box = tuple((int(a), int(b)) for a, b in row["box"][: min(len(dims), MAX_BOX_RANK)])
        box += tuple((0, n) for n in dims[len(box) :])
        if any(not 0 <= a <= b <= n for (a, b), n in zip(box, dims, strict=True)):
            return None
        shape = region_shape(tuple(dims), box, itemsize)
    length = shape.nbytes // shape.descriptors
    bits = target.dma.length_bits
    return Descriptor(
        shape=shape,
        element=itemsize,
        address=base + shape.offset,
        length=length,
        field=length if bits is None else length & ((1 << bits) - 1),
        bits=bits,
        bursts=shape.bursts(target.dma),
        splits=shape.splits(target.dma, base),
        cycles=transfer_cycles(target, shape, base),
        took=int(row["end"]) - int(row["start"]),
    )
