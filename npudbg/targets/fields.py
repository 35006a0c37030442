"""The profile's fields by dotted path: walked by the checks and by the view."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from npudbg.targets.profile import Target

DESCRIPTIVE = ("name", "title", "vendor", "notes", "sources")
"""Keys of the top that are words and not figures."""

TABLES = (
    "memory", "dma", "cache", "compute", "tensor", "operators", "clock", "elf", "board",
)  # fmt: skip
"""Tables with fixed keys, in the order in which they are shown."""


class Field(NamedTuple):
    """One field of a profile.

    Attributes:
        section: Its table.
        name: Its key in the table.
        value: What the profile says, or the default.
        default: What stands where a profile is silent.
    """

    section: str
    name: str
    value: Any
    default: Any

    @property
    def path(self) -> str:
        """Dotted path, as in ``[sources]``."""
        return f"{self.section}.{self.name}"

    @property
    def given(self) -> bool:
        """Whether the profile states something else than the default."""
        return bool(self.value != self.default)


def fields(target: Target) -> Iterator[Field]:
    """Yield every field of a profile, its thresholds last."""
    blank = _blank()
    for section in TABLES:
        table, default = getattr(target, section), getattr(blank, section)
        for name in table.__struct_fields__:
            yield Field(section, name, getattr(table, name), getattr(default, name))
    for name, threshold in target.thresholds.items():
        yield Field("thresholds", name, threshold, None)


@cache
def paths() -> frozenset[str]:
    """Return every dotted path that a source may name, tables included (not thresholds)."""
    return frozenset((*TABLES, *(f.path for f in fields(_blank()))))


@cache
def keys(section: str) -> tuple[str, ...]:
    """Return a table's keys; those of the top for ``""``."""
    owner: Any = _blank() if not section else getattr(_blank(), section)
    return tuple(info.name for info in msgspec.structs.fields(type(owner)))


def source(target: Target, path: str) -> str | None:
    """Return where a field's figure comes from: its own source, or its table's.

    Args:
        target: The profile.
        path: Dotted path of a field.
    """
    sources = target.sources
    return sources.get(path) or sources.get(path.partition(".")[0]) or None


@cache
def _blank() -> Target:
    return Target(name="", title="")
