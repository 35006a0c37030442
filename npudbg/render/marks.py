"""Marks: the one character that says how a thing stands, never by colour alone."""

from __future__ import annotations

from collections.abc import Iterable

from npudbg.session.lines import Style
from npudbg.session.reader import Session
from npudbg.session.records import LAYER_NAMES, Finding

ERROR, WARNING, INFO, GOOD, UNKNOWN = "!", "~", "i", "✓", "-"

SEVERITY: dict[str, tuple[str, Style]] = {
    "error": (ERROR, "error"),
    "warning": (WARNING, "warn"),
    "info": (INFO, "dim"),
}
LEGEND = "! error  ~ warning  i info  ✓ in order  - not judged"


def worst(findings: Iterable[Finding]) -> tuple[str, Style]:
    """Return the mark of the gravest of ``findings`` (in order when there is none)."""
    order = {"error": 0, "warning": 1, "info": 2}
    grave = min((f.severity for f in findings), key=order.__getitem__, default="info")
    return (GOOD, "ok") if grave == "info" else SEVERITY[grave]


def layer_mark(session: Session, layer: int) -> tuple[str, Style]:
    """Return how a layer stands; what never ran (or was never judged) is unknown.

    Args:
        session: The record.
        layer: 1 host, 2 input, 3 trace, 4 output.
    """
    found = [f for f in session.findings if f.layer == layer]
    if not any(f.severity != "info" for f in found):
        if session.verdict is None:
            return UNKNOWN, "dim"
        if layer >= 3 and not session.nodes:
            return UNKNOWN, "dim"
        if layer == 4 and session.status != "complete":
            return UNKNOWN, "dim"
    return worst(found)


def layer_name(layer: int) -> str:
    """Return ``layer 1 (host)``."""
    return f"layer {layer} ({LAYER_NAMES.get(layer, '?')})"
