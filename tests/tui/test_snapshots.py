"""Pictures of the screen: few, small, telling.  `pytest --snapshot-update` renews them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [
        ("verdict", (80, 24), []),
        ("trace", (80, 24), ["3"]),
        ("grid", (160, 48), []),
    ],
)
def test_picture(snap_compare, session_file, open_app, name, size, keys):
    assert snap_compare(open_app(session_file), terminal_size=size, press=keys)
