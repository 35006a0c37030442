"""The timeline's shades: blank is idle, a full block is busy for all of the column."""

from __future__ import annotations

import numpy as np
import pytest

from npudbg.render.timeline import columns_of, timeline
from npudbg.session.commands import ACCESS, COMMAND, Kind

WIDTH = 21  # eight columns for the chart


@pytest.mark.parametrize(
    ("share", "shade"),
    [(0, " "), (1, "░"), (25, "░"), (26, "▒"), (50, "▒"), (51, "▓"), (99, "▓"), (100, "█")],
)
def test_the_shade_of_a_column(make_session, share, shade):
    """One command fills ``share`` cycles of the first of eight columns of 100."""
    rows = np.zeros(2, COMMAND)
    rows["seq"], rows["kind"] = (0, 1), Kind.KERNEL
    rows["engine"], rows["node"], rows["tensor"] = (2, 3), 0, -1
    rows["start"], rows["end"] = (0, 700), (share, 800)
    session = make_session(rows, np.empty(0, ACCESS))
    assert columns_of(WIDTH) == 8
    mac, vec = (one.text for one in timeline(session, 0, 800, WIDTH)[2:4])
    assert mac[7:15] == f"{shade}       "
    assert vec[7:15] == "       █"
