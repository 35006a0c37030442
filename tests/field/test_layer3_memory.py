"""DDR that changes under a tensor: T348 names tensor, address and who read it next."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.pipeline import Job, judge_run
from npudbg.debugger.state import OUTSIDE, State
from npudbg.debugger.tensors import Tensors
from npudbg.graph.loader import from_proto
from npudbg.session.commands import Kind, Space
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.session.rerun import Poke
from npudbg.targets import loader as targets

RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (4, 16)).astype("f4")
W, V = RNG.uniform(-1, 1, (16, 8)).astype("f4"), RNG.uniform(-1, 1, (8, 8)).astype("f4")
AXIS = np.array(1, "i8")


def graph(outputs=("y", "z")):
    """x -> MatMul -> p -> MatMul -> y (output) -> CumSum on the host -> z (output)."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="first"),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="second"),
        helper.make_node("CumSum", ["y", "axis"], ["z"], name="sum"),
    ]
    proto = helper.make_graph(
        nodes[: 1 + len(outputs)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, (4, 8)) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (("w", W), ("v", V), ("axis", AXIS))],
    )  # fmt: skip
    return from_proto(helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    ))  # fmt: skip


def judged(tmp_path, *faults, pokes=(), target="generic"):
    board = targets.load(target)
    board = type(board)(**{
        f: getattr(board, f) for f in board.__struct_fields__ if f != "operators"
    })  # fmt: skip
    job = Job("m", faults=faults, pokes=pokes, save=str(tmp_path / "s.npudbg"))
    return judge_run(job, graph(), board, {"x": X})


@pytest.fixture
def places(tmp_path):
    """Address, first and last writer of each tensor; last command."""
    result = judged(tmp_path)
    assert not [f for f in result.findings if f.severity == "error"]
    with Session.open(result.path) as session:
        found = {
            t.name: (t.address, t.first_seq, t.last_seq)
            for t in session.tensors
            if t.space == "ddr"
        }
        return found, session.n_commands, session.commands(0, session.n_commands).copy()


def element(name, places, row, column, columns=8):
    return places[0][name][0] + 4 * (row * columns + column)


def test_a_bit_of_an_intermediate_flips_before_it_is_read(places, tmp_path):
    address, last = element("p", places, 2, 5), places[0]["p"][2]
    result = judged(tmp_path, f"bit-flip:space=ddr,addr={address + 3:#x},bit=7,after={last}")
    assert result.verdict.code == "T348"
    found = result.findings[result.verdict.finding]
    assert (found.subject.name, found.evidence["address"]) == ("p", address + 3)
    assert (found.evidence["bits"], found.evidence["written_by"]) == (1, last)
    assert found.evidence["before"] ^ found.evidence["after"] == 0x80
    assert "T346" not in {f.code for f in result.findings}, "the transfer did what it should"
    p = X @ W
    p[2, 5] = -p[2, 5]  # the sign
    np.testing.assert_allclose(result.outputs["y"], p @ V, rtol=1e-5, atol=1e-5)
    with Session.open(result.path) as session:
        reader = session.command(found.evidence["read_by"])
        assert reader["kind"] == Kind.DMA_LOAD and reader["node"] == 1


def test_an_output_changes_after_its_last_store(places, tmp_path):
    address, last = element("z", places, 3, 7), places[0]["z"][2]
    raw = np.float32(1234.5).tobytes()
    poke = Poke(after=last, space="ddr", address=address, data=raw)
    result = judged(tmp_path, pokes=[poke])
    assert result.outputs["z"][3, 7] == 1234.5
    with Session.open(result.path) as session:
        state, number = State(session), session.tensor("z").id
        view = state.memory_at(Space.DDR, address, 4, session.n_commands - 1)
        assert view.data == raw and (view.writers == OUTSIDE).all()
        before = state.memory_at(Space.DDR, address, 4, last - 1).data
        assert before != raw
        shown = Tensors(state).tensor_at(number, session.n_commands - 1)
        np.testing.assert_array_equal(shown.array, result.outputs["z"])


