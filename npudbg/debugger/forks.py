"""Changing the past: what the debugger asks of whoever can run the device again.

The debugger only reads a record.  The command that opens it may hand over a
*forker*, which does the recorded run again with changes, into a session of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from npudbg.session.lines import Line
from npudbg.session.rerun import Changes


@dataclass(frozen=True, slots=True)
class Forked:
    """A run done again.

    Attributes:
        path: Its session.
        lines: What is different in it.
    """

    path: Path
    lines: tuple[Line, ...] = ()


Forker = Callable[[Changes], Forked]
"""Does the session's run again with these changes.

Raises:
    UserError: It cannot be done again, or a change does not fit it.
"""
