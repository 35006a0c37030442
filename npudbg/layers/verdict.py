"""The verdict: the earliest layer with an error, the chain to the symptom, what is in order."""

from __future__ import annotations

from collections.abc import Sequence

from npudbg.layers.case import Case
from npudbg.layers.ruled_out import ruled_out
from npudbg.session.records import LAYER_NAMES, Finding, Verdict

# Where two findings of a layer stand for cause and effect, the cause has the lower rank.
_RANK = {
    "T302": -2,  # a transfer from a wrong address explains a copy that differs
    "T310": -1,
    "T312": -1,
    "I201": -1,  # a wrong name explains a missing input
    "T311": 1,  # a kernel refuses what a transfer brought
    "O407": -1,  # a sum that overflowed is why O401 begins there
    "O402": 1,  # the symptom of O401
    "O404": 2,
    "H130": 1,
    "I260": 1,  # a fault of the data goes before a cost of the model
    "I262": 1,
    "I265": 1,
}
_MAX_LINKS = 8
_STOPPED = {
    "not-run": "the run was not started: a runtime would refuse these inputs",
    "failed": "the run stopped before its end",
    "hung": "the run never ended",
    "cancelled": "the run was cancelled before its end",
}


def verdict(findings: Sequence[Finding], *, case: Case, status: str = "complete") -> Verdict:
    """Return the one answer on top.

    The earliest layer with an error decides, and in it the finding with the best
    claim to be the cause: proven before suspected, cause before consequence, then
    the lower code and the earlier place.

    Args:
        findings: All findings, in the order in which the session keeps them.
        case: What was judged.
        status: How the run ended: ``complete``, ``failed``, ``hung``, ``not-run`` or
            ``cancelled``.
    """
    errors = [n for n, f in enumerate(findings) if f.severity == "error" and 1 <= f.layer <= 4]
    clean = ruled_out(findings, case, status)
    if not errors:
        return Verdict(layer=0, code="", summary=_nothing(findings, status), ruled_out=clean)
    at = min(errors, key=lambda n: (findings[n].layer, *_claim(findings[n]), n))
    first = findings[at]
    summary = first.message
    if first.certainty == "suspected":
        summary = f"suspected: {summary}"
    return Verdict(
        layer=first.layer,
        code=first.code,
        summary=summary,
        chain=_chain(findings, at, status),
        ruled_out=clean,
        finding=at,
    )


def _claim(finding: Finding) -> tuple[int, int, str]:
    proven = 0 if finding.certainty == "proven" else 1
    return proven, _RANK.get(finding.code, 0), finding.code


def _chain(findings: Sequence[Finding], at: int, status: str) -> tuple[str, ...]:
    """Return the links from cause to symptom: suspected causes, the cause, what follows."""
    first = findings[at]
    links = [_link(f, "suspected cause") for f in _suspected_causes(findings, first)]
    links.append(_link(first))
    for layer in range(first.layer, 5):
        later = [
            f
            for n, f in enumerate(findings)
            if n != at and f.layer == layer and f.severity == "error" and _follows(first, f)
        ]
        later.sort(key=_claim)
        codes: set[str] = set()
        for each in later:
            if each.code not in codes:
                codes.add(each.code)
                links.append(_link(each))
    links += [
        _link(f)
        for f in findings
        if f.layer == 4 and f.code == "O404" and first.layer < 4 and f.severity == "warning"
    ][:1]
    if status in _STOPPED and status != "cancelled":
        links.append(_STOPPED[status])
    return tuple(links[:_MAX_LINKS])


def _suspected_causes(findings: Sequence[Finding], first: Finding) -> list[Finding]:
    """Return warnings of earlier layers that may stand behind a fault of the device or output.

    A misaligned buffer is only a warning where the profile does not say that it
    fails; when the device then fails, it is the first thing to look at.
    """
    if first.layer < 3:
        return []
    causes = [
        f for f in findings if f.severity == "warning" and f.layer in (1, 2) and f.code in _CAUSES
    ]
    same = [f for f in causes if f.subject.name == first.subject.name]
    return (same or causes)[:2]


_CAUSES = frozenset(
    {"H110", "H112", "H113", "H114", "H131", "H132", "H134", "I221", "I230", "I240", "I241",
     "I242", "I243", "I250", "I251", "I258", "I282"}
)  # fmt: skip
"""Warnings that can make a device fail or an output wrong (not those of mere cost)."""


def _follows(first: Finding, later: Finding) -> bool:
    """Tell whether a later error can be a consequence of the first."""
    if later.layer > first.layer:
        return True
    # In one layer only known pairs, and further faults of the same subject.
    if first.layer == 4:
        return later.code == "O402"
    if first.layer == 3:
        return _RANK.get(first.code, 0) < _RANK.get(later.code, 0)
    return False


def _link(finding: Finding, prefix: str = "") -> str:
    where = LAYER_NAMES.get(finding.layer, "")
    lead = f"{where} ({prefix})" if prefix else where
    if not prefix and finding.certainty == "suspected":
        lead = f"{where} (suspected)"
    return f"{lead}: {finding.message}"


def _nothing(findings: Sequence[Finding], status: str) -> str:
    text = "nothing at fault"
    outside = sum(f.severity == "error" and not 1 <= f.layer <= 4 for f in findings)
    if status in _STOPPED:
        text = f"{_STOPPED[status]}; nothing at fault in what was judged"
    warnings = sum(f.severity == "warning" for f in findings)
    if warnings:
        text += f"; {warnings} warning{'s' if warnings > 1 else ''}"
    if outside:
        plural = "s" if outside > 1 else ""
        text += f"; {outside} error{plural} outside the four layers"
    return text
