"""What goes wrong in the debugger's language: one line, and where in the text."""

from __future__ import annotations

from npudbg.session.errors import UserError


class DebuggerError(UserError):
    """A line that cannot be executed.

    Attributes:
        text: The text that was read, or ``""`` when the place says nothing.
        column: Where in ``text`` the mistake is, from 0.
    """

    def __init__(self, message: str, text: str = "", column: int = 0) -> None:
        """Say what is wrong, and where."""
        super().__init__(message)
        self.text, self.column = text, column


class AbsentError(DebuggerError):
    """A name that has no value at this command (``out`` at a FLUSH): a condition is false there."""
