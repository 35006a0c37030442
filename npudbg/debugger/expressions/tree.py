"""What an expression is made of; each part knows its column, for errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, string or truth value."""

    value: int | float | str | bool
    column: int


@dataclass(frozen=True, slots=True)
class Name:
    """A name that the scope knows."""

    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Unary:
    """``-x``, ``+x``, ``~x`` or ``not x``."""

    op: str
    operand: Node
    column: int


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands and what is between them."""

    op: str
    left: Node
    right: Node
    column: int


@dataclass(frozen=True, slots=True)
class Slice:
    """``start:stop:step`` within an index; any part may be missing."""

    start: Node | None
    stop: Node | None
    step: Node | None
    column: int


@dataclass(frozen=True, slots=True)
class Index:
    """``x[0, 3, ::2]``."""

    operand: Node
    parts: tuple[Node | Slice, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Call:
    """``max(out)``."""

    function: str
    arguments: tuple[Node, ...]
    column: int


Node: TypeAlias = "Literal | Name | Unary | Binary | Index | Call"
"""Any part that has a value."""
