"""The plain report of a session: what `npudbg check` prints.

Verdict first, then findings, inputs, device, counters, and the exact commands
with which to go on.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from npudbg.render.counters import counter_lines
from npudbg.render.findings import finding_detail, finding_line
from npudbg.render.fit import fit, wrapped
from npudbg.render.golden import golden_lines
from npudbg.render.inputs import inputs_table
from npudbg.render.marks import LEGEND, layer_mark
from npudbg.render.overview import run_lines
from npudbg.render.verdict import boxed, deciding, verdict_lines
from npudbg.session.lines import Line, Span, line
from npudbg.session.reader import Session
from npudbg.session.records import LAYER_NAMES, Finding
from npudbg.session.text import safe

_DETAILS = 12
_LISTED = 40


def report_lines(
    session: Session, *, width: int = 80, path: Path | str | None = None, again: Sequence[str] = ()
) -> list[Line]:
    """Return the report of a judged session.

    Args:
        session: The record.
        width: Columns; at least 40.
        path: Where the session stays; None if it is temporary.
        again: The command line that made it, to suggest how to keep the session.
    """
    width = max(width, 40)
    blank = line("")
    lines = boxed(verdict_lines(session, width - 4), width, _title(session))
    lines += [fit(_layers(session), width), fit(line((f"        {LEGEND}", "dim")), width), blank]
    lines += _findings(session, width)
    table = inputs_table(session, width)
    if table:
        lines += [line(("inputs", "title")), *table, blank]
    lines += [*run_lines(session, width), blank]
    golden = golden_lines(session, width)
    if golden:
        lines += [*golden, blank]
    if session.counters:
        lines += [line(("counters", "title")), *counter_lines(session.counters, width), blank]
    for note in session.meta.notes[:32]:
        lines += wrapped(safe(note, 400), width, "dim", lead="note: ")
    lines += [line(("go on", "title")), *_go_on(session, path, again)]
    return lines


def _title(session: Session) -> str:
    meta = session.meta
    model = safe(meta.model.name, 60) if meta.model is not None else "no model"
    return f"{model} @{safe(meta.target, 24)} {safe(meta.precision, 8)}"


def _layers(session: Session) -> Line:
    spans = [Span("layers  ", "dim")]
    for layer in (1, 2, 3, 4):
        mark, style = layer_mark(session, layer)
        spans.append(Span(f"{layer} {LAYER_NAMES[layer]} {mark}   ", style))
    return Line(tuple(spans))


def _findings(session: Session, width: int) -> list[Line]:
    found = session.findings
    if not found:
        return [line(("findings", "title"), "  none"), line("")]
    counts = {s: sum(f.severity == s for f in found) for s in ("error", "warning", "info")}
    text = ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    lines = [line(("findings", "title"), f"  {text}")]
    first = deciding(session)
    # The one that decided stands in the box already.
    detailed = [f for f in found if f.severity == "error" and f is not first][:_DETAILS]
    rest = [f for f in found if f not in detailed]
    for each in detailed:
        lines += finding_detail(each, width)
    shown = sorted(rest, key=_gravity)[:_LISTED]
    lines += [finding_line(each, width) for each in shown]
    if len(rest) > len(shown):
        lines.append(line((f"… {len(rest) - len(shown)} more; see them all with --json", "dim")))
    return [*lines, line("")]


def _gravity(finding: Finding) -> tuple[int, int]:
    return ("error", "warning", "info").index(finding.severity), finding.layer


def _go_on(session: Session, path: Path | str | None, again: Sequence[str]) -> list[Line]:
    """Return the exact next commands; never cut, so that they can be copied."""
    finding, lines = deciding(session), []
    code = finding.code if finding is not None else ""
    if path is not None:
        file = shlex.quote(safe(path, 4096))
        lines.append(line(f"  npudbg replay {file}", ("   # step through it", "dim")))
        if finding is not None and finding.subject.seq is not None:
            verb = f"goto {finding.subject.seq}"
            lines.append(
                line(
                    f"  npudbg replay {file} --batch -ex {shlex.quote(verb)} -ex 'info command'",
                    ("   # the command at fault", "dim"),
                )
            )
    elif again:
        words = " ".join(shlex.quote(safe(w, 4096)) for w in again)
        lines.append(line(f"  {words} --save run.npudbg", ("   # keep the session", "dim")))
        lines.append(line("  npudbg replay run.npudbg", ("   # step through it", "dim")))
    if code:
        lines.append(
            line(f"  npudbg explain {safe(code, 8)}", ("   # meaning, why, how to mend", "dim"))
        )
    return lines or [line("  nothing to do")]
