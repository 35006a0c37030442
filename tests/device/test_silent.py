"""Bytes that change though no command writes them: memory shown is memory as it was.

The oracle watches the machine: after every command it copies SRAM and the places in
DDR of all tensors that live.  What the debugger shows later must be these bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.commands.pipeline import Job, judge_run
from npudbg.debugger.state import State
from npudbg.device import touched
from npudbg.device.faults.touch import Injection
from npudbg.device.memory import bytes_of
from npudbg.graph import loader
from npudbg.graph.specialise import specialise
from npudbg.session.commands import Space
from npudbg.session.reader import Session
from npudbg.session.rerun import Poke
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory

sys.path.insert(0, str(Path(__file__).parent))
from bench_device import helper, model, run, tiny

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype("f4")


def chain():
    """Two fused groups, a view between them, an operator of the host, two outputs."""
    x = floats(1, 4, 12, 12)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["c", "s"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Reshape", ["r", "flat"], ["v"]),
        helper.make_node("MatMul", ["v", "w2"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
        helper.make_node("CumSum", ["y", "axis"], ["z"]),
    ]
    weights = {
        "w": floats(6, 4, 3, 3), "s": floats(6, 1, 1), "flat": np.array([6, 144], "i8"),
        "w2": floats(144, 10), "b": floats(10), "axis": np.array(1, "i8"),
    }  # fmt: skip
    return model(nodes, {"x": x}, ["y", "z"], weights), {"x": x}


PROTO, INPUTS = chain()
TARGET = tiny(4096)


class Watch:
    """Copies of memory after commands of a group, and of DDR before the next one.

    Args:
        monkeypatch: Of pytest.
        wanted: Commands to look after; None for all.
    """

    def __init__(self, monkeypatch, wanted=None):
        self.sram, self.ddr, self.before = {}, {}, {}
        self.wanted, self.base = wanted, 0
        one = touched.TouchedGroup._one
        after = touched.poke

        def watched(group, position, action):
            # Between two groups a weight may come to lie where a dead tensor lay.
            if wanted is None or action.seq - 1 in wanted:
                self.before[action.seq] = ddr_of(group.machine, group.goals)
            one(group, position, action)
            self.look(group.machine, action.seq, group.goals)

        def poked(machine, injection, goals):
            after(machine, injection, goals)
            self.look(machine, injection.after, goals)

        monkeypatch.setattr(touched.TouchedGroup, "_one", watched)
        monkeypatch.setattr(touched, "poke", poked)

    def look(self, machine, seq, goals):
        if self.wanted is not None and seq not in self.wanted:
            return
        self.base = machine.sram.base
        self.sram[seq] = machine.sram.data.copy()
        self.ddr[seq] = ddr_of(machine, goals)

    def held(self, seq):
        """Yield address and bytes, of one or the other moment, of what lives after a command."""
        later = dict(self.before.get(seq + 1, ()))
        for address, data in self.ddr[seq]:
            yield address, data, later.get(address, data)


def ddr_of(machine, goals):
    return [
        (v.address, bytes_of(goals.get(n, v.data)).copy())
        for n, v in machine.values.items()
        if v.allocation is not None
    ]


def ends(tmp_path):
    """Run clean; returns the rows and the DDR ranges of tensors."""
    _, session = run(PROTO, INPUTS, tmp_path / "clean", target=TARGET)
    with session:
        rows = session.commands(0, session.n_commands).copy()
        ranges = [(t.address, t.base_nbytes) for t in session.tensors if t.space == "ddr"]
    return rows, [r for r in ranges if r[0] is not None]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_memory_shown_is_memory_as_it_was(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("walk")
    rows, ranges = ends(folder)
    pokes = []
    for _ in range(data.draw(st.integers(1, 4), label="pokes")):
        after = data.draw(st.integers(0, len(rows) - 1), label="after")
        nbytes = data.draw(st.integers(1, 12), label="bytes")
        if data.draw(st.booleans(), label="ddr"):
            base, size = data.draw(st.sampled_from(ranges), label="tensor")
            space, address = Space.DDR, base + data.draw(st.integers(0, size - 1), label="at")
        else:
            space, address = Space.SRAM, data.draw(st.integers(0, 4095 - nbytes), label="at")
        raw = data.draw(st.binary(min_size=nbytes, max_size=nbytes), label="raw")
        pokes.append(Injection(after, space, address, raw, data.draw(st.booleans(), label="flip")))
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch)
        _, session = run(PROTO, INPUTS, folder / "s", target=TARGET, injections=pokes)
    walk = data.draw(st.lists(st.sampled_from(sorted(watch.sram)), min_size=3, max_size=12))
    with session:
        shown_as_it_was(session, watch, walk)


def shown_as_it_was(session, watch, walk):
    state = State(session)
    for seq in walk:
        was = watch.sram[seq]
        view = state.memory_at(Space.SRAM, watch.base, was.size, seq)
        shown = np.frombuffer(view.data, np.uint8)
        assert np.array_equal(shown[view.written], was[view.written]), seq
        assert (was[~view.written] == 0xA5).all(), "only what nothing wrote is not known"
        for address, held, later in watch.held(seq):
            size = min(held.size, later.size, 1 << 20)
            view = state.memory_at(Space.DDR, address, size, seq)
            shown = np.frombuffer(view.data, np.uint8)
            right = (shown == held[:size]) | (shown == later[:size]) | ~view.written
            assert right.all(), (seq, hex(address))


@pytest.mark.models
@pytest.mark.parametrize("seed", range(3))
def test_memory_of_a_real_model_is_shown_as_it_was(seed, tmp_path, model_path):
    """Random pokes into random tensors and tiles of a classifier, and a random walk."""
    rng = np.random.default_rng(seed)
    graph = loader.load(model_path("ppocr_cls"))
    arrays = {graph.inputs[0].name: rng.standard_normal((1, 3, 48, 96)).astype("f4")}
    graph, _ = specialise(graph, arrays)
    board = msgspec.structs.replace(targets.load("generic"), memory=Memory(sram_bytes=64 << 10))
    clean = judge_run(Job("m", save=str(tmp_path / "clean")), graph, board, arrays)
    with Session.open(clean.path) as session:
        count = session.n_commands
        places = [(t.address, t.base_nbytes) for t in session.tensors if t.address is not None]
        places = [p for p in places if p[0] and p[1] >= 16]
    pokes = []
    for _ in range(4):
        base, size = places[rng.integers(len(places))]
        ddr = Poke(
            after=int(rng.integers(count)), space="ddr", data=rng.bytes(8),
            address=int(base + rng.integers(size - 8)), flip=bool(rng.integers(2)),
        )  # fmt: skip
        sram = Poke(
            after=int(rng.integers(count)), space="sram", data=rng.bytes(8),
            address=board.memory.sram_base + int(rng.integers((64 << 10) - 8)),
            flip=bool(rng.integers(2)),
        )  # fmt: skip
        pokes += [ddr, sram]
    walk = {int(s) for s in rng.integers(count, size=12)} | {p.after for p in pokes}
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch, walk)
        judged = judge_run(
            Job("m", pokes=pokes, save=str(tmp_path / "s")), graph, board, arrays
        )  # fmt: skip
    with Session.open(judged.path) as session:
        assert len(watch.sram) > 8
        shown_as_it_was(session, watch, watch.sram)
