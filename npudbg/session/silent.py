"""Memory that changed though no command wrote it, as a session keeps it."""

from __future__ import annotations

import msgspec

from npudbg.session.errors import SessionError
from npudbg.session.reader import Session

KEY = "silent"
"""Key of the session's extra value that holds a list of :class:`Silent`."""


class Silent(msgspec.Struct, frozen=True, array_like=True):
    """Bytes that lie in memory from a command on.

    Attributes:
        after: The command right after which they came.
        space: A :class:`~npudbg.session.commands.Space`.
        address: First address.
        data: The bytes.
    """

    after: int
    space: int
    address: int
    data: bytes


def read(session: Session) -> list[Silent]:
    """Return the silent changes of a run, in the order in which they came.

    Raises:
        SessionError: The list is damaged.
    """
    value = session.extra(KEY)
    if value is None:
        return []
    try:
        found = msgspec.convert(value, list[Silent])
    except (msgspec.ValidationError, RecursionError) as error:
        raise SessionError(f"{session.path}: its silent changes are damaged ({error})") from None
    if any(s.address < 0 or s.address >= 1 << 62 for s in found):
        raise SessionError(f"{session.path}: its silent changes are damaged (an address)")
    return sorted(found, key=lambda s: s.after)
