"""Memory as it was: bytes, which of them just changed, who wrote them, as values."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from npudbg.render import numbers
from npudbg.render.fit import fit
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.lines import Line, Span, Style, line
from npudbg.session.records import Subject


def bytes_per_row(width: int, dtype: str | None = None) -> int:
    """Return how many bytes fit a row of ``width`` columns (a power of two, 4 to 16)."""
    for count in (16, 8):
        if row_width(count, dtype) <= width:
            return count
    return 4


def row_width(count: int, dtype: str | None) -> int:
    """Return the columns that a row of ``count`` bytes takes."""
    tail = count + 3
    size = _itemsize(dtype)
    if size:
        tail = 1 + (count // size) * _value_width(size, dtype)
    return 11 + 3 * count + (count > 8) + tail


def hexdump(
    base: int,
    data: bytes,
    width: int,
    *,
    written: Sequence[bool] | None = None,
    changed: Sequence[bool] | None = None,
    dtype: str | None = None,
    space: str = "",
) -> list[Line]:
    """Return a hexdump of ``width`` columns.

    A byte that nothing has written yet is ``--``.  A byte that the command at the
    cursor wrote has a ``*`` before it, which says the same without colour.

    Args:
        base: Address of the first byte.
        data: The bytes.
        width: Columns.
        written: Whether each byte was ever written (None: all were).
        changed: Whether the current command wrote each byte.
        dtype: Show values of this element type instead of characters.
        space: Address space, for the lines' subjects.
    """
    if dtype is not None and not _itemsize(dtype):
        dtype = None
    count = bytes_per_row(width, dtype)
    lines = []
    for at in range(0, len(data), count):
        part = data[at : at + count]
        known = list(written[at : at + count]) if written is not None else [True] * len(part)
        fresh = list(changed[at : at + count]) if changed is not None else [False] * len(part)
        spans: list[Span] = [Span(numbers.address(base + at) + " ", "address")]
        for number, byte in enumerate(part):
            if number == 8:
                spans.append(Span(" "))
            star = "*" if fresh[number] else " "
            style: Style = "changed" if fresh[number] else ("" if known[number] else "dim")
            _add(spans, star + (f"{byte:02X}" if known[number] else "--"), style)
        missing = count - len(part)
        _add(spans, "   " * missing + (" " if missing and len(part) <= 8 < count else ""), "")
        if dtype is not None:
            spans.append(Span(" "))
            room = _value_width(_itemsize(dtype), dtype)
            for text, style in _values(part, known, dtype):
                _add(spans, f"{text:>{room}}", style)
        else:
            spans.append(Span("  " + _characters(part, known), "dim"))
        subject = Subject(kind="address", address=base + at, space=space or None)
        lines.append(fit(Line(tuple(spans), subject), width))
    return lines


def writer_line(
    seqs: Sequence[int], written: Sequence[bool], names: dict[int, str], width: int
) -> Line:
    """Return who wrote the bytes shown: the newest writers, and how much of them.

    Args:
        seqs: Writer of each byte, negative for none.
        written: Whether each byte is known, though perhaps from the start.
        names: What each writer is, in words.
        width: Columns.
    """
    order: dict[int, int] = {}
    for seq in seqs:
        order[int(seq)] = order.get(int(seq), 0) + 1
    writers = sorted((s for s in order if s >= 0), reverse=True)
    if not writers:
        text = "there from the start" if any(written) else "no command has written here yet"
        return fit(line((text, "dim")), width)
    first = writers[0]
    text = f"written by command {first} ({names.get(first, '?')}): {order[first]} of {len(seqs)} B"
    if len(writers) > 1:
        text += f"; and {len(writers) - 1} earlier"
    return fit(line((text, "key"), subject=Subject(kind="command", seq=first)), width)


def _add(spans: list[Span], text: str, style: Style) -> None:
    if spans and spans[-1].style == style:
        spans[-1] = Span(spans[-1].text + text, style)
    elif text:
        spans.append(Span(text, style))


def _characters(part: bytes, known: list[bool]) -> str:
    return "".join(
        (chr(b) if 32 <= b < 127 else ".") if k else " " for b, k in zip(part, known, strict=True)
    )


def _values(part: bytes, known: list[bool], dtype: str) -> list[tuple[str, Style]]:
    element = numpy_dtype(dtype)
    size = element.itemsize
    found: list[tuple[str, Style]] = []
    for at in range(0, len(part) - size + 1, size):
        if not all(known[at : at + size]):
            found.append(("--", "dim"))
            continue
        found.append(_value(np.frombuffer(part[at : at + size], element)[0], size))
    return found


def _value(item: Any, size: int) -> tuple[str, Style]:
    if isinstance(item, (np.integer, np.bool_)):
        return str(int(item)), "number"
    number = float(abs(item)) if isinstance(item, np.complexfloating) else float(item)
    return numbers.compact(number, 9, 3 if size < 4 else 4), "number" if isfinite(
        number
    ) else "error"


def _itemsize(dtype: str | None) -> int:
    if dtype is None:
        return 0
    try:
        size = numpy_dtype(dtype).itemsize
    except (TypeError, ValueError):
        return 0
    return size if size in (1, 2, 4, 8) else 0


def _value_width(size: int, dtype: str | None) -> int:
    """Return the columns of a value of ``size`` bytes, with a space before it."""
    if size == 1 and "float" in (dtype or ""):
        return 9
    return {1: 5, 2: 10, 4: 12, 8: 21}[size]
