"""``--fault KIND:key=value,…`` parsed and checked."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from npudbg.device.faults.catalogue import KINDS
from npudbg.session.errors import UserError
from npudbg.session.text import safe

_NAMES = frozenset({"tensor", "node", "way", "space", "how"})
_FLOATS = frozenset({"factor"})
_MOST = {"bits": 64, "retries": 1000}
_MOST_WHOLE = 1 << 62
_MOST_FACTOR = {"bank-conflict": 1e6, "clock-drop": 1e6}
"""How many times as long; a damaged scale may be any finite factor."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault to inject.

    Attributes:
        kind: A key of :data:`~npudbg.device.faults.catalogue.KINDS`.
        names: Text values by key (``tensor``, ``node``, ``way``, ``space``, ``how``).
        numbers: Numbers by key.
    """

    kind: str
    names: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    def int(self, key: str, default: int) -> int:
        """Return a number as an int."""
        return int(self.numbers.get(key, default))


def parse(spec: str) -> Fault:
    """Parse one specification, e.g. ``dropped-dma:tensor=conv1,tile=2``.

    A value that holds a comma stands in double quotes.

    Raises:
        UserError: Unknown kind or key, a missing key, a value that is no number.
    """
    name, _, rest = spec.partition(":")
    kind = KINDS.get(name.strip())
    where = f"--fault {safe(spec, 80)}"
    if kind is None:
        near = difflib.get_close_matches(name, KINDS, 1)
        hint = f"did you mean {near[0]}?" if near else "`--fault list` explains each"
        raise UserError(f"{where}: no such fault; {hint}")
    names: dict[str, str] = {}
    numbers: dict[str, float] = {}
    for part in _split(rest):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or key not in (*kind.needs, *kind.takes):
            known = ", ".join((*kind.needs, *kind.takes)) or "none"
            raise UserError(f"{where}: {safe(key)!r} is not understood; keys: {known}")
        if key in _NAMES:
            names[key] = value
            continue
        try:
            numbers[key] = float(value) if key in _FLOATS else int(value, 0)
        except ValueError:
            raise UserError(f"{where}: {key}={safe(value, 30)} is not a number") from None
        most = _most(kind.name, key)
        if not 0 <= numbers[key] <= most:
            raise UserError(f"{where}: {key} must be from 0 to {most:g}")
    missing = [k for k in kind.needs if k not in names and k not in numbers]
    if missing:
        raise UserError(f"{where}: {missing[0]}=… is missing")
    if names.get("way", "load") not in ("load", "store"):
        raise UserError(f"{where}: way is load or store")
    if names.get("space", "sram") not in ("sram", "ddr"):
        raise UserError(f"{where}: space is sram or ddr")
    if names.get("how", "unmapped") not in ("unmapped", "early", "read-only"):
        raise UserError(f"{where}: how is unmapped, early or read-only")
    if names.get("how") == "read-only" and names.get("way", "store") != "store":
        raise UserError(f"{where}: a mapping for reading refuses stores only")
    return Fault(kind.name, names, numbers)


def _most(kind: str, key: str) -> float:
    if key in _FLOATS:
        return _MOST_FACTOR.get(kind, sys.float_info.max)
    return _MOST.get(key, _MOST_WHOLE)


def _split(text: str) -> list[str]:
    parts, current, quoted = [], "", False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    if current:
        parts.append(current)
    return parts
