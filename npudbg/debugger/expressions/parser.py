"""A Pratt parser: precedence as Python's, depth and size bounded."""

from __future__ import annotations

from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions.lexer import Token, tokens
from npudbg.debugger.expressions.tree import (
    Binary,
    Call,
    Index,
    Literal,
    Name,
    Node,
    Slice,
    Unary,
)
from npudbg.session.text import safe

MOST_DEPTH = 48
_MOST_PARTS = 16
_WORDS: dict[str, bool | float] = {
    "true": True, "false": False, "True": True, "False": False,
}  # fmt: skip

_BINDS = {
    "or": 1, "and": 2, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "|": 5, "^": 6, "&": 7, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "**": 12,
}  # fmt: skip
_NOT, _COMPARE, _SIGN, _INDEX = 3, 4, 11, 13


def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        DebuggerError: It is none; ``column`` says where.
    """
    parser = _Parser(text)
    node = parser.expression(0)
    parser.end()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def expect(self, op: str) -> Token:
        if self.token.kind != "op" or self.token.text != op:
            raise self.wrong(f"expected {op!r}")
        return self.take()

    def wrong(self, message: str) -> DebuggerError:
        got = self.token
        found = "the end" if got.kind == "end" else safe(got.text, 24)
        return DebuggerError(f"{message}, got {found}", self.text, got.column)

    def end(self) -> None:
        if self.token.kind != "end":
            raise self.wrong("expected an operator or the end")

    def expression(self, least: int) -> Node:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise DebuggerError(f"nested deeper than {MOST_DEPTH}", self.text, self.token.column)
        left = self.prefix()
        parts = 0
        while True:
            token = self.token
            binds = _BINDS.get(token.text, 0) if token.kind == "op" else 0
            if token.kind == "op" and token.text == "[" and least < _INDEX:
                left = self.index(left)
            elif binds > least:
                self.take()
                # ** binds to the right, everything else to the left.
                right = self.expression(binds - 1 if token.text == "**" else binds)
                after = _BINDS.get(self.token.text, 0) if self.token.kind == "op" else 0
                if binds == after == _COMPARE:
                    raise DebuggerError(
                        "comparisons do not chain; write a < b and b < c",
                        self.text,
                        self.token.column,
                    )
                left = Binary(token.text, left, right, token.column)
            else:
                break
            # A chain to the left is as deep a tree as brackets are.
            parts += 1
            if parts > 4 * MOST_DEPTH:
                raise DebuggerError("too many operators", self.text, token.column)
        self.depth -= 1
        return left

    def prefix(self) -> Node:
        token = self.take()
        if token.kind in ("int", "float", "string"):
            return Literal(token.value, token.column)
        if token.kind == "name":
            if self.token.kind == "op" and self.token.text == "(":
                return self.call(token)
            if token.text in _WORDS:
                return Literal(_WORDS[token.text], token.column)
            return Name(token.text.lstrip("$"), token.column)
        if token.kind == "op" and token.text == "(":
            inside = self.expression(0)
            self.expect(")")
            return inside
        if token.kind == "op" and token.text == "not":
            return Unary("not", self.expression(_NOT), token.column)
        if token.kind == "op" and token.text in ("-", "+", "~"):
            return Unary(token.text, self.expression(_SIGN), token.column)
        if token.kind != "end":
            self.at -= 1
        raise self.wrong("expected a value")

    def call(self, name: Token) -> Node:
        self.expect("(")
        arguments: list[Node] = []
        while not (self.token.kind == "op" and self.token.text == ")"):
            if len(arguments) >= _MOST_PARTS:
                raise self.wrong(f"more than {_MOST_PARTS} arguments")
            arguments.append(self.expression(0))
            if self.token.kind == "op" and self.token.text == ",":
                self.take()
            elif not (self.token.kind == "op" and self.token.text == ")"):
                raise self.wrong("expected ',' or ')'")
        self.take()
        return Call(name.text, tuple(arguments), name.column)

    def index(self, operand: Node) -> Node:
        start = self.expect("[")
        parts = [self.part()]
        while self.token.kind == "op" and self.token.text == ",":
            self.take()
            if len(parts) >= _MOST_PARTS:
                raise self.wrong(f"more than {_MOST_PARTS} axes")
            parts.append(self.part())
        self.expect("]")
        return Index(operand, tuple(parts), start.column)

    def part(self) -> Node | Slice:
        column = self.token.column
        found: list[Node | None] = [None]
        colons = 0
        while True:
            if self.token.kind == "op" and self.token.text == ":":
                colons += 1
                if colons > 2:
                    raise self.wrong("expected ',' or ']'")
                self.take()
                found.append(None)
            elif found[-1] is None and not self._ends():
                found[-1] = self.expression(0)
            else:
                break
        if not colons:
            if found[0] is None:
                raise self.wrong("expected an index")
            return found[0]
        found += [None, None]
        return Slice(found[0], found[1], found[2], column)

    def _ends(self) -> bool:
        return self.token.kind == "end" or (
            self.token.kind == "op" and self.token.text in (",", "]")
        )
