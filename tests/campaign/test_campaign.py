"""A small campaign in every test run; `make campaign N=500` is the large one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from campaign import Job, Truth, campaign, exact, judge_run, subjects, target


@pytest.mark.models
@pytest.mark.slow
def test_a_small_campaign_is_exact():
    hits, total, misses = campaign(24, seed=20)
    print(f"campaign: {hits} of {total} exact")
    assert not misses, misses


# What large campaigns once missed: a kernel that refuses what came late, a replay that
# changes one bit of an index, one under an operand with many writers, a clock that drops
# at the very end.
ONCE_MISSED = {
    "silero_vad": [
        Truth("late-dma:seq=95", "T343", 95),
        Truth("duplicated-dma:seq=95", "T344", 95),
    ],
    "ppocr_det": [Truth("duplicated-dma:seq=1678", "T344", 1678)],
    "demo:clean": [Truth("clock-drop:seq=52", "T371", 52)],
}


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("model", ONCE_MISSED)
def test_what_was_missed_once_is_exact(model):
    (subject,) = subjects([model])
    for truth in ONCE_MISSED[model]:
        job = Job(model=model, faults=[truth.spec])
        judged = judge_run(job, subject.graph, target(), subject.arrays)
        judged.path.unlink()
        assert exact(truth, judged) == "", truth.spec
