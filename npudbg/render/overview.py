"""A session at a glance: the verdict, what it warns of, and the run's own figures."""

from __future__ import annotations

from npudbg.render import numbers
from npudbg.render.commands import origin_of
from npudbg.render.counters import counter_lines
from npudbg.render.fit import fit, wrapped
from npudbg.render.marks import SEVERITY
from npudbg.render.verdict import verdict_lines
from npudbg.session.lines import Line, line
from npudbg.session.reader import Session
from npudbg.session.text import safe

_NUMBERS = 3
"""Lines of numbers below a verdict: its fix is to be seen on a small terminal."""
_WARNINGS = 8


def overview_lines(session: Session, width: int) -> list[Line]:
    """Return the verdict in short, the warnings where nothing is at fault, run and counters."""
    lines = verdict_lines(session, width, most=_NUMBERS)
    verdict = session.verdict
    if verdict is not None and verdict.layer == 0:
        lines += _warnings(session, width)
    lines += [line(""), *run_lines(session, width)]
    return lines + counter_lines(session.counters, width)


def run_lines(session: Session, width: int) -> list[Line]:
    """Return how much was run, how long it took, and how it ended."""
    origin = origin_of(session)
    lasts = numbers.duration(session.n_cycles, session.meta.clock_hz)
    text = (
        f"  {len(session.nodes):,} nodes, {session.n_commands:,} commands, "
        f"{numbers.cycles(session.n_cycles)}{f' = {lasts}' if lasts else ''}"
    )
    return [
        fit(line(("run", "title"), text, (f"  {origin}", "dim")), width),
        fit(line((f"  status {safe(session.status, 24)}{_hosted(session)}", "dim")), width),
    ]


def _hosted(session: Session) -> str:
    count = sum(n.engine == "host" for n in session.nodes)
    return f", {count} node{'s' if count > 1 else ''} on the host" if count else ""


def _warnings(session: Session, width: int) -> list[Line]:
    found = [f for f in session.findings if f.severity == "warning"]
    lines: list[Line] = []
    for each in found[:_WARNINGS]:
        mark, style = SEVERITY[each.severity]
        lead = f"{mark} {safe(each.code, 8)}".ljust(11)
        for row in wrapped(safe(each.message, 600), width, lead=lead):
            head, *rest = row.spans
            lines.append(line((head.text, style), *rest, subject=each.subject))
    return lines
