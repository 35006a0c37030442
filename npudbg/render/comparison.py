"""Two sessions side by side, as lines: first what parts them, then the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npudbg.render import numbers
from npudbg.render.counters import counter_value
from npudbg.render.fit import cut_middle, fit, left, right, wrapped
from npudbg.session.comparison import CommandDifference, Comparison, Pair, TensorDifference
from npudbg.session.golden import Closeness
from npudbg.session.lines import Line, Style, line
from npudbg.session.records import Counter, Finding, Subject
from npudbg.session.text import safe

_MOST = 12
_STYLES: dict[str, Style] = {"error": "error", "warning": "warn", "info": ""}
_ADDRESSES = frozenset({"src", "dst"})


def comparison_lines(found: Comparison, width: int = 100) -> list[Line]:
    """Return a comparison as lines of at most ``width`` columns."""
    lines = [
        line(("A ", "title"), safe(found.a, 400)),
        line(("B ", "title"), safe(found.b, 400)),
        _answer(found),
    ]
    lines += _settings(found.settings, width)
    if found.command is not None:
        lines += _command(found.command, width)
    lines += _tensors(found, width)
    lines += _outputs(found.outputs, width)
    lines += _figures(found, width)
    lines += _findings("gained in B", found.gained, width)
    lines += _findings("lost in B", found.lost, width)
    return [fit(each, width) for each in lines]


def short_lines(found: Comparison, width: int = 100) -> list[Line]:
    """Return the answer, the first difference and the findings alone."""
    lines = [_answer(found)]
    if found.command is not None:
        lines += _command(found.command, width)
    if found.tensors:
        lines.append(_tensor(found.tensors[0], "  first tensor: ", width))
    lines += _findings("gained", found.gained, width)
    lines += _findings("lost", found.lost, width)
    return [fit(each, width) for each in lines]


def _answer(found: Comparison) -> Line:
    if found.equal:
        what = f"{numbers.value(found.commands.a)} commands, {found.compared} tensors"
        return line(("equal", "ok"), f": {what}")
    parts = []
    if found.command is not None:
        parts.append(f"they part at command {found.command.seq}")
    if found.differing:
        parts.append(f"{found.differing} tensors differ ({found.compared} are in both)")
    if found.status.a != found.status.b:
        parts.append(f"status {safe(found.status.a, 20)} | {safe(found.status.b, 20)}")
    text = ", ".join(parts) or "figures or findings differ"
    return line(("different", "error"), f": {text}")


def _settings(settings: Sequence[Pair], width: int) -> list[Line]:
    lines = [line(("settings", "title"))] if settings else []
    for pair in settings[:40]:
        text = f"{_setting(pair, pair.a)}  |  {_setting(pair, pair.b)}"
        lines += wrapped(text, width, lead=f"  {left(safe(pair.name, 24), 24)} ")
    return lines


def _setting(pair: Pair, value: Any) -> str:
    if value is None:
        return "-"
    if pair.name == "profile":
        return f"{len(str(value)):,} characters of TOML"
    if isinstance(value, list):
        return safe(", ".join(safe(v, 100) for v in value[:_MOST]), 200)
    return safe(value, 80)


def _command(found: CommandDifference, width: int) -> list[Line]:
    what = " ".join(safe(w, 60) for w in (found.kind, found.node, found.tensor) if w)
    lines = [
        line(
            ("first differing command", "title"),
            (f"  {found.seq} ", "number"),
            what,
            subject=Subject(kind="command", seq=found.seq),
        )
    ]
    for pair in found.fields:
        lines.append(
            line(f"  {pair.name:<10} {_column(pair.name, pair.a)}  |  {_column(pair.name, pair.b)}")
        )
    if found.foreign:
        who = " and ".join(w.upper() for w in found.foreign)
        lines.append(line((f"  in {who} it read bytes that no command had written", "changed")))
    if found.wrote:
        lines.append(
            line((f"  {found.wrote:,} of the bytes that it moved or made differ", "changed"))
        )
    return lines


def _column(name: str, value: Any) -> str:
    if name in _ADDRESSES and isinstance(value, int):
        return numbers.address(value)
    if name == "box" and isinstance(value, list):
        shown = [b for b in value if list(b) != [0, 0]]
        return "[" + ",".join(f"{a}:{b}" for a, b in shown) + "]"
    return safe(f"{value:,}" if type(value) is int else value, 60)


def _tensors(found: Comparison, width: int) -> list[Line]:
    if not found.tensors:
        return []
    lines = [line(("differing tensors", "title"), ("  in execution order, B beside A", "dim"))]
    lines += [_tensor(each, "  ", width) for each in found.tensors[:_MOST]]
    if found.differing > _MOST:
        lines.append(line((f"  and {found.differing - _MOST} more", "dim")))
    return lines


def _outputs(outputs: Sequence[TensorDifference], width: int) -> list[Line]:
    if not outputs:
        return []
    return [
        line(("differing outputs", "title")),
        *(_tensor(each, "  ", width) for each in outputs[:_MOST]),
    ]


def _tensor(found: TensorDifference, lead: str, width: int) -> Line:
    name = left(cut_middle(safe(found.name, 400), 26), 26)
    return line(
        lead,
        (name, "key"),
        f" {_how(found)}",
        subject=Subject(kind="tensor", name=safe(found.name), tensor=found.tensor),
    )


def _how(found: TensorDifference) -> str:
    if found.reason in ("only-a", "only-b"):
        return f"only in {found.reason[-1].upper()}"
    if found.reason == "not-kept":
        return "its values are kept in one session only"
    text = ""
    if found.what is not None:
        text = f"{found.reason} {_plain(found.reason, found.what.a)} | "
        text += f"{_plain(found.reason, found.what.b)}  "
    return (text + ("" if found.metrics is None else _metrics(found.metrics))).rstrip() or "differs"


def _plain(reason: str, value: Any) -> str:
    if isinstance(value, list):
        return numbers.shape(value) if reason == "shape" else safe(tuple(value), 40)
    return safe(value, 20)


def _metrics(found: Closeness) -> str:
    if not found.mismatches:
        return "the same numbers in other bytes"
    parts = [
        f"max abs {numbers.value(found.max_abs)}",
        f"cos {numbers.value(found.cosine, 7)}",
        f"{found.mismatches:,} of {found.count:,} differ",
    ]
    if found.nonfinite:
        parts.append(f"{found.nonfinite:,} NaN/Inf in B")
    return ", ".join(parts)


def _figures(found: Comparison, width: int) -> list[Line]:
    one, other = found.origins
    head = f"{'A ' + one:>18} {'B ' + other:>18}"
    lines = [line(("figures", "title"), (f"{'':<17}{head}", "dim"))]
    rows = [found.commands, found.cycles, found.status, found.verdicts, *found.counters[:64]]
    for pair in rows:
        unit = found.units.get(pair.name, "")
        a, b = _figure(pair.name, pair.a, unit), _figure(pair.name, pair.b, unit)
        style: Style = "" if pair.a == pair.b else "changed"
        lines.append(
            line(
                ("  " + left(safe(pair.name, 40), 22), "key"),
                (f"{right(a, 18)} {right(b, 18)}", "number"),
                ("" if pair.a == pair.b else "  *" + _change(pair), style),
            )
        )
    return lines


def _figure(name: str, value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return safe(value, 18) or "none"
    if isinstance(value, float):
        return counter_value(Counter(name=name, value=value, unit=unit))
    return safe(f"{value:,}", 18)


def _change(pair: Pair) -> str:
    numeric = all(isinstance(v, int | float) for v in (pair.a, pair.b))
    if not numeric or not pair.a or pair.a != pair.a or pair.b != pair.b:
        return ""
    return f" {100 * (pair.b - pair.a) / abs(pair.a):+.1f}%"


def _findings(title: str, findings: Sequence[Finding], width: int) -> list[Line]:
    if not findings:
        return []
    lines = [line((f"findings {title}", "title"))]
    for each in findings[:_MOST]:
        rows = wrapped(
            safe(each.message, 600), width, _STYLES[each.severity],
            lead=f"  {safe(each.code, 8)} {each.severity} ",
        )  # fmt: skip
        lines += [Line(row.spans, each.subject) for row in rows]
    if len(findings) > _MOST:
        lines.append(line((f"  and {len(findings) - _MOST} more", "dim")))
    return lines
