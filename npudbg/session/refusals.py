"""Transfers whose address was refused, as a session keeps them."""

from __future__ import annotations

from typing import Literal

import msgspec

from npudbg.session.errors import SessionError
from npudbg.session.reader import Session

KEY = "refusals"
"""Key of the session's extra value that holds a list of :class:`Refusal`."""

Reason = Literal["unmapped", "read-only", "beyond-mask"]


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """What an IOMMU reports of a transfer that it stopped.

    Attributes:
        seq: The command.
        address: First byte that was refused.
        reason: ``unmapped`` (translation fault), ``read-only`` (permission fault) or
            ``beyond-mask`` (more bits than the engine has wires for).
        page_bytes: Size of a page.
    """

    seq: int
    address: int
    reason: Reason
    page_bytes: int


def read(session: Session) -> dict[int, Refusal]:
    """Return the refusals of a run by command.

    Raises:
        SessionError: The list is damaged.
    """
    try:
        found = msgspec.convert(session.extra(KEY) or [], list[Refusal])
    except (msgspec.ValidationError, RecursionError) as error:
        raise SessionError(f"{session.path}: its list of refusals is damaged ({error})") from None
    if any(not (0 <= r.address < 1 << 62 and 0 < r.page_bytes < 1 << 40) for r in found):
        raise SessionError(f"{session.path}: its list of refusals is damaged (an address)")
    return {r.seq: r for r in found}
