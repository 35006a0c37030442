"""What a session keeps beside its tables: read back as written, and damage said in one line."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npudbg.session import refusals, silent, sums
from npudbg.session.errors import SessionError
from npudbg.session.reader import Session
from npudbg.session.refusals import Refusal
from npudbg.session.silent import Silent
from npudbg.session.sums import WrongSum
from npudbg.session.writer import SessionWriter

SUM = WrongSum(0, "y", "stall", (0,), 4096, 4096.0, 2048.0, 4096.0, 2047, 2048, 1, 1)
KEPT = {
    refusals: [Refusal(7, 0x4000_0000, "unmapped", 4096)],
    silent: [Silent(3, 1, 0x40, b"\x01\x02")],
    sums: [SUM],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def written(path, key, value):
    writer = SessionWriter(path)
    writer.set_extra(key, value)
    return Session.open(writer.close())


@pytest.mark.parametrize("module", KEPT, ids=lambda m: m.__name__)
def test_what_was_kept_comes_back(module, tmp_path):
    with written(tmp_path / "s.npudbg", module.KEY, KEPT[module]) as session:
        found = module.read(session)
    assert (list(found.values()) if isinstance(found, dict) else list(found)) == KEPT[module]


@pytest.mark.parametrize("module", KEPT, ids=lambda m: m.__name__)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=JSON)
def test_damage_is_one_line(module, value, tmp_path):
    with written(tmp_path / "s.npudbg", module.KEY, value) as session:
        try:
            found = module.read(session)
        except SessionError as error:
            assert "\n" not in str(error) and "damaged" in str(error)
        else:
            assert not value or len(found)


@pytest.mark.parametrize("address", [-1, 1 << 62])
def test_addresses_that_cannot_be(address, tmp_path):
    with (
        written(tmp_path / "s", refusals.KEY, [Refusal(0, address, "unmapped", 4096)]) as session,
        pytest.raises(SessionError, match="an address"),
    ):
        refusals.read(session)
