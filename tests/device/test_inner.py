"""Tensors that never leave SRAM: the record holds what the touched tiles computed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from npudbg.commands.pipeline import Job, judge_run
from npudbg.debugger.state import State
from npudbg.debugger.tensors import Tensors
from npudbg.device.faults.touch import Injection
from npudbg.graph.loader import from_proto
from npudbg.session.commands import Kind, Space, box_slices
from npudbg.session.errors import SessionError
from npudbg.session.reader import Session
from npudbg.session.rerun import Poke

sys.path.insert(0, str(Path(__file__).parent))
from bench_device import helper, model, reference, run, tiny

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, (1, 3, 18, 18)).astype("f4")
W = RNG.uniform(-1, 1, (6, 3, 3, 3)).astype("f4")
S, B = (RNG.uniform(0.5, 1, (6, 1, 1)).astype("f4") for _ in range(2))
CHAIN = ("c", "m", "a", "e", "y")
"""What the fused group makes, one after the other; only ``y`` leaves SRAM."""

PROTO = model(
    [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Mul", ["c", "s"], ["m"], name="mul"),
        helper.make_node("Add", ["m", "o"], ["a"], name="add"),
        helper.make_node("Exp", ["a"], ["e"], name="exp"),
        helper.make_node("Neg", ["e"], ["y"], name="neg"),
    ],
    {"x": X}, ["y"], {"w": W, "s": S, "o": B},
)  # fmt: skip
TARGET = tiny(6144)


def follow(c):
    """The chain from the convolution's result on, in float32."""
    m = c * S
    a = m + B
    e = np.exp(a)
    return {"c": c, "m": m, "a": a, "e": e, "y": -e}


def clean():
    part = model(list(PROTO.graph.node)[:1], {"x": X}, ["c"], {"w": W})
    return reference(part, {"x": X})["c"]


def rows_of(session, name):
    rows = session.commands(0, session.n_commands)
    made = rows[(rows["kind"] == Kind.KERNEL) & (rows["tensor"] == session.tensor(name).id)]
    return made


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Kernels by tensor in a clean run."""
    _, session = run(PROTO, {"x": X}, tmp_path_factory.mktemp("c") / "s", target=TARGET)
    with session:
        assert [n.kernel for n in session.nodes] and len({n.group for n in session.nodes}) == 1
        found = {name: rows_of(session, name).copy() for name in CHAIN}
        assert len(found["c"]) > 2, "the case must be cut into tiles"
        for name in CHAIN:
            np.testing.assert_allclose(
                session.array(session.tensor(name)), follow(clean())[name], rtol=1e-6, atol=1e-6
            )
    return found


def poked(row, at, value):
    """An injection into an element of what a kernel has just written, and its place."""
    box = box_slices(row, 4)
    shape = tuple(s.stop - s.start for s in box)
    place = tuple(n * a // 4 for n, a in zip(shape, at, strict=True))
    offset = int(np.ravel_multi_index(place, shape)) * 4
    injection = (int(row["seq"]), int(row["dst"]) + offset, np.float32(value).tobytes())
    return injection, tuple(s.start + p for s, p in zip(box, place, strict=True))


@pytest.mark.parametrize("tile", [0, 1, -1])
@pytest.mark.parametrize("name", CHAIN[:-1])
def test_what_follows_a_poke_is_recorded_and_what_came_before_is_not(kernels, name, tile, tmp_path):
    (after, address, raw), where = poked(kernels[name][tile], (0, 1, 3, 2), 7.5)
    outcome, session = run(
        PROTO, {"x": X}, tmp_path / "s", target=TARGET,
        injections=[Injection(after, Space.SRAM, address, raw)],
    )  # fmt: skip
    expected = follow(clean())
    at = CHAIN.index(name)
    changed = dict(expected)
    value = np.float32(7.5)
    for step in CHAIN[at + 1 :]:
        channel = where[1]
        value = {
            "m": lambda v, c=channel: v * S[c, 0, 0], "a": lambda v, c=channel: v + B[c, 0, 0],
            "e": np.exp, "y": np.negative,
        }[step](value)  # fmt: skip
        changed[step] = expected[step].copy()
        changed[step][where] = value
    with session:
        tensors = Tensors(State(session))
        for step in CHAIN:
            record = session.tensor(step)
            array = session.array(record)
            np.testing.assert_allclose(array, changed[step], rtol=1e-6, atol=1e-6, err_msg=step)
            moved = ~np.isclose(array, expected[step], rtol=1e-5)
            assert moved[where] == (CHAIN.index(step) > at), step
            shown = tensors.tensor_at(record.id, session.n_commands - 1)
            assert np.array_equal(shown.array, array) and shown.written.all()
            assert record.stats.max == array.max() and record.stats.min == array.min()
    np.testing.assert_allclose(outcome.outputs["y"], changed["y"], rtol=1e-6)


def test_nan_in_an_operand_of_the_second_node_is_laid_at_its_door(kernels, tmp_path):
    """NaN comes into ``c`` after the convolution made it: the product is the first to be NaN."""
    row = kernels["c"][1]
    (after, address, raw), where = poked(row, (0, 2, 1, 3), np.nan)
    job = Job("m", pokes=(Poke(after=after, space="sram", address=address, data=raw),),
              save=str(tmp_path / "s.npudbg"))  # fmt: skip
    judged = judge_run(job, from_proto(PROTO), TARGET, {"x": X})
    assert judged.verdict.code == "T344"
    found = judged.findings[judged.verdict.finding]
    assert (found.subject.name, found.evidence["address"]) == ("c", address)
    (origin,) = [f for f in judged.findings if f.code == "O401"]
    assert origin.subject.name == "m"
    assert origin.evidence["first"] == list(where)
    with Session.open(judged.path) as session:
        assert session.nodes[origin.subject.node].name == "mul"
        counts = {n: session.tensor(n).stats.nan for n in CHAIN}
        assert counts == {"c": 0, "m": 1, "a": 1, "e": 1, "y": 1}
        command = session.command(origin.subject.seq)
        assert command["tensor"] == session.tensor("m").id and command["tile"] == row["tile"]


def test_a_hang_leaves_what_was_not_made_without_values(kernels, tmp_path):
    seq = int(kernels["a"][1]["seq"])
    job = Job("m", faults=[f"hang:seq={seq}"], save=str(tmp_path / "s.npudbg"))
    judged = judge_run(job, from_proto(PROTO), TARGET, {"x": X})
    with Session.open(judged.path) as session:
        tensors = Tensors(State(session))
        expected = follow(clean())
        for name in ("c", "m"):
            shown = tensors.tensor_at(session.tensor(name).id, seq)
            assert 0 < shown.written.sum() < shown.written.size
            np.testing.assert_allclose(
                shown.array[shown.written], expected[name][shown.written], rtol=1e-6, atol=1e-6
            )
            array = session.array(session.tensor(name))
            assert not array[~shown.written].any(), "what no kernel made is not in the record"


def test_a_hang_in_the_first_tile_leaves_the_output_unmade(kernels, tmp_path):
    seq = int(kernels["m"][0]["seq"])
    job = Job("m", faults=[f"hang:seq={seq}"], save=str(tmp_path / "s.npudbg"))
    judged = judge_run(job, from_proto(PROTO), TARGET, {"x": X})
    with Session.open(judged.path) as session:
        for name in ("m", "a", "e", "y"):
            record = session.tensor(name)
            assert record.blob is None and record.stats is None, name
            with pytest.raises(SessionError, match="stopped before any of it was made"):
                Tensors(State(session)).tensor_at(record.id, seq)
        assert session.tensor("c").blob is not None
