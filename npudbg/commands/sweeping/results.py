"""Results of a sweep in a file: a line is added the moment an input is done.

JSON lines: the first says of which sweep, each other one is an input's row.  A line
that was cut by a kill is dropped when the sweep goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

FILE = "results.jsonl"
_FORMAT = "npudbg-sweep/1"
_MAX_BYTES = 1 << 30
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "input": str, "size": int, "mtime_ns": int, "status": str, "layer": (int, type(None)),
    "code": str, "subject": str, "kind": str, "message": str,
}  # fmt: skip


class Results:
    """The rows of a sweep.

    Attributes:
        rows: By input name, as far as they are still true (the file has not changed).
    """

    def __init__(self, folder: Path | None, sweep: str) -> None:
        """Open the folder's results, or start new ones; without a folder they are not kept.

        Args:
            folder: Where ``results.jsonl`` is.
            sweep: Digest of model and options.

        Raises:
            UserError: The folder holds another sweep's results, or damaged ones.
        """
        self.rows: dict[str, dict[str, Any]] = {}
        self._file = None
        if folder is None:
            return
        path = folder / FILE
        whole = self._read(path, sweep) if path.exists() else 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.ftruncate(self._file, whole)
        if not whole:
            self._append({"format": _FORMAT, "sweep": sweep})

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def known(self, path: Path) -> bool:
        """Whether an input's row is there and its file the same as then."""
        row = self.rows.get(path.name)
        if row is not None and {**row, **identity(path)} == row:
            return True
        self.rows.pop(path.name, None)
        return False

    def add(self, row: dict[str, Any]) -> None:
        """Add a row; it is on disk when this returns."""
        self.rows[row["input"]] = row
        self._append(row)

    def _append(self, document: Mapping[str, Any]) -> None:
        if self._file is not None:
            os.write(self._file, json.dumps(document).encode() + b"\n")
            os.fdatasync(self._file)

    def _read(self, path: Path, sweep: str) -> int:
        """Read the rows; returns the length of the lines that are whole."""
        if path.stat().st_size > _MAX_BYTES:
            raise _damaged(path)
        data = path.read_bytes()
        data = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(data.splitlines()):
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                raise _damaged(path) from None
            if not isinstance(document, dict):
                raise _damaged(path)
            if number == 0:
                if document.get("format") != _FORMAT:
                    raise _damaged(path)
                if document.get("sweep") != sweep:
                    raise UserError(
                        f"--out {safe(path.parent)}: holds the results of another model or set of "
                        "options; choose an empty folder, or remove it"
                    )
            elif all(isinstance(document.get(k), t) for k, t in _FIELDS.items()):
                self.rows[document["input"]] = document
            else:
                raise _damaged(path)
        return len(data)


def identity(path: Path) -> dict[str, int]:
    """Return what tells that a file has changed."""
    found = path.stat()
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}


def _damaged(path: Path) -> UserError:
    return UserError(
        f"{safe(path)}: not the results of a sweep, or damaged ones; remove it to start anew"
    )
