"""What verbs print: lines, JSON and findings, in the report's own form."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from npudbg.session.lines import Line, Style, line
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.session.records import Finding, Subject

_MARKS: dict[str, tuple[str, Style]] = {
    "error": ("ERROR", "error"),
    "warning": ("warning", "warn"),
    "info": ("info", "dim"),
}


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 1 if a finding is an error, else 0."""
    return int(any(f.severity == "error" for f in findings))


def subject_dict(subject: Subject) -> dict[str, Any]:
    """Return a subject as the report shows it: kind, name, and what else is known."""
    return {"kind": subject.kind, "name": subject.name, **msgspec.to_builtins(subject)}


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as the JSON report shows it.

    Non-finite numbers in the evidence become the strings ``nan``, ``inf``, ``-inf``.
    """
    shown: dict[str, Any] = {
        "code": finding.code,
        "name": finding.name,
        "layer": finding.layer,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "subject": subject_dict(finding.subject),
        "message": finding.message,
        "evidence": _finite(msgspec.to_builtins(finding.evidence)),
        "fix": finding.fix,
    }
    if finding.related:
        shown["related"] = [subject_dict(s) for s in finding.related]
    shown["origin"] = finding.origin
    shown["source"] = finding.source
    return shown


def finding_lines(finding: Finding) -> list[Line]:
    """Return a finding as text: what, the numbers compared, what to do."""
    word, style = _MARKS[finding.severity]
    suspected = " (suspected)" if finding.certainty == "suspected" else ""
    lines = [
        line(
            (f"{word} {finding.code}", style),
            f" {finding.name}{suspected}: {safe(finding.message, 400)}",
            subject=finding.subject,
        )
    ]
    if finding.evidence:
        numbers = ", ".join(f"{safe(k)}={_short(v)}" for k, v in finding.evidence.items())
        lines.append(
            line((f"    {finding.origin}: {safe(numbers, 400)}", "dim"), subject=finding.subject)
        )
    if finding.fix:
        lines.append(line(f"    fix: {safe(finding.fix, 400)}", subject=finding.subject))
    return lines


def write_lines(lines: Iterable[Line]) -> None:
    """Print lines as plain text; what the terminal's encoding lacks becomes ``?``."""
    encoding = sys.stdout.encoding or "utf-8"
    for each in lines:
        text = each.text.rstrip() + "\n"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document; non-finite numbers become strings."""
    sys.stdout.write(json.dumps(_finite(document), indent=2, ensure_ascii=True) + "\n")


def _short(value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 6:
        return safe(list(value[:6]), 160) + f"… ({len(value)} in all)"
    return safe(value, 160)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
