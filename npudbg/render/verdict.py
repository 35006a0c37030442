"""The verdict: the one answer that stands on top."""

from __future__ import annotations

from npudbg.render.findings import evidence_lines, subject_text
from npudbg.render.fit import wrapped
from npudbg.render.marks import GOOD, layer_name
from npudbg.session.lines import Line, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Verdict
from npudbg.session.text import safe


def deciding(session: Session) -> Finding | None:
    """Return the finding that decided the verdict, else the gravest, else None."""
    verdict, findings = session.verdict, session.findings
    number = verdict.finding if verdict is not None else None
    if number is not None and 0 <= number < len(findings):
        return findings[number]
    if verdict is not None and verdict.code:
        for each in findings:
            if each.code == verdict.code:
                return each
    return next((f for f in findings if f.severity == "error"), None)


def headline(verdict: Verdict | None) -> tuple[str, Style]:
    """Return the verdict in some words: which layer is at fault."""
    if verdict is None:
        return "NOT JUDGED: the run ended before a verdict", "warn"
    if verdict.layer == 0:
        return f"{GOOD} NOTHING AT FAULT", "ok"
    code = f"  {safe(verdict.code, 8)}" if verdict.code else ""
    return f"! AT FAULT: {layer_name(verdict.layer).upper()}{code}", "error"


def verdict_lines(session: Session, width: int, *, most: int | None = None) -> list[Line]:
    """Return headline, summary, the numbers compared, the chain, and what was ruled out.

    Args:
        session: The record.
        width: Columns.
        most: Most lines of numbers; None for all.
    """
    verdict, finding = session.verdict, deciding(session)
    text, style = headline(verdict)
    subject = finding.subject if finding is not None else None
    lines = [line((text, style), subject=subject)]
    if verdict is None:
        return lines
    if verdict.summary.lower() not in text.lower():
        lines += wrapped(safe(verdict.summary, 1200), width)
    if finding is not None and verdict.layer:
        about = subject_text(finding.subject, max(width - 24, 16))
        lines += wrapped(f"{about} ({finding.certainty})", width, "key", lead="at         ")
        lines += evidence_lines(finding, width, lead=f"{finding.origin:<10} ", most=most)
        if finding.fix:
            lines += wrapped(safe(finding.fix, 1200), width, lead="fix        ")
    for number, link in enumerate(verdict.chain):
        lead = "chain      " if not number else "        -> "
        # The link that the summary already told is not told twice.
        told = bool(verdict.summary) and link.endswith(verdict.summary)
        text = link.removesuffix(verdict.summary) + "as above" if told else link
        lines += wrapped(safe(text, 600), width, lead=lead)
    for number, link in enumerate(verdict.ruled_out):
        lead = "ruled out  " if not number else " " * 11
        lines += wrapped(safe(link, 600), width, "dim", lead=lead)
    return [Line(each.spans, subject) for each in lines]


def boxed(lines: list[Line], width: int, title: str = "") -> list[Line]:
    """Draw a frame of ``width`` columns around lines that fit ``width - 4``."""
    from npudbg.render.fit import cells, cut, fit

    title = f" {cut(title, width - 6)} " if title else ""
    top = "┌─" + title + "─" * (width - 3 - cells(title)) + "┐"
    rows = [line((top, "dim"))]
    for each in lines:
        each = fit(each, width - 4)
        pad = " " * (width - 4 - cells(each.text))
        rows.append(line(("│ ", "dim"), *each.spans, pad, (" │", "dim"), subject=each.subject))
    return [*rows, line(("└" + "─" * (width - 2) + "┘", "dim"))]
