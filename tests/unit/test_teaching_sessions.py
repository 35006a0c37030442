"""The saved sessions: small, complete, and replayed to the verdict of their case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npudbg.commands.demo import run_case
from npudbg.commands.teaching import CASES, load
from npudbg.session.reader import Session

FOLDER = Path(__file__).parents[2] / "sessions"
VERDICTS = {
    "clean": (0, ""),
    "f-order": (1, "H101"),
    "misaligned-dma": (1, "H110"),
    "fp16-overflow": (4, "O401"),
    "unnormalised": (2, "I240"),
    "unsupported-operator": (2, "I260"),
    "serial-chain": (0, ""),
    "torn-line": (3, "T353"),
    "never-started": (3, "T310"),
    "missing-device": (3, "T312"),
}
HUNG = ("never-started", "missing-device")


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_a_small_session_that_replays(name):
    path = FOLDER / f"{name}.npudbg"
    assert path.stat().st_size < 500_000
    with Session.open(path) as session:
        assert session.status == ("hung" if name in HUNG else "complete")
        assert session.n_commands > 0
        verdict = session.verdict
        assert (verdict.layer, verdict.code) == VERDICTS[name]
        for tensor in session.tensors:
            array = session.array(tensor)
            if array is None:  # a run that stopped never made it
                assert session.status == "hung"
                assert tensor.producer >= 0
                continue
            assert array.shape == tensor.shape


@pytest.mark.parametrize("name", CASES)
def test_a_run_today_is_judged_as_the_saved_one(name, tmp_path):
    judged = run_case(name, save=str(tmp_path / "s.npudbg"))
    with (
        Session.open(FOLDER / f"{name}.npudbg") as saved,
        Session.open(judged.path) as session,
    ):
        assert [f.code for f in session.findings] == [f.code for f in saved.findings]
        assert session.verdict.code == saved.verdict.code
        assert session.n_commands == saved.n_commands


def test_the_f_order_session_holds_the_fault_itself():
    """np.save would have packed a view; the session keeps strides and base bytes."""
    with Session.open(FOLDER / "f-order.npudbg") as session:
        image = session.tensor("image")
        view = session.view(image)
        assert view.strides == (4, 4, 12, 480)
        np.testing.assert_array_equal(view, load(CASES["f-order"])[1]["image"])


def test_fusion_saves_kernels_and_writes():
    """The serial chain and the same model fused: what the warning counts is there."""
    with (
        Session.open(FOLDER / "serial-chain.npudbg") as serial,
        Session.open(FOLDER / "clean.npudbg") as fused,
    ):
        (chain,) = [f for f in serial.findings if f.code == "T331"]
        groups = [
            len({n.group for n in s.nodes if n.engine in ("mac", "vec")}) for s in (serial, fused)
        ]
        assert groups == [chain.evidence["kernels"], chain.evidence["kernels_fused"]]
        assert serial.n_cycles > fused.n_cycles
        assert not [f for f in fused.findings if f.code == "T331"]


def test_the_torn_line_is_named():
    with Session.open(FOLDER / "torn-line.npudbg") as session:
        (torn,) = [f for f in session.findings if f.code == "H113"]
        assert torn.layer == 1
        # 3 x 9 x 9 float32 end 12 bytes into a line.
        assert 972 % 64 == 12
        assert "0x200003c0" in torn.message
        # What the device was given: 52 bytes of the second buffer lie in the line.
        right, copy = session.tensor("right"), session.tensor("right@ddr")
        host, device = session.array(right), session.array(copy)
        wrong = np.flatnonzero(host.reshape(-1).astype(device.dtype) != device.reshape(-1))
        assert wrong.max() == 52 // 4 - 1
