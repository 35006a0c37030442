"""Findings: one line in a list, all of it in a detail view."""

from __future__ import annotations

from npudbg.render import numbers
from npudbg.render.fit import cells, cut_middle, fit, left, wrapped
from npudbg.render.marks import SEVERITY, layer_name
from npudbg.session.lines import Line, line
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_EVIDENCE = 24


def subject_text(subject: Subject, width: int = 60) -> str:
    """Return what a subject is, in words: ``tensor x``, ``command 18204``, ``ddr 0x40000000``."""
    if subject.kind == "command" and subject.seq is not None:
        text = f"command {subject.seq}"
        return f"{text} ({cut_middle(safe(subject.name), width)})" if subject.name else text
    if subject.kind == "address" and subject.address is not None:
        return f"{safe(subject.space or '', 8)} {numbers.address(subject.address)}".strip()
    name = cut_middle(safe(subject.name, 400), width)
    if subject.file:
        name = f"{name} of {safe(subject.file, width)}"
    return f"{subject.kind} {name}".strip()


def finding_line(finding: Finding, width: int) -> Line:
    """Return one line for a list: mark, code, layer, what it is about, message."""
    mark, style = SEVERITY[finding.severity]
    room = max(min(width // 4, 36), 8)
    return fit(
        line(
            (f"{mark} ", style),
            (left(safe(finding.code, 8), 5), style),
            (f"L{finding.layer} " if finding.layer else "   ", "dim"),
            (left(cut_middle(safe(_about(finding.subject), 400), room), room), "key"),
            " " + safe(finding.message, 1000),
            subject=finding.subject,
        ),
        width,
    )


def finding_detail(finding: Finding, width: int) -> list[Line]:
    """Return all that a finding says, wrapped to ``width``."""
    mark, style = SEVERITY[finding.severity]
    who = "" if finding.source == "npudbg" else f"  by plugin {safe(finding.source, 24)}"
    lines = [
        fit(
            line(
                (f"{mark} {safe(finding.code, 8)} {safe(finding.name, 60)}", style),
                f"  {finding.severity}, {finding.certainty}, {layer_name(finding.layer)}{who}",
                subject=finding.subject,
            ),
            width,
        ),
        *wrapped(subject_text(finding.subject, max(width - 16, 16)), width, "key", lead="  at    "),
        *wrapped(safe(finding.message, 1200), width, lead="  what  "),
    ]
    lines += evidence_lines(finding, width, lead=f"  {finding.origin}  ")
    if finding.fix:
        lines += wrapped(safe(finding.fix, 1200), width, lead="  fix   ")
    return lines


def evidence_lines(
    finding: Finding, width: int, *, lead: str, most: int | None = None
) -> list[Line]:
    """Return the numbers that were compared, several a line, none cut in two where it fits.

    Args:
        finding: Whose.
        width: Columns.
        lead: What stands before the first line.
        most: Most lines; a further one says how many were left off.  None for all.
    """
    rows: list[str] = []
    for key, item in list(finding.evidence.items())[:_EVIDENCE]:
        text = f"{safe(key, 40)} = {numbers.named(key, item)}"
        if rows and cells(rows[-1]) + cells(text) + 3 <= width - cells(lead):
            rows[-1] += f",  {text}"
        else:
            rows.append(text)
    lines: list[Line] = []
    for row in rows:
        begin = lead if not lines else " " * cells(lead)
        if cells(row) <= width - cells(lead):
            lines.append(line(begin, (row, "number")))
        else:
            lines += wrapped(row, width, "number", lead=begin)
    if most is not None and len(lines) > most + 1:
        more = f"… {len(lines) - most} more lines with the finding itself"
        lines = [*lines[:most], fit(line(" " * cells(lead), (more, "dim")), width)]
    return lines


def _about(subject: Subject) -> str:
    if subject.kind == "command" and subject.seq is not None:
        return f"cmd {subject.seq}"
    if subject.kind == "address" and subject.address is not None:
        return numbers.address(subject.address)
    return subject.name or subject.kind
