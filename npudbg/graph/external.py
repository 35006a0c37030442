"""Tensor data in files of its own: found only inside the model's folder, and whole."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npudbg.graph.files import show
from npudbg.session.errors import UserError
from npudbg.session.text import safe

EXTERNAL = 1  # TensorProto.EXTERNAL
_SIZE_DIGITS = 19


@dataclass(frozen=True, slots=True)
class External:
    """A checked range of a data file: ``nbytes`` from ``offset`` of ``path``."""

    path: Path
    offset: int
    nbytes: int


class Folder:
    """The model's folder: resolves the locations of external data, each file once."""

    def __init__(self, model: Path | None) -> None:
        """Take the model file's path, or None for a model made in memory."""
        self._where = show(model) if model is not None else "model"
        self._parent = model.parent if model is not None else None
        self._sizes: dict[str, tuple[Path, int]] = {}

    def find(self, tensor: Any, nbytes: int) -> External:
        """Return where an external TensorProto's ``nbytes`` lie.

        Raises:
            UserError: The location leaves the folder, the file is not there, or it is
                too short.
        """
        name = safe(tensor.name)
        entries = {e.key: e.value for e in tensor.external_data}
        if not all(isinstance(text, str) for text in entries.values()):
            raise UserError(f"{self._where}: external data of {name!r}: its location is not UTF-8")
        location = entries.get("location", "")
        path, size = self._sizes.get(location) or self._resolve(name, location)
        offset = self._number(name, "offset", entries.get("offset", "0"))
        length = self._number(name, "length", entries.get("length", str(nbytes)))
        if length < nbytes:
            raise UserError(
                f"{self._where}: external data of {name!r} is {length:,} bytes long, but its shape "
                f"and type need {nbytes:,}; export the model again"
            )
        if offset + length > size:
            raise UserError(
                f"{self._where}: external data of {name!r} ends at byte {offset + length:,} of "
                f"{show(path)}, which has {size:,}: {offset + length - size:,} bytes are missing; "
                "copy the whole file again"
            )
        return External(path, offset, nbytes)

    def _resolve(self, name: str, location: str) -> tuple[Path, int]:
        shown = safe(location)
        refused = f"{self._where}: external data of {name!r} at {shown!r} is refused: "
        if self._parent is None:
            raise UserError(f"{refused}a model in memory has no folder; save it to a file first")
        if not location:
            raise UserError(f"{self._where}: external data of {name!r} names no location")
        pure = Path(location)
        if pure.is_absolute() or ".." in pure.parts or "\0" in location:
            raise UserError(f"{refused}it must lie in the model's own folder (no '..', no root)")
        folder = Path(os.path.realpath(self._parent))
        path = Path(os.path.realpath(folder / pure))
        if folder not in path.parents:
            raise UserError(
                f"{refused}a symbolic link leads out of the model's folder; copy the file there"
            )
        try:
            status = path.stat()
        except OSError:
            raise UserError(
                f"{self._where}: external data file {shown!r} (of tensor {name!r}) is not there; "
                "copy it into the model's folder"
            ) from None
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{refused}it is not a regular file")
        self._sizes[location] = path, status.st_size
        return self._sizes[location]

    def _number(self, name: str, key: str, text: str) -> int:
        # isascii: int() would take other scripts' digits and underscores too.
        if not (text.isascii() and text.isdigit() and len(text) <= _SIZE_DIGITS):
            raise UserError(
                f"{self._where}: external data of {name!r} has {key} {safe(text)!r}; "
                "a number of bytes was expected"
            )
        return int(text)


def read(where: External) -> bytes:
    """Return the range's bytes.

    Raises:
        UserError: The file was cut since it was checked.
    """
    try:
        with where.path.open("rb") as file:
            file.seek(where.offset)
            data = file.read(where.nbytes)
    except OSError as error:
        raise UserError(f"{show(where.path)}: cannot be read ({error.strerror})") from None
    if len(data) != where.nbytes:
        raise UserError(
            f"{show(where.path)}: {where.nbytes - len(data):,} bytes are missing; "
            "the file changed while it was in use"
        )
    return data
