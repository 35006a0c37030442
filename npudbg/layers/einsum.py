"""An Einsum equation as the MatMul that most targets have instead."""

from __future__ import annotations

import re

_PART = re.compile(r"[A-Za-z]*")


def as_matmul(equation: str) -> str | None:
    """Return how to write an Einsum of two operands as a MatMul, or None.

    ``bij,jk->bik`` is ``MatMul(A, B)``; where an operand's axes stand in another
    order, the Transpose that it needs is named.

    Args:
        equation: Without ellipsis; letters once an operand.
    """
    text = equation.replace(" ", "")
    left, arrow, out = text.partition("->")
    operands = left.split(",")
    if len(operands) != 2 or not all(_PART.fullmatch(p) for p in (*operands, out)):
        return None
    a, b = operands
    if not arrow:  # the implicit form: letters used once, sorted
        out = "".join(sorted(c for c in set(a + b) if (a + b).count(c) == 1))
    if any(len(set(p)) != len(p) for p in (a, b, out)) or not set(out) <= set(a + b):
        return None
    batch = [c for c in out if c in a and c in b]
    inner = [c for c in a if c in b and c not in out]
    rows = [c for c in a if c not in b]
    cols = [c for c in b if c not in a]
    if len(inner) != 1 or not set(rows + cols) <= set(out) or len(cols) != 1 or not rows:
        return None
    if len(rows) != 1 and batch:
        return None
    rows = [c for c in out if c in rows]
    wants = [("A", a, [*batch, *rows, *inner]), ("B", b, [*batch, *inner, *cols])]
    terms = [_turned(name, have, want) for name, have, want in wants]
    result = f"MatMul({', '.join(terms)})"
    natural = [*batch, *rows, *cols]
    if list(out) != natural:
        result = f"Transpose({result}, perm={_perm(natural, list(out))})"
    return result


def _turned(name: str, have: str, want: list[str]) -> str:
    return name if list(have) == want else f"Transpose({name}, perm={_perm(list(have), want)})"


def _perm(have: list[str], want: list[str]) -> str:
    return "[" + ",".join(str(have.index(c)) for c in want) + "]"
