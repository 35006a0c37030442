"""Conditions over a million commands: what the columns alone already rule out.

``kind == "KERNEL" and nan(out)`` has to look at values only where the kind fits.  The
answer may let through too many commands, never too few: each that is left is judged
by itself afterwards.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions.evaluate import evaluate
from npudbg.debugger.expressions.tree import Binary, Literal, Name, Node, Unary
from npudbg.debugger.expressions.values import truth
from npudbg.debugger.scope import CommandScope
from npudbg.session.commands import Rows, Space
from npudbg.session.memory.geometry import Bools

_SAFE = 1 << 62
_NUMBERS: dict[str, Callable[[Rows], Any]] = {
    "seq": lambda rows: rows["seq"],
    "cycle": lambda rows: rows["start"],
    "end": lambda rows: rows["end"],
    "cost": lambda rows: rows["end"] - rows["start"],
    "nbytes": lambda rows: rows["nbytes"],
    "tile": lambda rows: rows["tile"].astype(np.int64),
    "addr": lambda rows: np.where(rows["dst_space"] != Space.NONE, rows["dst"], rows["src"]),
}
_WORDS = {"kind": "kind", "engine": "engine", "node": "node", "op": "node", "status": "status",
          "space": "dst_space"}  # fmt: skip
_ORDER = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
          ">": operator.gt, ">=": operator.ge}  # fmt: skip
_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}


def possible(context: Context, tree: Node, rows: Rows) -> Bools:
    """Return the rows for which a condition may hold."""
    found = _truth(context, tree, rows)
    return np.ones(len(rows), bool) if found is None else found


def _truth(context: Context, tree: Node, rows: Rows) -> Bools | None:
    """Return where a tree may be true; None where the columns do not tell."""
    if not isinstance(tree, Binary):
        return None
    if tree.op == "and":
        left, right = (_truth(context, side, rows) for side in (tree.left, tree.right))
        if left is None or right is None:
            return right if left is None else left
        return left & right
    if tree.op == "or":
        left, right = (_truth(context, side, rows) for side in (tree.left, tree.right))
        return None if left is None or right is None else left | right
    if tree.op not in _ORDER:
        return None
    word = _word_of(tree)
    if word is not None:
        return _by_word(context, tree, word, rows)
    one, two = _number(tree.left, rows), _number(tree.right, rows)
    if one is None or two is None:
        return None
    return np.broadcast_to(np.asarray(_ORDER[tree.op](one, two), bool), len(rows))


def _word_of(tree: Binary) -> str | None:
    """Return the column of ``kind == "x"`` written either way round."""
    sides = (tree.left, tree.right)
    for one, two in (sides, sides[::-1]):
        if isinstance(one, Name) and one.name in _WORDS and isinstance(two, Literal):
            return _WORDS[one.name]
    return None


def _by_word(context: Context, tree: Binary, column: str, rows: Rows) -> Bools | None:
    """Judge one command of each value that a column has: it stands for all of them."""
    values, firsts, which = np.unique(rows[column], return_index=True, return_inverse=True)
    answers = np.ones(len(values), bool)
    for number, first in enumerate(firsts.tolist()):
        row = rows[first]
        try:
            answers[number] = truth(evaluate(tree, CommandScope(context, int(row["seq"]), row)))
        except DebuggerError:
            # A mistake has to be met and told, not passed by.
            return None
    return answers[which]


def _number(tree: Node, rows: Rows) -> Any:
    """Return the values of an arithmetic part; None where they are not plain columns."""
    if isinstance(tree, Literal):
        plain = isinstance(tree.value, (int, float)) and abs(tree.value) < _SAFE
        return tree.value if plain else None
    if isinstance(tree, Name):
        column = _NUMBERS.get(tree.name.lstrip("$"))
        return None if column is None else column(rows)
    if isinstance(tree, Unary) and tree.op in ("-", "+"):
        held = _number(tree.operand, rows)
        return None if held is None else -held if tree.op == "-" else held
    if not isinstance(tree, Binary):
        return None
    one, two = _number(tree.left, rows), _number(tree.right, rows)
    if one is None or two is None:
        return None
    if tree.op in ("%", "//") and isinstance(two, int) and two > 0 and _whole(one):
        return one % two if tree.op == "%" else one // two
    if (
        tree.op in _SUMS
        and _whole(one)
        and _whole(two)
        and max(_size(one), _size(two)) < _SAFE // 2
    ):
        return _SUMS[tree.op](one, two)
    return None


def _whole(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "i")
    return isinstance(value, int) and not isinstance(value, bool)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return max(abs(int(value.min())), abs(int(value.max()))) if value.size else 0
    return abs(int(value))
