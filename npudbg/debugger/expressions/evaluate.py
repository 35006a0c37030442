"""The value of an expression; time, depth and size are bounded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from npudbg.debugger.errors import AbsentError, DebuggerError
from npudbg.debugger.expressions.functions import FUNCTIONS
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
from npudbg.debugger.expressions.values import ArrayValue, Value, Word, scalar, truth
from npudbg.session.text import safe

_MOST_DEPTH = 220
_MOST_BITS = 4096
_MOST_COST = 1 << 28
"""Elements that one expression may touch in all."""

Number = Any


class Scope(Protocol):
    """What names mean at a command."""

    def value(self, name: str) -> Value:
        """Return the value of a name.

        Raises:
            AbsentError: It has none at this command.
            DebuggerError: There is no such name.
        """
        ...

    def tensor(self, name: str) -> ArrayValue:
        """Return a tensor as it was."""
        ...


def evaluate(node: Node, scope: Scope, text: str = "") -> Value:
    """Return the value of an expression.

    Args:
        node: The tree.
        scope: What names mean.
        text: What it was read from, for errors.

    Raises:
        AbsentError: A name has no value here.
        DebuggerError: It cannot be calculated.
    """
    with np.errstate(all="ignore"):
        return _Evaluator(scope, text).value(node)


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Evaluator:
    def __init__(self, scope: Scope, text: str) -> None:
        self.scope, self.text = scope, text
        self.depth = 0
        self.cost = 0

    def value(self, node: Node) -> Value:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.wrong("nested too deep", node)
        try:
            found = self._value(node)
        except DebuggerError as error:
            if not error.text and self.text:
                raise type(error)(str(error), self.text, node.column) from None
            raise
        except (ArithmeticError, ValueError, TypeError, IndexError) as error:
            raise self.wrong(f"cannot be calculated ({safe(error, 80)})", node) from None
        self.depth -= 1
        if isinstance(found, ArrayValue):
            self.cost += found.array.size
            if self.cost > _MOST_COST:
                raise self.wrong(f"touches more than {_MOST_COST:,} elements", node)
        return found

    def wrong(self, message: str, node: Any) -> DebuggerError:
        return DebuggerError(message, self.text, node.column)

    def _value(self, node: Node) -> Value:
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Name):
            return self.scope.value(node.name)
        if isinstance(node, Unary):
            return self._unary(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Index):
            return self._index(node)
        return self._call(node)

    def _unary(self, node: Unary) -> Value:
        held = self.value(node.operand)
        if node.op == "not":
            return not truth(held)
        if isinstance(held, ArrayValue):
            array = held.numeric()
            if node.op == "~":
                return ArrayValue(~array, held.known, held.name)
            return ArrayValue(-array if node.op == "-" else array, held.known, held.name)
        number = self._number(held, node)
        if node.op == "~":
            return scalar(~number)
        return scalar(-number if node.op == "-" else +number)

    def _binary(self, node: Binary) -> Value:
        left = self.value(node.left)
        if node.op == "and":
            return truth(self.value(node.right)) if truth(left) else False
        if node.op == "or":
            return True if truth(left) else truth(self.value(node.right))
        right = self.value(node.right)
        if node.op not in ("==", "!="):
            # `node < 12` compares numbers; what has none stays a word.
            left, right = _numbered(left), _numbered(right)
        if isinstance(left, (Word, str, tuple)) or isinstance(right, (Word, str, tuple)):
            return self._words(node, left, right)
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            return self._arrays(node, left, right)
        one, two = self._number(left, node), self._number(right, node)
        if node.op in _ORDER:
            return bool(_ORDER[node.op](one, two))
        if node.op in _INTEGER:
            return scalar(_INTEGER[node.op](one, two))
        if node.op in ("/", "//", "%") and two == 0:
            raise self.wrong("division by zero", node)
        if isinstance(one, int) and isinstance(two, int):
            self._bounded(node, one, two)
        found = _ARITHMETIC[node.op](one, two)
        if isinstance(found, int) and found.bit_length() > _MOST_BITS:
            raise self.wrong("the number gets too large", node)
        return scalar(found)

    def _bounded(self, node: Binary, one: int, two: int) -> None:
        if node.op == "**" and two > 0 and one.bit_length() * two > _MOST_BITS:
            raise self.wrong("the number gets too large", node)

    def _words(self, node: Binary, left: Value, right: Value) -> bool:
        if node.op not in ("==", "!="):
            raise self.wrong(f"{node.op} needs numbers; text can be compared by == and !=", node)
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            raise self.wrong("text and a tensor cannot be compared", node)
        if isinstance(left, Word):
            same = left.same(right)
        elif isinstance(right, Word):
            same = right.same(left)
        else:
            same = left == right
        return same if node.op == "==" else not same

    def _arrays(self, node: Binary, left: Value, right: Value) -> ArrayValue:
        sides: list[Any] = []
        known: Any = None
        name = ""
        for each in (left, right):
            if not isinstance(each, ArrayValue):
                sides.append(self._number(each, node))
                continue
            sides.append(each.numeric())
            name = name or each.name
            if each.known is not None:
                known = each.known if known is None else known & each.known
        shapes = [np.shape(side) for side in sides]
        try:
            goal = np.broadcast_shapes(*shapes)
        except ValueError:
            raise self.wrong(f"shapes {shapes[0]} and {shapes[1]} do not fit", node) from None
        if goal not in shapes:
            raise self.wrong(f"shapes {shapes[0]} and {shapes[1]} do not fit", node)
        function = {**_ORDER, **_INTEGER, **_ARITHMETIC}[node.op]
        if node.op == "**":
            sides = [np.asarray(side, np.float64) for side in sides]
        if known is not None:
            known = np.broadcast_to(known, goal)
        return ArrayValue(np.asarray(function(*sides)), known, name)

    def _index(self, node: Index) -> Value:
        held = self.value(node.operand)
        if isinstance(held, tuple):
            if len(node.parts) != 1 or isinstance(node.parts[0], Slice):
                raise self.wrong("a shape has one axis; write shape(x)[0]", node)
            at = self._integer(node.parts[0])
            if not -len(held) <= at < len(held):
                raise self.wrong(f"index {at} is out of range 0..{len(held) - 1}", node)
            return held[at]
        if not isinstance(held, ArrayValue):
            raise self.wrong("only a tensor or a shape can be indexed", node)
        return element(held, self._selection(held, node), node, self.text)

    def _selection(self, held: ArrayValue, node: Index) -> tuple[int | slice, ...]:
        if len(node.parts) > held.array.ndim:
            raise self.wrong(
                f"{len(node.parts)} indices for {held.array.ndim} axes "
                f"{'x'.join(map(str, held.array.shape)) or '(a scalar)'}", node,
            )  # fmt: skip
        chosen: list[int | slice] = []
        for part, size in zip(node.parts, held.array.shape, strict=False):
            if isinstance(part, Slice):
                ends = [None if e is None else self._integer(e)
                        for e in (part.start, part.stop, part.step)]  # fmt: skip
                if ends[2] == 0:
                    raise self.wrong("a slice's step cannot be 0", part)
                chosen.append(slice(*ends))
                continue
            at = self._integer(part)
            if not -size <= at < size:
                raise self.wrong(f"index {at} is out of range 0..{size - 1}", part)
            chosen.append(at)
        return tuple(chosen)

    def _integer(self, node: Node) -> int:
        held = self.value(node)
        if isinstance(held, bool) or not isinstance(held, int) or abs(held) >= 1 << 62:
            raise self.wrong("expected a whole number", node)
        return held

    def _call(self, node: Call) -> Value:
        if node.function == "tensor":
            held = [self.value(each) for each in node.arguments]
            if len(held) != 1 or not isinstance(held[0], str):
                raise self.wrong('expected a name, as in tensor("conv1_out")', node)
            return self.scope.tensor(held[0])
        function = FUNCTIONS.get(node.function)
        if function is None:
            import difflib

            near = difflib.get_close_matches(node.function, FUNCTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FUNCTIONS)}"
            raise self.wrong(f"no function {safe(node.function, 24)}; {hint}", node)
        low, high = function.arguments
        if not low <= len(node.arguments) <= high:
            raise self.wrong(f"expected {function.usage}", node)
        return function.call(*(self.value(each) for each in node.arguments))

    def _number(self, held: Value, node: Any) -> Number:
        if isinstance(held, Word) and held.number is not None:
            return held.number
        if isinstance(held, (bool, int, float, complex)):
            return held
        raise self.wrong("expected a number", node)


def _numbered(value: Value) -> Value:
    return value.number if isinstance(value, Word) and value.number is not None else value


def element(
    held: ArrayValue, chosen: tuple[int | slice, ...], node: Any = None, text: str = ""
) -> Value:
    """Return a part of an array; a single element as a number.

    Raises:
        AbsentError: The element has not been written yet.
    """
    part = held.array[chosen]
    known = None if held.known is None else held.known[chosen]
    if np.ndim(part):
        return ArrayValue(np.asarray(part), None if known is None else np.asarray(known), held.name)
    if known is not None and not bool(known):
        raise AbsentError(
            f"this element of {held.name or 'the tensor'} has not been written yet",
            text, node.column if node is not None else 0,
        )  # fmt: skip
    return scalar(part)
