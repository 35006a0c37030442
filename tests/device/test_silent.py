"""Bytes that change though no command writes them: memory shown is memory as it was.

The oracle watches the machine: after every command it copies SRAM and the places in
DDR of all tensors that live.  What the debugger shows later must be these bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.debugger.state import State
from npudbg.device import touched
from npudbg.device.faults.touch import Injection
from npudbg.device.memory import bytes_of
from npudbg.session.commands import Space

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
    """Copies of memory after every command of a group, and of DDR before the next one."""

    def __init__(self, monkeypatch):
        self.sram, self.ddr, self.before = {}, {}, {}
        one = touched.TouchedGroup._one
        after = touched.poke

        def watched(group, position, action):
            # Between two groups a weight may come to lie where a dead tensor lay.
            self.before[action.seq] = ddr_of(group.machine, group.goals)
            one(group, position, action)
            self.look(group.machine, action.seq, group.goals)

        def poked(machine, injection, goals):
            after(machine, injection, goals)
            self.look(machine, injection.after, goals)

        monkeypatch.setattr(touched.TouchedGroup, "_one", watched)
        monkeypatch.setattr(touched, "poke", poked)

    def look(self, machine, seq, goals):
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
        state = State(session)
        for seq in walk:
            view = state.memory_at(Space.SRAM, 0, 4096, seq)
            was = watch.sram[seq]
            assert np.array_equal(
                np.frombuffer(view.data, np.uint8)[view.written], was[view.written]
            ), seq
            assert (was[~view.written] == 0xA5).all(), "only what nothing wrote is not known"
            for address, held, later in watch.held(seq):
                size = min(held.size, later.size)
                view = state.memory_at(Space.DDR, address, size, seq)
                shown = np.frombuffer(view.data, np.uint8)
                right = (shown == held[:size]) | (shown == later[:size]) | ~view.written
                assert right.all(), (seq, hex(address))
