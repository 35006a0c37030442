"""A run that is under way, as one line."""

from __future__ import annotations

from npudbg.render.fit import cut_middle, fit
from npudbg.session.lines import Line, line
from npudbg.session.text import safe


def progress_line(done: int, total: int, label: str, width: int) -> Line:
    """Return ``node 37/212 [#####     ] /block3/conv`` in at most ``width`` columns."""
    total = max(total, 0)
    done = min(max(done, 0), total) if total else max(done, 0)
    count = f"node {done}/{total} " if total else f"node {done} "
    bar = ""
    if total and width >= len(count) + 24:
        size = min(20, width - len(count) - 20)
        full = size * done // total
        bar = f"[{'#' * full}{' ' * (size - full)}] "
    room = max(width - len(count) - len(bar), 0)
    name = cut_middle(safe(label, 400), room) if room else ""
    return fit(line((count, "title"), (bar, "number"), name), width)
