"""The rule registry: which rule judges which layer, and how a finding is made.

A rule is a function from a :class:`~npudbg.layers.case.Case` to findings.  It
looks at facts and at the target's profile, and stays silent where the profile
makes no demand.  Its texts stand in the catalogue under the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from npudbg.layers import catalogue
from npudbg.layers.case import Case
from npudbg.session.records import Certainty, Finding, Origin, Severity, Subject

Judge = Callable[[Case], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A judge, the layer whose facts it needs, and the codes it may give."""

    layer: int
    codes: tuple[str, ...]
    judge: Judge
    source: str = "npudbg"

    @property
    def name(self) -> str:
        """The function's name."""
        return self.judge.__name__


_rules: list[Rule] = []


def rule(layer: int, *codes: str) -> Callable[[Judge], Judge]:
    """Register a function as a rule of ``layer`` that gives findings of ``codes``."""

    def register(judge: Judge) -> Judge:
        _rules.append(Rule(layer, codes, judge))
        return judge

    return register


def rules(layer: int, extra: Iterable[Rule] = ()) -> list[Rule]:
    """Return the rules of a layer: npudbg's own, then a plugin's (``extra``)."""
    _load()
    return [r for r in (*_rules, *extra) if r.layer == layer]


def judge(
    case: Case,
    layer: int,
    extra: Iterable[Rule] = (),
    failed: Callable[[Rule, Exception], None] | None = None,
) -> list[Finding]:
    """Return the findings of one layer.

    Args:
        case: The facts.
        layer: 1-4.
        extra: Rules of plugins.
        failed: Told of a plugin's rule that raised; npudbg's own raise through.
    """
    found: list[Finding] = []
    for each in rules(layer, extra):
        if each.source == "npudbg" or failed is None:
            found.extend(each.judge(case))
            continue
        try:
            found.extend(each.judge(case))
        except Exception as error:
            failed(each, error)
    return found


def finding(
    code: str,
    subject: Subject,
    message: str,
    *,
    evidence: dict[str, Any] | None = None,
    fix: str = "",
    severity: Severity | None = None,
    certainty: Certainty = "proven",
    related: tuple[Subject, ...] = (),
    origin: Origin = "measured",
    source: str = "npudbg",
) -> Finding:
    """Make a finding of a catalogued code.

    Args:
        code: A code of the catalogue.
        subject: What is at fault.
        message: One line; names in it must already be safe to print.
        evidence: The numbers compared (JSON values).
        fix: One line; the catalogue's text is for the long form.
        severity: Overrides the catalogue's.
        certainty: ``proven`` only if the record shows the cause.
        related: Further subjects.
        origin: Where the figures come from.
        source: Plugin name.

    Raises:
        KeyError: The code is not in the catalogue.
    """
    entry = catalogue.entry(code)
    if entry is None:
        raise KeyError(f"finding code {code} is not in the catalogue")
    return Finding(
        code=code,
        name=entry.name,
        layer=entry.layer,
        severity=severity or entry.severity,
        certainty=certainty,
        subject=subject,
        message=message,
        evidence=evidence or {},
        fix=fix,
        related=related,
        origin=origin,
        source=source,
    )


def _load() -> None:
    """Import npudbg's own rules (each module registers itself)."""
    # In the order in which their findings stand: what happened before what it cost.
    from npudbg.layers import host, inputs, outputs, trace, trace_thresholds  # noqa: F401
