"""Layer 4: what the values of a tensor are, and where the first bad one lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.render import numbers
from npudbg.render.fit import cut_middle, fit, left
from npudbg.session.lines import Line, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Stats, Subject, TensorRecord
from npudbg.session.text import safe

_NUMBERS = 46
_BLOCK = 1 << 20
_OPERANDS = 3


def shown_tensors(session: Session) -> list[TensorRecord]:
    """Return what layer 4 lists: results in the order in which nodes make them.

    What a Constant node holds is a weight, not a result; it is listed if it is not finite.
    """
    made = [
        t
        for t in session.tensors
        if t.role in ("activation", "output")
        or (t.producer >= 0 and (t.role != "constant" or tensor_mark(t)[0] == "!"))
    ]
    return sorted(made, key=lambda t: (t.producer if t.producer >= 0 else 1 << 40, t.id))


def tensor_mark(tensor: TensorRecord) -> tuple[str, Style]:
    """Return ``!`` for NaN or Inf, ``~`` for saturation or a constant, blank for neither."""
    stats = tensor.stats
    if stats is None or not stats.count:
        return " ", ""
    if stats.nonfinite:
        return "!", "error"
    finite_limit = stats.at_max + stats.at_min
    if finite_limit and tensor.dtype.lstrip("<>|=") != "b1" and finite_limit * 100 >= stats.count:
        return "~", "warn"
    if stats.count > 1 and stats.min == stats.max:
        return "~", "warn"
    return " ", ""


def header(width: int, hint: str = "") -> Line:
    """Return the column names of :func:`tensor_line`; ``hint`` stands for the order."""
    names = f"{'NaN':>7}{'Inf':>7}{'zero':>6}{'min':>9}{'max':>9}{'mean':>8}"
    head = left(f"   tensor ({hint or 'execution order'})", max(width - _NUMBERS, 12))
    return fit(line((head + names, "dim")), width)


def tensor_line(tensor: TensorRecord, width: int) -> Line:
    """Return one tensor as a line: counts of NaN and Inf, zeros, range, mean."""
    mark, style = tensor_mark(tensor)
    room = max(width - _NUMBERS - 3, 9)
    name = safe(tensor.name, 400)
    # The shape stands in the detail; in the list only where the name leaves room.
    shape = numbers.shape(tensor.shape)
    both = len(name) + len(shape) + 2 <= room
    text = left(f"{name}  {shape}" if both else cut_middle(name, room), room)
    stats = tensor.stats
    if stats is None:
        # A value that is not an array (a sequence, a map) has a short text instead.
        none = "no values were kept" if tensor.blob is None else "not scanned"
        tail = (f" {safe(tensor.value or none, 44)}", "dim")
        spans: list[Any] = [tail]
    else:
        inf = stats.pos_inf + stats.neg_inf
        spans = [
            (f"{_count(stats.nan):>7}", "error" if stats.nan else "dim"),
            (f"{_count(inf):>7}", "error" if inf else "dim"),
            (f"{numbers.share(stats.zeros, stats.count):>6}", "number"),
            (f"{numbers.compact(stats.min, 8):>9}", "number"),
            (f"{numbers.compact(stats.max, 8):>9}", "number"),
            (f"{numbers.compact(stats.mean, 7):>8}", "number"),
        ]  # fmt: skip
    return fit(
        line(
            (f"{mark} ", style),
            ("o" if tensor.role == "output" else " ", "mark"),
            (text, style if style == "error" else ""),
            *spans,
            subject=Subject(
                kind="tensor",
                name=safe(tensor.name),
                tensor=tensor.id,
                node=tensor.producer if tensor.producer >= 0 else None,
            ),
        ),
        width,
    )


def tensor_detail(session: Session, tensor: TensorRecord, width: int) -> list[Line]:
    """Return all that is known of a tensor's values, and its first bad elements."""
    stats, lines = tensor.stats, []
    lines.append(
        line(
            (safe(tensor.name, 400), "title"),
            f"  {numbers.shape(tensor.shape)} {safe(tensor.dtype, 16)}  {tensor.role}",
            (f"  {tensor.origin}", "dim"),
            subject=Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
        )
    )
    if 0 <= tensor.producer < len(session.nodes):
        node = session.nodes[tensor.producer]
        inputs = [session.tensors[i] for i in node.inputs if 0 <= i < len(session.tensors)]
        dirty = [t for t in inputs if t.stats is not None and t.stats.nonfinite]
        state = f"{len(dirty)} of {len(inputs)} operands hold NaN or Inf" if dirty else (
            "all operands clean: it BEGINS HERE" if stats is not None and stats.nonfinite
            else "operands finite"
        )  # fmt: skip
        lines.append(
            line(
                f"  made by {safe(node.op_type, 24)}, ",
                (state, "error" if "BEGINS" in state else "warn" if dirty else "dim"),
                f"  {safe(node.label, 300)}",
                subject=Subject(kind="node", name=safe(node.label), node=node.index),
            )
        )
        lines += [_dirty_line(each) for each in dirty[:_OPERANDS]]
    if tensor.first_seq >= 0:
        lines.append(
            line(
                f"  written by commands {tensor.first_seq}..{tensor.last_seq}",
                subject=Subject(kind="command", seq=tensor.first_seq, tensor=tensor.id),
            )
        )
    if stats is not None:
        lines += _stats_lines(stats, tensor.origin)
        if stats.nonfinite:
            lines += _bad_lines(session, tensor)
    return [fit(each, width) for each in lines]


