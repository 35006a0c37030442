"""A device that takes no command: it is not there, or a reset did not bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudbg.device.faults.spec import Fault
from npudbg.device.stopping import StoppedError

if TYPE_CHECKING:
    from npudbg.device.machine import Machine

MISSING = "missing-device"
LOST = "no-recovery"
RETRIES = 3


def strike(machine: Machine, seq: int) -> None:
    """Stop at the first command of the device, if the device is said to be missing.

    Raises:
        StoppedError: It is: the command was queued and never taken.
    """
    fault = machine.touch.take(MISSING)
    if fault is None:
        return
    machine.retries = fault.int("retries", RETRIES)
    machine.issuer.never_taken(seq)
    raise StoppedError("hung", seq, -1, "nothing took the first command: no device is there")


def lose(machine: Machine, fault: Fault, first: int) -> None:
    """A kernel hangs for good: the driver will reset, submit its job again, and be ignored.

    Args:
        machine: The device.
        fault: What was asked for.
        first: First command of the job.
    """
    machine.retries, machine.resubmitted = fault.int("retries", RETRIES), first


def wait_in_vain(machine: Machine, cycles: int) -> None:
    """Let the host wait for a job that does not end, and try again as often as it does."""
    machine.host.never_told(cycles)
    for _ in range(machine.retries):
        if machine.resubmitted >= 0:
            machine.issuer.again(machine.resubmitted)
        machine.host.never_told(cycles)
