"""The plugins' verbs and their help lines, without importing a plugin.

``npudbg --help`` must list plugin verbs and stay fast.  Importing
``importlib.metadata`` alone takes longer than all of it may, so the
``entry_points.txt`` files are read here directly; a package that keeps them
elsewhere (a zip) is still found when its verb is used, through
:mod:`npudbg.plugins.loading`.
"""

from __future__ import annotations

import os
import re
import sys

# `typing` takes longer to import than all that is done here; mypy knows the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GROUP = "npudbg.verbs"
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_MAX_BYTES = 256 << 10
_DOCSTRING = re.compile(r"""\A\ufeff?(?:\s|#[^\n]*\n)*[rRuU]?(\"{3}|'{3}|"|')\\?\s*([^\n]*)""")


def verb_names(path: Iterable[str] | None = None) -> dict[str, str]:
    """Return the announced verbs, each with its help line.

    Args:
        path: Directories to search; ``sys.path`` by default.
    """
    places = list(sys.path if path is None else path)
    found: dict[str, str] = {}
    for text in _entry_point_files(places):
        for name, module in _verbs(text):
            if name not in found:
                found[name] = _help(module, places) or f"(plugin {module.partition('.')[0]})"
    return dict(sorted(found.items()))


def _entry_point_files(places: list[str]) -> Iterator[str]:
    for place in places:
        try:
            with os.scandir(place or ".") as entries:
                names = sorted(
                    e.path for e in entries if e.name.endswith((".dist-info", ".egg-info"))
                )
        except OSError:
            continue
        for name in names:
            text = _read(os.path.join(name, "entry_points.txt"))  # noqa: PTH118 (start-up time)
            if text and GROUP in text:
                yield text


def _verbs(text: str) -> Iterator[tuple[str, str]]:
    inside = False
    for raw in text.splitlines():
        row = raw.strip()
        if row.startswith("["):
            inside = row == f"[{GROUP}]"
        elif inside and "=" in row:
            name, _, value = row.partition("=")
            module = value.partition(":")[0].partition("[")[0].strip()
            if NAME.fullmatch(name.strip()) and all(p.isidentifier() for p in module.split(".")):
                yield name.strip(), module


def _help(module: str, places: list[str]) -> str:
    """Return the first line of a module's docstring, read from its source."""
    relative = os.path.join(*module.split("."))  # noqa: PTH118
    for place in [*places, *_editable(places)]:
        for tail in (f"{relative}.py", os.path.join(relative, "__init__.py")):  # noqa: PTH118
            text = _read(os.path.join(place or ".", tail))  # noqa: PTH118
            if text is not None:
                return _first_line(text)
    return ""


def _editable(places: list[str]) -> list[str]:
    # Directories that an editable install adds; site has put them on sys.path
    # already, but a test or a caller may pass a path of its own.
    return [p for p in sys.path if p not in places]


def _first_line(source: str) -> str:
    """Return a docstring's first line, as it stands in the source (escapes are not read)."""
    match = _DOCSTRING.match(source)
    if match is None:
        return ""
    text = match.group(2).partition(match.group(1))[0].rstrip()
    return "".join(c if c.isprintable() else "?" for c in text)[:100]


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
