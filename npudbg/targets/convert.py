"""From parsed TOML to a :class:`~npudbg.targets.profile.Target`, with readable refusals."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from npudbg.targets.fields import TABLES, keys
from npudbg.targets.profile import Target

_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)


def to_target(table: dict[str, Any]) -> Target:
    """Convert a table, without guessing: an integer is no text, a truth value no integer.

    Raises:
        ValueError: ``key: what was expected``.
    """
    _known(table, "")
    for section in TABLES:
        inner = table.get(section)
        if isinstance(inner, dict):
            _known(inner, section)
    try:
        return msgspec.convert(table, Target)
    except msgspec.ValidationError as error:
        raise ValueError(_plain(str(error), table)) from error


def nearest(word: str, known: Sequence[str]) -> str:
    """Return `` (did you mean …?)`` for a word that is close to a known one, or ``""``."""
    near = difflib.get_close_matches(word[:64], known, 1, 0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def _known(table: dict[str, Any], section: str) -> None:
    allowed = keys(section)
    for key in table:
        if key not in allowed:
            path = f"{section}.{key}" if section else key
            raise ValueError(
                f"{path[:80]}: no such key{nearest(key, allowed)}; expected one of "
                f"{', '.join(allowed)}"
            )


def _plain(message: str, table: dict[str, Any]) -> str:
    """Turn msgspec's message about ``$.dma.channels`` into one about ``dma.channels``."""
    match = _PATH.match(message)
    what, path = (match["what"], match["path"]) if match else (message, None)
    what = what.replace("`", "").replace("object", "a table").replace("Object", "the table")
    path = (path or "").replace(".[...]", "").replace("[...]", ".*")
    missing = re.fullmatch(r"the table missing required field (\w+)", what)
    if missing:
        path = f"{path}.{missing[1]}" if path else missing[1]
        what = "missing"
    unknown = re.fullmatch(r"the table contains unknown field (.*)", what, re.DOTALL)
    if unknown:
        path, what = f"{path}.{unknown[1][:40]}", "no such key"
    choices = _choices(path) if what.startswith("Invalid enum value") else ()
    if choices:
        what = f"{what[8:]}; expected one of {', '.join(choices)}"
    return f"{path}: {what[:1].lower()}{what[1:]}" if path else what


def _choices(path: str) -> tuple[str, ...]:
    """Return the allowed values of a field with a closed list of them."""
    section, _, name = path.partition(".")
    if section not in TABLES:
        return ()
    annotation = _hints(section).get(name.partition("[")[0])
    found: list[str] = []
    pending = [annotation]
    while pending:
        for argument in getattr(pending.pop(), "__args__", ()):
            if isinstance(argument, (str, int)):
                found.append(str(argument))
            else:
                pending.append(argument)
    return tuple(found)


def _hints(section: str) -> dict[str, Any]:
    import typing

    from npudbg.targets import profile

    return typing.get_type_hints(getattr(profile, section.capitalize()))