def first_bad(array: npt.NDArray[Any], limit: int = 4) -> list[tuple[int, ...]]:
    """Return the coordinates of the first ``limit`` NaN or Inf elements, in C order."""
    flat = array.reshape(-1)
    found: list[tuple[int, ...]] = []
    for at in range(0, flat.size, _BLOCK):
        with np.errstate(all="ignore"):
            part = flat[at : at + _BLOCK]
            part = part.astype(np.float32) if part.dtype.kind == "V" else part
            hits = np.flatnonzero(~np.isfinite(part))[: limit - len(found)]
        found += [tuple(int(i) for i in np.unravel_index(int(h) + at, array.shape)) for h in hits]
        if len(found) >= limit:
            break
    return found


def _dirty_line(tensor: TensorRecord) -> Line:
    stats = tensor.stats
    assert stats is not None
    bad = [(stats.nan, "NaN"), (stats.pos_inf + stats.neg_inf, "Inf")]
    text = ", ".join(f"{count:,} {what}" for count, what in bad if count)
    return line(
        "    reads ",
        (safe(tensor.name, 200), "key"),
        f" ({tensor.role}): ",
        (f"{text} of {stats.count:,}", "error"),
        (f"  {tensor.origin}", "dim"),
        subject=Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
    )


def _stats_lines(stats: Stats, origin: str) -> list[Line]:
    n = stats.count
    bad: Style = "error" if stats.nonfinite else "number"
    return [
        line(
            (f"  NaN {stats.nan:,}  +Inf {stats.pos_inf:,}  -Inf {stats.neg_inf:,}", bad),
            (f"  of {n:,} ({numbers.share(stats.nonfinite, n)})", "number"),
        ),
        line(
            ((f"  zeros {numbers.share(stats.zeros, n)}  subnormal {stats.subnormal:,}"
             f"  at limits {stats.at_min:,}/{stats.at_max:,}"), "number"),
        ),
        line(
            ((f"  min {numbers.value(stats.min)}  max {numbers.value(stats.max)}"
             f"  mean {numbers.value(stats.mean)}  std {numbers.value(stats.std)}"), "number"),
            (f"  {origin}", "dim"),
        ),
    ]  # fmt: skip


def _bad_lines(session: Session, tensor: TensorRecord) -> list[Line]:
    array = session.array(tensor)
    if array is None:
        return [line(("  values not kept in this session", "dim"))]
    lines = []
    for at in first_bad(array):
        item = array[at]
        where = ",".join(str(i) for i in at)
        raw = np.asarray(item).tobytes().hex(" ").upper()
        lines.append(line((f"  [{where}] = {safe(item, 24)}", "error"), (f"  bytes {raw}", "dim")))
    return lines


def _count(number: int) -> str:
    for scale, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= scale:
            scaled = number / min(scale, 10**3 if unit == "k" else scale)
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:.0f}{unit}"
    return str(number) if number else "."
