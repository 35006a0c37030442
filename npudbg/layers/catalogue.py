"""The catalogue of findings: what each code means, why, how to confirm, how to mend.

The texts stand in ``texts/*.toml`` so that ``npudbg explain`` needs neither the
rules nor NumPy.  A code never changes its meaning; a retired one stays, marked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib import resources

import msgspec

from npudbg.session.records import Severity

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One code's texts.

    Attributes:
        code: ``H101`` …: H host, I input, T trace, O output, E ELF, G graph, D board.
        name: Short hyphenated name.
        layer: 1-4; 0 for what lies outside the four layers.
        severity: The usual severity; a rule may lower it with its reason.
        title: One line.
        meaning: What was seen.
        why: Why hardware cares.
        confirm: How to confirm it on the board.
        mend: How to mend it.
    """

    code: str
    name: str
    layer: int
    severity: Severity
    title: str
    meaning: str
    why: str
    confirm: str
    mend: str


_registered: dict[str, Entry] = {}


@cache
def _bundled() -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for file in sorted(resources.files(__package__).joinpath("texts").iterdir(), key=str):
        if not file.name.endswith(".toml"):
            continue
        for code, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
            entries[code] = msgspec.convert({"code": code, **table}, Entry)
    return entries


def register(entries: Iterable[Entry]) -> None:
    """Add a plugin's entries.

    Raises:
        ValueError: A code is already taken by another meaning.
    """
    for entry in entries:
        known = _bundled().get(entry.code) or _registered.get(entry.code)
        if known is not None and known != entry:
            raise ValueError(f"finding code {entry.code} is already taken ({known.name})")
        _registered[entry.code] = entry


def entry(code: str) -> Entry | None:
    """Return a code's texts, or None if there is no such code."""
    return _bundled().get(code) or _registered.get(code)


def entries() -> list[Entry]:
    """Return all entries, by layer and code."""
    merged = {**_bundled(), **_registered}
    return sorted(merged.values(), key=lambda e: (e.layer or 9, e.code))
