"""Untrusted text made safe to print: no control characters, bounded length."""

from __future__ import annotations

import unicodedata

_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def safe(text: object, limit: int = 120) -> str:
    """Return ``text`` on one line, without control characters, at most ``limit`` long.

    Control and format characters (escape codes, bidirectional overrides, line
    separators) become ``?`` so that a name from a model can neither move the
    cursor nor hide a part of itself.  A longer text keeps its head and its tail.

    Args:
        text: Anything; ``str()`` is taken.
        limit: Longest result, in characters (at least 8).
    """
    raw = str(text)
    if len(raw) > limit:
        keep = limit - 1
        head = (keep * 2) // 3
        raw = raw[:head] + "…" + raw[len(raw) - (keep - head) :]
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join("?" if unicodedata.category(c) in _UNSAFE else c for c in raw)
