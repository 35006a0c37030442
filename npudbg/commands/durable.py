"""Files that survive a kill at any moment, and a folder that one run at a time works in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from npudbg.session.errors import UserError
from npudbg.session.text import safe


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old contents or the new, never a part."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


@contextlib.contextmanager
def work_folder(path: Path, option: str = "--out") -> Iterator[Path]:
    """Make a folder and hold it for this run alone.

    Raises:
        UserError: It cannot be made, or another run works in it.
    """
    import fcntl

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("wb")
    except OSError as error:
        raise UserError(
            f"{option} {safe(path)}: cannot write here ({safe(error.strerror)})"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{option} {safe(path)}: another run of npudbg works in this folder"
            ) from None
        yield path
