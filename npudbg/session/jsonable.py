"""Records as JSON values: what every document that npudbg prints is made of.

JSON has no NaN and no infinity, so such numbers become the strings ``nan``,
``inf`` and ``-inf``.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from npudbg.session.records import Finding, Subject


def finite(value: Any) -> Any:
    """Return a JSON-like value with its non-finite numbers as strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value


def jsonable(record: Any) -> Any:
    """Return a record (or a container of records) as JSON values."""
    return finite(msgspec.to_builtins(record))


def subject_dict(subject: Subject) -> dict[str, Any]:
    """Return a subject: kind and name always, and what else is known."""
    return {"kind": subject.kind, "name": subject.name, **jsonable(subject)}


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding with all its keys (``related`` only where there is any)."""
    shown: dict[str, Any] = {
        "code": finding.code,
        "name": finding.name,
        "layer": finding.layer,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "subject": subject_dict(finding.subject),
        "message": finding.message,
        "evidence": jsonable(finding.evidence),
        "fix": finding.fix,
    }
    if finding.related:
        shown["related"] = [subject_dict(s) for s in finding.related]
    return {**shown, "origin": finding.origin, "source": finding.source}
