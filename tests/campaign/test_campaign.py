"""A small campaign in every test run; `make campaign N=500` is the large one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from campaign import campaign


@pytest.mark.models
@pytest.mark.slow
def test_a_small_campaign_is_exact():
    hits, total, misses = campaign(24, seed=20)
    print(f"campaign: {hits} of {total} exact")
    assert not misses, misses
