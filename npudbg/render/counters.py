"""Counters of a run beside the thresholds they are judged by."""

from __future__ import annotations

from npudbg.render import numbers
from npudbg.render.fit import fit, left, right
from npudbg.session.lines import Line, Style, line
from npudbg.session.records import Counter
from npudbg.session.text import safe


def counter_value(counter: Counter) -> str:
    """Return a counter's value with its unit."""
    if counter.unit == "fraction":
        return numbers.share(counter.value, 1.0)
    if counter.unit == "bytes" and counter.value == counter.value:
        return numbers.nbytes(int(min(max(counter.value, 0), 2**62)))
    whole = counter.value == counter.value and abs(counter.value) < 1e15
    if whole and counter.value == int(counter.value):
        return f"{int(counter.value):,} {safe(counter.unit, 12)}".strip()
    return f"{numbers.value(counter.value)} {safe(counter.unit, 12)}".strip()


def counter_lines(counters: list[Counter], width: int) -> list[Line]:
    """Return a line a counter: name, value, verdict against its thresholds, origin."""
    lines = []
    for each in counters[:64]:
        word, style = judged(each)
        limits = ""
        if each.healthy or each.dangerous:
            limits = f"  ok {safe(each.healthy, 8)}, bad {safe(each.dangerous, 8)}"
        lines.append(
            fit(
                line(
                    "  ",
                    (left(safe(each.name, 24), 16), "key"),
                    (right(counter_value(each), 17), "number"),
                    (f"  {word:<9}", style),
                    (f"  {each.origin}{limits}", "dim"),
                ),
                width,
            )
        )
    return lines


def judged(counter: Counter) -> tuple[str, Style]:
    """Return ``healthy``, ``watch`` or ``dangerous``; ``""`` where no threshold is known."""
    if _meets(counter.value, counter.dangerous):
        return "dangerous", "error"
    if _meets(counter.value, counter.healthy):
        return "healthy", "ok"
    return ("watch", "warn") if counter.healthy else ("", "")


def _meets(value: float, limit: str) -> bool:
    """Whether ``value`` (a fraction) meets a limit such as ``> 70%``."""
    sign, _, number = limit.partition(" ")
    try:
        bound = float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        return False
    return (sign == ">" and value > bound) or (sign == "<" and value < bound)
