"""Lines for terminals that are less than UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

from npudbg.session.lines import Line

_ASCII = {
    "─": "-", "│": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+",
    "✓": "v", "…": "~", "←": "<-", "→": "->", "·": ".", "µ": "u", "≥": ">=", "≤": "<=",
    "▁": ".", "▂": ".", "▃": "-", "▄": "-", "▅": "+", "▆": "+", "▇": "#",
    "█": "#", "▓": "#", "▒": "+", "░": ".", "▲": "^", "×": "x",
}  # fmt: skip
_TABLE = str.maketrans(_ASCII)


def text_of(lines: Iterable[Line], encoding: str | None = None) -> str:
    """Return lines as one text, each ended by a newline.

    Args:
        lines: What to print.
        encoding: The stream's; what it cannot carry is spelled in ASCII.
    """
    rows = []
    for each in lines:
        row = each.text.rstrip()
        if encoding and not row.isascii():
            try:
                row.encode(encoding)
            except (UnicodeEncodeError, LookupError):
                row = row.translate(_TABLE).encode("ascii", "replace").decode("ascii")
        rows.append(row + "\n")
    return "".join(rows)
