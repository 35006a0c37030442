"""Whether what a plugin handed over is what its hook promises."""

from __future__ import annotations

import re
from typing import Any

from npudbg.layers.catalogue import Entry
from npudbg.layers.findings import Rule
from npudbg.plugins.announce import NAME
from npudbg.plugins.api import Panel, Verb

_CODE = re.compile(r"[A-Z][0-9]{3,4}")


class Rubbish(Exception):  # noqa: N818 (it is not an error of npudbg)
    """A plugin's return value is not what its hook promises."""


def check_entry(item: Any, hook: str) -> Entry:
    """Return a catalogue entry as it is, or raise :class:`Rubbish`."""
    _expect(item, Entry, hook)
    if not _CODE.fullmatch(item.code):
        raise Rubbish(
            f"{hook}: {item.code!r} is not a finding code (a letter, three or four digits)"
        )
    if not isinstance(item.layer, int) or not 0 <= item.layer <= 4:
        raise Rubbish(f"{hook}: {item.code} has layer {item.layer!r}, not 0-4")
    if item.severity not in ("error", "warning", "info"):
        raise Rubbish(f"{hook}: {item.code} has severity {item.severity!r}")
    return item  # type: ignore[no-any-return]


def check_rule(item: Any, hook: str) -> Rule:
    """Return a rule as it is, or raise :class:`Rubbish`."""
    _expect(item, Rule, hook)
    if not callable(item.judge):
        raise Rubbish(f"{hook}: a rule's judge cannot be called")
    if not hasattr(item.judge, "__name__"):
        raise Rubbish(f"{hook}: a rule's judge must be a function, it has no name")
    if isinstance(item.codes, str) or not all(isinstance(code, str) for code in item.codes):
        raise Rubbish(f"{hook}: rule {item.name} must give a tuple of codes")
    return item  # type: ignore[no-any-return]


def check_verb(item: Any, hook: str) -> Verb:
    """Return a verb as it is, or raise :class:`Rubbish`."""
    _expect(item, Verb, hook)
    _name(item.name, hook)
    if not callable(item.prepare_parser) or not callable(item.run):
        raise Rubbish(f"{hook}: verb {item.name} has a prepare_parser or run that is no function")
    return item  # type: ignore[no-any-return]


def check_panel(item: Any, hook: str) -> Panel:
    """Return a panel as it is, or raise :class:`Rubbish`."""
    _expect(item, Panel, hook)
    _name(item.id, hook)
    if not callable(item.lines) or not callable(item.on_key):
        raise Rubbish(f"{hook}: panel {item.id} has lines or on_key that is no function")
    return item  # type: ignore[no-any-return]


def _expect(item: Any, kind: type, hook: str) -> None:
    if not isinstance(item, kind):
        raise Rubbish(f"{hook} returned a {type(item).__name__}, not a {kind.__name__}")


def _name(name: Any, hook: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Rubbish(f"{hook}: {name!r} is not a name (a-z, 0-9 and hyphens)")
