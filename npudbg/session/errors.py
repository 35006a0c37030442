"""The one error a user may see: a clear line, exit code 2."""

from __future__ import annotations


class UserError(Exception):
    """Wrong usage or unreadable, hostile or unusable input.

    The message is one line for the user: what is wrong, where, what was
    expected and what to do.  The command line prints it and exits with 2.
    """


class SessionError(UserError):
    """A session file that is cut, corrupt, foreign or of a newer version."""


class CancelledError(UserError):
    """A run was stopped before its end, and nothing of it was kept."""
