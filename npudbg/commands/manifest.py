"""The manifest: facts of a board's runtime that a user hands over in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

_MAX_BYTES = 256 << 10
_MAX_DEPTH = 16


def read(path: str) -> dict[str, Any]:
    """Return the facts of a JSON (``.json``) or TOML file.

    Raises:
        UserError: The file is missing, too large, no JSON or TOML, or not one table.
    """
    where = f"--manifest {safe(path)}"
    try:
        if not Path(path).is_file():
            raise UserError(f"{where}: no such file; expected JSON or TOML")
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else "unusable name"
        raise UserError(f"{where}: cannot be read ({what})") from None
    if len(data) > _MAX_BYTES:
        raise UserError(f"{where}: larger than {_MAX_BYTES >> 10} KiB, not a manifest")
    kind = "JSON" if path.lower().endswith(".json") else "TOML"
    try:
        text = data.decode("utf-8")
        found = json.loads(text, parse_constant=_refuse) if kind == "JSON" else _toml(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not {kind} ({safe(error, 160)})") from None
    if not isinstance(found, dict) or _depth(found) > _MAX_DEPTH:
        raise UserError(f"{where}: expected one table of facts, at most {_MAX_DEPTH} levels deep")
    return found


def _toml(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= _MAX_DEPTH:
        depth += 1
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
    return depth
