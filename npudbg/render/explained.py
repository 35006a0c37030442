"""A finding's code explained: what it means, why hardware cares, how to confirm and mend it."""

from __future__ import annotations

from npudbg.layers import catalogue
from npudbg.render.findings import finding_detail
from npudbg.render.fit import wrapped
from npudbg.session.lines import Line, line
from npudbg.session.records import Finding
from npudbg.session.text import safe

_PARTS = (
    ("seen", "meaning"),
    ("why it matters", "why"),
    ("confirm on the board", "confirm"),
    ("mend", "mend"),
)


def explained(finding: Finding, width: int) -> list[Line]:
    """Return a finding, then its code's long text from the catalogue."""
    lines = [*finding_detail(finding, width), line("")]
    entry = catalogue.entry(finding.code)
    if entry is None:
        text = f"{safe(finding.code, 8)} is in no catalogue that is loaded"
        return [*lines, line((text, "warn"))]
    lines += wrapped(safe(entry.title, 400), width, "title")
    for heading, field in _PARTS:
        lines += [line(""), line((heading, "title"))]
        lines += wrapped(safe(getattr(entry, field), 4000), width, lead="  ")
    return lines
