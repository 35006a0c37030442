"""What verbs print: lines, JSON and findings, in the report's own form."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from npudbg.session.jsonable import finite
from npudbg.session.lines import Line, Style, line
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.session.records import Finding

_MARKS: dict[str, tuple[str, Style]] = {
    "error": ("ERROR", "error"),
    "warning": ("warning", "warn"),
    "info": ("info", "dim"),
}


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 1 if a finding is an error, else 0."""
    return int(any(f.severity == "error" for f in findings))


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
    sys.stdout.write(json.dumps(finite(document), indent=2, ensure_ascii=True) + "\n")


def _short(value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 6:
        return safe(list(value[:6]), 160) + f"… ({len(value)} in all)"
    return safe(value, 160)
