"""Commands of a session by how they ended, and where each was to go."""

from __future__ import annotations

from typing import Any

from npudbg.device.emit import span
from npudbg.session import rerun
from npudbg.session.commands import MAX_BOX_RANK, Kind
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.reader import Session
from npudbg.session.records import Origin, TensorRecord
from npudbg.session.text import safe

CHUNK = 1 << 16
"""Commands that are looked at in one go."""


def with_status(session: Session, status: int) -> list[Any]:
    """Return all commands that ended in a given way."""
    found: list[Any] = []
    for low in range(0, session.n_commands, CHUNK):
        rows = session.commands(low, low + CHUNK)
        found.extend(rows[rows["status"] == status])
    return found


def origin_of(session: Session) -> Origin:
    """Return where a session's commands come from."""
    return "simulated" if session.meta.backend == "simulated" else "imported"


def tensor_of(session: Session, row: Any) -> TensorRecord | None:
    """Return the tensor that a command moves or makes (a damaged number gives None)."""
    number = int(row["tensor"])
    return session.tensors[number] if 0 <= number < len(session.tensors) else None


def name_of(session: Session, row: Any) -> str:
    """Return that tensor's name, fit to be shown."""
    tensor = tensor_of(session, row)
    return "-" if tensor is None else safe(tensor.name)


def device_address(row: Any) -> int:
    """Return the address in device memory of a LOAD or a STORE."""
    return int(row["src"] if row["kind"] == Kind.DMA_LOAD else row["dst"])


def meant_address(session: Session, row: Any) -> int | None:
    """Return where a LOAD or STORE was to go: its region's place in its tensor's buffer.

    None where that is not known: no tensor, no address, more axes than a row holds.
    """
    tensor = tensor_of(session, row)
    if tensor is None or tensor.address is None or len(tensor.shape) > MAX_BOX_RANK:
        return None
    try:
        itemsize = numpy_dtype(tensor.dtype).itemsize
    except TypeError:
        return None
    box = tuple((int(a), int(b)) for a, b in row["box"][: len(tensor.shape)])
    return tensor.address + span(tensor.shape, box, itemsize)[0]


def lost_bits(address: int, meant: int) -> int | None:
    """Return the number of low bits of ``meant`` that an address kept, if it kept those only.

    It is the most that an address field can be wide which cut it; None where the two
    are equal or differ in another way.
    """
    lost = meant ^ address
    kept = (lost & -lost).bit_length() - 1
    return kept if lost and meant & ((1 << kept) - 1) == address else None


def poked_by_hand(session: Session, space: str, address: int, before: int) -> int | None:
    """Return the command after which the user had an address changed, if it was the user.

    Args:
        session: The run.
        space: ``sram`` or ``ddr``.
        address: The byte.
        before: The command that found it changed.
    """
    way = rerun.read(session)
    return max(
        (
            p.after
            for p in (way.pokes if way is not None else ())
            if p.space == space and p.after < before and 0 <= address - p.address < len(p.data)
        ),
        default=None,
    )


OWN_POKE = (
    "these bytes were set for this run: `set clear` in the debugger goes back to the one without"
)
"""What mends memory that the user changed."""
