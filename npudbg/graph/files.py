"""Opening a user's file: only a regular one, read once, with clear refusals."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from npudbg.session.errors import UserError
from npudbg.session.text import safe


def show(path: Path | str) -> str:
    """Return a path that is safe to print."""
    return safe(path, 200)


def open_regular(path: Path, expected: str) -> tuple[BinaryIO, int]:
    """Open a regular file for reading; returns it with its size in bytes.

    Args:
        path: The file.  A symbolic link is followed.
        expected: What was expected, for the message (``a .onnx file``).

    Raises:
        UserError: Not there, not regular (a pipe would hang), not readable.
    """
    where = show(path)
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to returns at once.
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UserError(f"{where}: no such file; {expected} was expected") from None
    except PermissionError:
        raise UserError(f"{where}: permission denied; make the file readable") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{where}: cannot be opened ({safe(reason)})") from None
    try:
        status = os.fstat(number)
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            raise UserError(f"{where}: a directory; {expected} was expected")
        if not stat.S_ISREG(mode):
            kind = "pipe" if stat.S_ISFIFO(mode) else "device or socket"
            raise UserError(f"{where}: a {kind}, not a regular file; save it to a file first")
        return os.fdopen(number, "rb"), status.st_size
    except UserError:
        os.close(number)
        raise
