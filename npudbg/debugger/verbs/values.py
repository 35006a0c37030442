"""Showing values: print, golden values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions import evaluate, parse
from npudbg.debugger.expressions.functions import FUNCTIONS
from npudbg.debugger.expressions.values import ArrayValue, Value, Word, scalar
from npudbg.debugger.registry import Verb, completed
from npudbg.debugger.scope import NAMES, CommandScope
from npudbg.session.commands import kind_name
from npudbg.session.lines import Line, line
from npudbg.session.scan import scan
from npudbg.session.text import safe

_GROUP = "Looking"
_SHOWN = 24
_MOST_GOLDEN = 1 << 30


def value_of(context: Context, text: str) -> Value:
    """Return the value of an expression, or of a tensor whose name is no expression.

    Raises:
        DebuggerError: It is neither.
    """
    word = text.strip()
    scope = CommandScope(context, context.seq)
    try:
        tree = parse(word)
    except DebuggerError as error:
        # `/conv1/out[0]` is a name of ONNX, not a division.
        try:
            ref = references.tensor(context, word)
        except DebuggerError:
            raise error from None
    else:
        try:
            return evaluate(tree, scope, word)
        except DebuggerError:
            if context.session.tensor(word) is None and "[" not in word:
                raise
            named = quiet(context, word)
            if named is None:
                raise
            ref = named
    part = ref.part(scope.tensor_value(ref.record.id))
    return part if isinstance(part, ArrayValue) else scalar(part)


def quiet(context: Context, word: str) -> references.TensorRef | None:
    """Return the tensor that a word names; None if it names none."""
    try:
        return references.tensor(context, word)
    except DebuggerError:
        return None


def _print(context: Context, text: str) -> list[Line]:
    form, rest = "", text
    if text.startswith("/"):
        first, _, after = text.partition(" ")
        if context.session.tensor(text) is None and first[1:] in ("x", "d", "u", "f", "c"):
            form, rest = first[1:], after.strip()
    if not rest:
        raise DebuggerError("print what? an expression such as max(abs(out)), or a tensor")
    return shown(context, value_of(context, rest), form)


def shown(context: Context, value: Value, form: str = "") -> list[Line]:
    """Return a value as lines; a tensor that is not made yet says which command begins it."""
    if not isinstance(value, ArrayValue) or value.known is None or value.known.any():
        return value_lines(value, form)
    return [line((f"{_head(value)}: ", "title"), (_not_made(context, value.name), "warn"))]


def _not_made(context: Context, name: str) -> str:
    """Return in words that nothing of a tensor is there yet at the cursor."""
    record = context.session.tensor(name)
    rows = context.tensors.rows(context.tensors.root(record.id)) if record is not None else ()
    later = [row for row in rows if int(row["seq"]) > context.seq][:1]
    if not later:
        return f"not made yet at command {context.cursor.seq}"
    node = context.cursor.node(int(later[0]["seq"]))
    of = f" of {safe(node.label, 60)}" if node is not None else ""
    what = f"{kind_name(int(later[0]['kind']))}{of}"
    return f"not made yet; command {int(later[0]['seq'])} ({what}) begins it"


def _head(value: ArrayValue) -> str:
    """Return name, shape and type."""
    size = "x".join(map(str, value.array.shape)) or "scalar"
    return f"{safe(value.name, 60)} {size} {value.array.dtype.name}".strip()


def value_lines(value: Value, form: str = "") -> list[Line]:
    """Return a value as lines.

    Args:
        value: What to show.
        form: ``x`` for hex, ``d``, ``u``, ``f``, ``c``, or ``""``.
    """
    if not isinstance(value, ArrayValue):
        return [line(("= ", "dim"), (_one(value, form), "number"))]
    array = value.array
    made = array.size if value.known is None else int(np.count_nonzero(value.known))
    note = f", {made:,} of {array.size:,} elements written" if made < array.size else ""
    lines = [line((_head(value), "title"), note)]
    known = np.ones(array.shape, bool) if value.known is None else value.known
    flat, mask = array.reshape(-1)[:_SHOWN], known.reshape(-1)[:_SHOWN]
    shown = [_one(scalar(v), form) if k else "--" for v, k in zip(flat, mask, strict=True)]
    more = " …" if array.size > _SHOWN else ""
    lines.append(line("  [", (", ".join(shown), "number"), f"{more}]"))
    part = array if value.known is None else array[value.known]
    found = scan(part) if array.size > 1 and part.size else None
    if found is not None:
        style: Any = "error" if found.nonfinite else "dim"
        lines.append(line((f"  {words.stats(found)}, std {words.figure(found.std)}", style)))
    return lines


def _one(value: Value, form: str) -> str:
    if isinstance(value, Word):
        if value.number is None or value.number < 0:
            return safe(value.text, 100)
        return f"{safe(value.text, 100)} ({value.number})"
    if isinstance(value, ArrayValue):
        return "an array"
    if isinstance(value, str):
        return f'"{safe(value, 200)}"'
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and form in ("x", "c"):
        return hex(value) if form == "x" else _char(value)
    if isinstance(value, (int, float)) and form == "f":
        return f"{float(value):.9g}"
    if isinstance(value, float):
        if form in ("d", "u", "x") and np.isfinite(value):
            return hex(int(value)) if form == "x" else str(int(value))
        return f"{value:.9g}"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _char(value: int) -> str:
    return f"{value} {chr(value)!r}" if 32 <= value < 127 else str(value)


def _golden(context: Context, text: str) -> list[Line]:
    if not text:
        if not context.golden:
            return [line(("no golden values; golden FILE.npz loads arrays by tensor name", "dim"))]
        names = ", ".join(safe(n, 40) for n in list(context.golden)[:8])
        return [line(f"golden values of {len(context.golden)} tensors: {names}")]
    from npudbg.graph.npz import read

    arrays = read(Path(text.strip("\"'")).expanduser())
    known = {t.name for t in context.session.tensors}
    kept = {name: array for name, array in arrays.items() if name in known}
    if not kept:
        raise DebuggerError(
            f"{safe(text, 60)}: none of its {len(arrays)} arrays is named like a tensor here"
        )
    if sum(array.nbytes for array in kept.values()) > _MOST_GOLDEN:
        raise DebuggerError(f"{safe(text, 60)}: more than {_MOST_GOLDEN >> 20} MiB of arrays")
    context.golden.update(kept)
    left = len(arrays) - len(kept)
    note = f"; {left} have no tensor of their name" if left else ""
    return [line(f"golden values of {len(kept)} tensors loaded{note}")]


def names(context: Context, start: str) -> list[str]:
    """Return what an expression's last word can become, with what stands before it."""
    at = len(start)
    while at and (start[at - 1].isalnum() or start[at - 1] in "_/.:"):
        at -= 1
    words_ = [
        *NAMES, "tensor(", *(f"{name}(" for name in FUNCTIONS),
        *(t.name for t in context.session.tensors[:5000] if t.name.isprintable()),
    ]  # fmt: skip
    return [start[:at] + w for w in completed(words_, start[at:])]


VERBS = (
    Verb(
        "print",
        _print,
        "print[/x] EXPR | TENSOR",
        "the value of an expression",
        _GROUP,
        ("p", "inspect", "output"),
        complete=names,
        more=(
            "names: " + ", ".join(NAMES),
            "functions: " + ", ".join(FUNCTIONS) + ', tensor("name")',
        ),
    ),
    Verb(
        "golden",
        _golden,
        "golden FILE.npz",
        "load golden values, by tensor name",
        _GROUP,
        more=("Then golden is what out should be: b if cos(out, golden) < 0.99",),
    ),
)
