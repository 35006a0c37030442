"""Where a transfer really goes: mappings that the driver got wrong, addresses cut short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from npudbg.device.emit import Action, span
from npudbg.device.faults.spec import Fault
from npudbg.device.kernels.base import slices
from npudbg.device.memory import Bytes
from npudbg.device.poking import held_bytes, overwrite
from npudbg.device.stopping import StoppedError
from npudbg.session.commands import Kind, Status
from npudbg.session.errors import UserError
from npudbg.session.refusals import Refusal

if TYPE_CHECKING:
    from npudbg.device.machine import Machine


def issue(machine: Machine, action: Action, fault: Fault | None) -> tuple[int, Refusal | None]:
    """Let the engine issue a transfer's address in device memory.

    Returns:
        How far it lies from the one that was meant, in bytes; and what the IOMMU says if
        it refuses it.

    Raises:
        UserError: The fault cannot happen on this target, or changes nothing.
    """
    meant, length = _range(machine, action)
    address, write = meant, action.kind == Kind.DMA_STORE
    if fault is not None and fault.kind == "truncated-address":
        bits = fault.int("bits", meant.bit_length() - 1)
        address = meant & ((1 << bits) - 1)
        if address == meant:
            raise UserError(
                f"--fault truncated-address: {meant:#x} fits in {bits} bits; give fewer with bits=…"
            )
        machine.issuer.redirect(action.seq, address - meant, write=write)
    elif fault is not None and fault.kind == "iommu-fault":
        _mismap(machine, action, fault)
    refused = machine.iommu.refusal(address, length, write=write)
    if refused is None:
        return address - meant, None
    machine.touch.unmet = None
    return address - meant, Refusal(action.seq, *refused, machine.iommu.page_bytes)


def check_mask(machine: Machine, actions: Sequence[Action], node: int) -> None:
    """Stop at the first transfer of a group whose address the engine has no wires for.

    Raises:
        StoppedError: There is one.
    """
    if machine.iommu.beyond_mask(0, machine.ddr_end) is None:
        return
    for action in actions:
        if action.kind == Kind.KERNEL:
            continue
        first = machine.iommu.beyond_mask(*_range(machine, action))
        if first is not None:
            page = machine.iommu.page_bytes
            refuse(machine, Refusal(action.seq, first, "beyond-mask", page), node)


def refuse(machine: Machine, refused: Refusal, node: int) -> NoReturn:
    """Stop the device at a transfer whose address was refused.

    Raises:
        StoppedError: Always.
    """
    machine.refusals.append(refused)
    machine.issuer.set_status(refused.seq, Status.FAULT)
    raise StoppedError("fault", refused.seq, node, f"address {refused.address:#x} was refused")


def ended(machine: Machine, action: Action, fault: Fault | None) -> None:
    """A transfer has ended; a driver that thinks the job is done unmaps its buffer."""
    if fault is not None and fault.kind == "iommu-fault" and fault.names.get("how") == "early":
        value = machine.values[action.region.tensor]
        machine.iommu.drop(value.address, value.array.nbytes)
        machine.touch.unmet = fault


def load_from(machine: Machine, action: Action, away: int, goals: Mapping[str, Any]) -> Bytes:
    """Return what a LOAD finds ``away`` bytes from the region that it was to move."""
    address, length = _range(machine, action)
    there = held_bytes(machine, address + away, length, goals)
    found: Bytes = there[_places(machine, action)]
    return found


def store_at(
    machine: Machine, action: Action, away: int, data: Bytes, goals: Mapping[str, Any]
) -> None:
    """Let a STORE write its packed bytes ``away`` bytes from the region they belong to."""
    address, length = _range(machine, action)
    there = held_bytes(machine, address + away, length, goals)
    there[_places(machine, action)] = data
    overwrite(machine, address + away, there, goals)
    machine.writer.put_payload(action.seq, data.tobytes())


def _mismap(machine: Machine, action: Action, fault: Fault) -> None:
    iommu, value = machine.iommu, machine.values[action.region.tensor]
    if not iommu.present:
        raise UserError(
            f"--fault iommu-fault: {machine.target.name} has no IOMMU, so nothing refuses an "
            "address there; truncated-address shows what happens instead"
        )
    how = fault.names.get("how", "unmapped")
    if how == "unmapped":
        iommu.drop(value.address, value.array.nbytes)
    elif how == "read-only":
        iommu.protect(value.address, value.array.nbytes)


def _range(machine: Machine, action: Action) -> tuple[int, int]:
    """Return address and length of the range of device memory that encloses a region."""
    value, region = machine.values[action.region.tensor], action.region
    offset, length = span(value.array.shape, region.box, value.array.dtype.itemsize)
    return value.address + offset, length


def _places(machine: Machine, action: Action) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return where each byte of a packed region lies in the range that encloses it."""
    array = machine.values[action.region.tensor].array
    every = np.arange(array.nbytes).reshape((*array.shape, array.dtype.itemsize))
    mine = every[slices(action.region.box)].reshape(-1)
    return mine - (mine[0] if mine.size else 0)
