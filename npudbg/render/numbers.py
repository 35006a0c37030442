"""Figures as text: bytes, cycles, addresses, shapes; always with their unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npudbg.session.text import safe

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def nbytes(count: int) -> str:
    """Return bytes with a binary unit: ``64 B``, ``56 KiB``, ``1.5 MiB``."""
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    text = f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.1f}"
    return f"{text} {_UNITS[unit]}"


def cycles(count: int) -> str:
    """Return cycles of the device clock: ``445,638 cyc``."""
    return f"{count:,} cyc"


def duration(count: int, clock_hz: int) -> str:
    """Return what ``count`` cycles last at ``clock_hz`` (``""`` when no clock is known)."""
    if clock_hz <= 0:
        return ""
    seconds = count / clock_hz
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    return ""


def address(value: int) -> str:
    """Return an address: ``0x`` and at least eight digits."""
    return f"-0x{-value:08x}" if value < 0 else f"0x{value:08x}"


def shape(dims: Sequence[int | str | None] | None) -> str:
    """Return a shape: ``1x3x224x224``, ``Nx3x?``, ``scalar``, or ``any rank``."""
    if dims is None:
        return "any rank"
    if not dims:
        return "scalar"
    return "x".join("?" if d is None else safe(d, 24) for d in dims)


def value(number: float | None, digits: int = 5) -> str:
    """Return a number in few characters; ``-`` for none."""
    if number is None:
        return "-"
    if isinstance(number, int):
        return f"{number:,}" if abs(number) < 10**12 else f"{number:.{digits}g}"
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return f"{number:.{digits}g}"


def compact(number: float | None, width: int, digits: int = 4) -> str:
    """Return a number in at most ``width`` columns (at least 7), as exactly as fits."""
    if number is None or not math.isfinite(number):
        return value(number)
    if 10**digits <= abs(number) < 10 ** (width - 1):
        return f"{number:.0f}"
    for kept in range(digits, 0, -1):
        text = f"{number:.{kept}g}"
        if len(text) <= width:
            return text
    return f"{number:.0e}"


def share(part: float, whole: float) -> str:
    """Return a percentage: ``12%``, ``0.3%``; ``-`` of nothing."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    if percent and abs(percent) < 0.1:
        return "<0.1%"
    return f"{percent:.1f}%" if 0 < abs(percent) < 10 else f"{percent:.0f}%"


def named(key: str, item: object) -> str:
    """Return an evidence value as its key asks for: addresses in hex, sizes with their unit."""
    if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
        word = str(key).lower()
        if word == "page" or any(p in word for p in ("address", "addr", "issued", "pointer")):
            return address(item)
        if "remainder" in word or word == "offset":
            return f"{item:#x}" if item else "0"
        if item >= 1024 and any(part in word for part in ("bytes", "alignment", "size", "lost")):
            return f"{item} ({nbytes(item)})"
    return evidence(item)


def evidence(item: object, depth: int = 0) -> str:
    """Return one evidence value (JSON data) as short text; long lists say their length."""
    if isinstance(item, bool) or item is None or isinstance(item, str):
        return safe(item, 120)
    if isinstance(item, float):
        return value(item, 7)
    if isinstance(item, int):
        return safe(item, 40)
    if isinstance(item, (list, tuple)):
        if depth > 3:
            return f"[{len(item)} items]"
        inside = ", ".join(evidence(i, depth + 1) for i in item[:8])
        return f"[{inside}{f', … {len(item)} in all' if len(item) > 8 else ''}]"
    if isinstance(item, dict):
        if depth > 3:
            return f"{{{len(item)} items}}"
        pairs = [f"{safe(k, 60)}={evidence(v, depth + 1)}" for k, v in list(item.items())[:8]]
        more = f", … {len(item)} in all" if len(item) > 8 else ""
        return f"{{{', '.join(pairs)}{more}}}"
    return safe(item, 120)
