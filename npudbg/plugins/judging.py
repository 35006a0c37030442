"""Judging a model alone, without inputs, for verbs that have nothing else."""

from __future__ import annotations

from npudbg.layers.case import Case
from npudbg.layers.findings import judge
from npudbg.session.records import Finding

_OF_THE_MODEL = frozenset({"node", "operator", "model"})


def judge_model(case: Case) -> list[Finding]:
    """Return layer 2's findings on the model itself: operators, opset, limits.

    Findings on the tensors fed are left out, since a case without inputs feeds none.
    """
    return [f for f in judge(case, 2) if f.subject.kind in _OF_THE_MODEL]
