"""Lines of text with meaning: what views are made of, without a UI library.

A view returns :class:`Line` objects; the command line prints them, the TUI
paints them.  A style is a *meaning*, never a colour, and the text alone must
say the same without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from npudbg.session.records import Subject

Style = Literal[
    "",
    "title",
    "dim",
    "key",
    "address",
    "number",
    "ok",
    "warn",
    "error",
    "changed",
    "current",
    "mark",
]


class Span(NamedTuple):
    """A piece of text with one meaning.  ``text`` is data: never markup."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a view; ``subject`` is what selecting the line opens."""

    spans: tuple[Span, ...] = ()
    subject: Subject | None = None

    @property
    def text(self) -> str:
        """The line without its meanings."""
        return "".join(span.text for span in self.spans)


def line(*parts: str | tuple[str, Style] | Span, subject: Subject | None = None) -> Line:
    """Make a line from plain strings and ``(text, style)`` pairs."""
    return Line(tuple(Span(p) if isinstance(p, str) else Span(*p) for p in parts), subject)
