"""A device that is not there: nothing takes the first command, and the driver tries again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudbg.device.stopping import StoppedError
from npudbg.session.errors import UserError

if TYPE_CHECKING:
    from npudbg.device.machine import Machine

KIND = "missing-device"
RETRIES = 3
MOST = 1000


def strike(machine: Machine, seq: int) -> None:
    """Stop at the first command of the device, if the device is said to be missing.

    Raises:
        StoppedError: It is: the command was queued and never taken.
        UserError: More attempts than a record should hold.
    """
    fault = machine.touch.take(KIND)
    if fault is None:
        return
    retries = fault.int("retries", RETRIES)
    if retries > MOST:
        raise UserError(f"--fault {KIND}: retries={retries} is too many; at most {MOST}")
    machine.issuer.never_taken(seq)
    machine.attempts = 1 + retries
    raise StoppedError("hung", seq, -1, "nothing took the first command: no device is there")
