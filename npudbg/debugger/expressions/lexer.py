"""From text to tokens: numbers, strings, names, operators, each with its column."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from npudbg.debugger.errors import DebuggerError
from npudbg.session.text import safe

MOST_CHARS = 2000
_MOST_DIGITS = 40

TokenKind = Literal["int", "float", "string", "name", "op", "end"]
Value = int | float | str


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: What it is.
        text: As written (for a string: what it says).
        column: Where it begins, from 0.
        value: Of a number or string.
    """

    kind: TokenKind
    text: str
    column: int
    value: Value = ""


_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<hex>0[xX][0-9A-Fa-f_]+) | (?P<bin>0[bB][01_]+)
    | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<int>[0-9][0-9_]*)
    | (?P<name>\$?[^\W\d]\w*)
    | (?P<op>\*\*|//|==|!=|<=|>=|&&|\|\||[-+*/%<>!()\[\],:&|^~])
    """,
    re.VERBOSE,
)
_WORDS = {"&&": "and", "||": "or", "!": "not"}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, with one of kind ``end`` last.

    Raises:
        DebuggerError: Too long, or something that is no token.
    """
    if len(text) > MOST_CHARS:
        raise DebuggerError(f"{len(text)} characters; an expression has at most {MOST_CHARS}")
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] in "\"'":
            token, at = _string(text, at)
            found.append(token)
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise DebuggerError(f"{safe(text[at], 8)!r} means nothing here", text, at)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_token(kind, match.group(), at, text))
        at = match.end()
    found.append(Token("end", "", len(text)))
    return found


def _token(kind: str, word: str, at: int, text: str) -> Token:
    after = text[at + len(word) : at + len(word) + 1]
    if kind in ("hex", "bin", "float", "int"):
        if after.isalnum() or after in ("_", "."):
            raise DebuggerError(f"not a number: {safe(word + after, 40)}", text, at)
        if len(word) > _MOST_DIGITS:
            raise DebuggerError(f"a number of {len(word)} characters", text, at)
        try:
            if kind == "float":
                return Token("float", word, at, float(word))
            base = {"hex": 16, "bin": 2}.get(kind, 10)
            return Token("int", word, at, int(word, base))
        except ValueError:
            raise DebuggerError(f"not a number: {safe(word, 40)}", text, at) from None
    if kind == "op":
        return Token("op", _WORDS.get(word, word), at)
    if word in ("and", "or", "not"):
        return Token("op", word, at)
    return Token("name", word, at)


def _string(text: str, start: int) -> tuple[Token, int]:
    quote, at, chars = text[start], start + 1, []
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            if text[at] not in _ESCAPES:
                raise DebuggerError(
                    f"unknown escape \\{safe(text[at], 8)}; "
                    "there are \\n, \\t, \\\\ and quotes", text, at - 1,
                )  # fmt: skip
            chars.append(_ESCAPES[text[at]])
        else:
            chars.append(text[at])
        at += 1
    if at >= len(text):
        raise DebuggerError("a string without an end", text, start)
    word = "".join(chars)
    return Token("string", word, start, word), at + 1