def test_the_host_finds_an_output_changed(places, tmp_path):
    address, last = element("y", places, 1, 4), places[0]["y"][2]
    raw = np.float32(np.nan).tobytes()
    result = judged(tmp_path, pokes=[Poke(after=last, space="ddr", address=address, data=raw)])
    assert result.verdict.code == "T348"
    found = result.findings[result.verdict.finding]
    assert (found.subject.name, found.evidence["address"]) == ("y", address)
    assert np.argwhere(np.isnan(result.outputs["y"])).tolist() == [[1, 4]]
    assert np.argwhere(np.isnan(result.outputs["z"])).tolist() == [[1, c] for c in range(4, 8)]


@pytest.mark.parametrize("target", ["generic", "generic-a57"])
def test_only_the_host_reads_an_output_that_changed(target, tmp_path):
    """On a board with incoherent caches an INVALIDATE follows the WAIT."""
    board, alone = targets.load(target), graph(["y"])
    clean = judge_run(Job("m", save=str(tmp_path / "c.npudbg")), alone, board, {"x": X})
    with Session.open(clean.path) as session:
        y = session.tensor("y")
    poke = Poke(after=y.last_seq, space="ddr", address=y.address + 4 * 11, data=b"\xff" * 4)
    job = Job("m", pokes=[poke], save=str(tmp_path / "s.npudbg"))
    result = judge_run(job, alone, board, {"x": X})
    found = result.findings[result.verdict.finding]
    assert (found.code, found.subject.name) == ("T348", "y")
    assert (found.evidence["address"], found.evidence["bytes"]) == (y.address + 44, 4)
    assert "(the host)" in found.message
    assert np.argwhere(np.isnan(result.outputs["y"])).tolist() == [[1, 3]]
    with Session.open(result.path) as session:
        reader = session.command(found.evidence["read_by"])
        assert reader["kind"] in (Kind.WAIT, Kind.INVALIDATE)
        assert not np.isnan(session.array(session.tensor("y"))).any(), "what the store brought"


def test_a_weight_changes_between_the_transfers_of_one_tile(places, tmp_path):
    address, rows = element("v", places, 0, 3), places[2]
    first = int(rows[(rows["node"] == 1) & (rows["kind"] == Kind.DMA_LOAD)]["seq"][0])
    poke = Poke(after=first, space="ddr", address=address, data=np.float32(9).tobytes())
    result = judged(tmp_path, pokes=[poke])
    found = result.findings[result.verdict.finding]
    assert (found.code, found.subject.name, found.evidence["address"]) == ("T348", "v", address)
    changed = V.copy()
    changed[0, 3] = 9
    np.testing.assert_allclose(result.outputs["y"], (X @ W) @ changed, rtol=1e-5, atol=1e-5)


def test_a_poke_that_is_written_over_is_not_a_fault(places, tmp_path):
    """Bytes that come before the store are gone when it has run: the innocent twin."""
    address, first = element("p", places, 0, 0), places[0]["p"][1]
    poke = Poke(after=first - 1, space="ddr", address=address, data=b"\xff" * 32)
    result = judged(tmp_path, pokes=[poke])
    assert result.verdict.layer == 0
    np.testing.assert_allclose(result.outputs["y"], (X @ W) @ V, rtol=1e-5, atol=1e-5)


def test_the_same_bytes_are_no_change(places, tmp_path):
    address, last = places[0]["p"][0], places[0]["p"][2]
    with Session.open(judged(tmp_path).path) as session:
        raw = session.array(session.tensor("p")).tobytes()[:16]
    result = judged(tmp_path, pokes=[Poke(after=last, space="ddr", address=address, data=raw)])
    assert result.verdict.layer == 0


def test_a_command_that_the_run_does_not_have_is_refused(places, tmp_path):
    poke = Poke(after=places[1] + 5, space="ddr", address=places[0]["y"][0], data=b"\0")
    with pytest.raises(UserError, match=rf"commands 0 to {places[1] - 1}"):
        judged(tmp_path, pokes=[poke])
