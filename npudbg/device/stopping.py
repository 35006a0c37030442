"""How a run ends before its last command."""

from __future__ import annotations


class StoppedError(Exception):
    """The device stopped at a command: it hung, or an address was refused."""

    def __init__(self, status: str, seq: int, node: int, message: str) -> None:
        """Remember where."""
        super().__init__(message)
        self.status, self.seq, self.node = status, seq, node
