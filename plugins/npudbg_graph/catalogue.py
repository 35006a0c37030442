"""Texts of the plugin's finding codes, read from ``texts.toml``."""

from __future__ import annotations

import sys
from functools import cache
from importlib import resources

import msgspec

from npudbg.plugins import Entry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def entries() -> list[Entry]:
    """Return the entries of all G codes."""
    text = resources.files(__package__).joinpath("texts.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return [msgspec.convert({"code": code, **table}, Entry) for code, table in tables.items()]
