"""Target profiles from TOML: the bundled ones by name, a user's own by path.

A profile is untrusted input like any other file: bounded in size, checked in
form and in meaning, and refused with one line that names the file, the key and
what was expected.
"""

from __future__ import annotations

import difflib
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe
from npudbg.targets.convert import to_target
from npudbg.targets.profile import Target
from npudbg.targets.validate import validate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 256 << 10
"""Largest profile that is read."""

_MAX_DOTS = 200


@cache
def names() -> tuple[str, ...]:
    """Return the names of the bundled profiles, sorted."""
    return tuple(sorted(f.name[:-5] for f in _folder().iterdir() if f.name.endswith(".toml")))


def load(name_or_path: str) -> Target:
    """Return a profile, validated.

    Args:
        name_or_path: A bundled profile's name (in any case), or a TOML file.

    Raises:
        UserError: There is no such profile, or it is not a valid one.
    """
    return load_toml_text(toml_text(name_or_path), name_or_path)


def toml_text(name_or_path: str) -> str:
    """Return a profile's TOML text as it stands; see :func:`load`.

    Raises:
        UserError: There is no such profile, or its file cannot be read.
    """
    wanted = name_or_path.lower()
    if wanted in names():
        return str(_folder().joinpath(f"{wanted}.toml").read_text(encoding="utf-8"))
    return _decoded(_read(Path(name_or_path), name_or_path), name_or_path)


def load_toml_text(text: str, where: str) -> Target:
    """Return the profile that a TOML text describes.

    Args:
        text: The text; a session keeps it, so that a replay needs no file.
        where: What an error calls it: a name, a path, a session.

    Raises:
        UserError: Not TOML, an unknown key, a wrong type, or a value that no chip has.
    """
    table = _parse(text, where)
    try:
        target = to_target(table)
        validate(target)
    except ValueError as error:
        raise UserError(f"target {safe(where)}: {safe(error, 400)}") from error
    return target


def _folder() -> Any:
    return resources.files("npudbg.targets").joinpath("profiles")


def _read(path: Path, where: str) -> bytes:
    shown = f"target {safe(where)}"
    try:
        kind = "file" if path.is_file() else "directory" if path.is_dir() else "other"
        there = path.exists()
    except (OSError, ValueError):
        kind, there = "other", False
    if not there:
        raise _unknown(where)
    if kind != "file":
        what = "a directory" if kind == "directory" else "not a regular file"
        raise UserError(f"{shown}: {what}; expected a profile's name or a TOML file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = safe(error.strerror or "an error without a name")
        raise UserError(f"{shown}: cannot be read ({reason})") from error
    if len(data) > MAX_BYTES:
        raise _too_large(where)
    return data


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"target {safe(where)}: byte {error.start} is not UTF-8; expected a profile in TOML"
        ) from error


def _parse(text: str, where: str) -> dict[str, Any]:
    shown = f"target {safe(where)}"
    if len(text) > MAX_BYTES:
        raise _too_large(where)
    for number, line in enumerate(text.split("\n"), 1):
        # The parser needs minutes for a key of a hundred thousand parts.
        if line.count(".") > _MAX_DOTS:
            raise UserError(
                f"{shown}: line {number}: more than {_MAX_DOTS} dots; expected a profile in TOML"
            )
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UserError(f"{shown}: nested too deep; expected a profile in TOML") from error
    except ValueError as error:
        # Also what int() says of a number of thousands of digits.
        raise UserError(f"{shown}: not TOML: {safe(error, 160)}") from error


def _unknown(name: str) -> UserError:
    known = names()
    near = difflib.get_close_matches(name.lower()[:64], known, 1, 0.5)
    hint = f"; did you mean {near[0]}?" if near else ";"
    return UserError(
        f"target {safe(name)}: no such profile and no such file{hint} "
        f"known: {', '.join(known)}, or give a .toml file"
    )


def _too_large(where: str) -> UserError:
    return UserError(
        f"target {safe(where)}: larger than {MAX_BYTES >> 10} KB; expected a profile in TOML"
    )
