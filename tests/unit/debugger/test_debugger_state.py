"""Memory and tensors as they were, against an oracle that replays every byte."""

from __future__ import annotations

import numpy as np
import pytest
from fake_device import DDR, DDR_BYTES, SRAM, SRAM_BYTES, build
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.state import OUTSIDE, State, memory_at
from npudbg.debugger.tensors import Tensors, tensor_at
from npudbg.session.commands import Space
from npudbg.session.reader import Session


def same_memory(fake, state, space, address, nbytes, seq):
    data, known, writers = fake.memory(space, address, nbytes, seq)
    view = state.memory_at(space, address, nbytes, seq)
    assert view.data == data
    assert np.array_equal(view.written, known)
    assert np.array_equal(view.writers, writers)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_memory_at_random_commands_is_what_was_written(made, data):
    with Session.open(made.path) as session:
        state = State(session)
        for _ in range(5):
            seq = data.draw(st.integers(0, len(made.rows) - 1))
            if data.draw(st.booleans()):
                space, base, size = Space.DDR, DDR, DDR_BYTES // 2 + 3000
            else:
                space, base, size = Space.SRAM, SRAM - 32, SRAM_BYTES
            address = base + data.draw(st.integers(0, size))
            same_memory(made, state, space, address, data.draw(st.integers(1, 300)), seq)


@pytest.mark.parametrize("seed", range(6))
def test_all_of_memory_after_every_command(tmp_path, seed):
    fake = build(tmp_path / "s.npudbg", seed=seed, nodes=4 + seed)
    with Session.open(fake.path) as session:
        state = State(session)
        for seq in range(-1, len(fake.rows)):
            same_memory(fake, state, Space.SRAM, SRAM - 16, SRAM_BYTES, seq)
            same_memory(fake, state, Space.DDR, DDR, DDR_BYTES // 2 + 2048, seq)


def test_tensors_after_every_command(made, session):
    tensors = Tensors(State(session))
    rng = np.random.default_rng(1)
    for seq in [*range(len(made.rows)), *rng.integers(0, len(made.rows), 60).tolist()]:
        for number, array in made.arrays.items():
            raw, bytes_made = made.values(number, seq)
            snapshot = tensors.tensor_at(number, seq)
            item = array.dtype.itemsize
            elements = bytes_made.reshape(-1, item).all(axis=1).reshape(array.shape)
            assert np.array_equal(snapshot.written, elements), (number, seq)
            got = snapshot.array[elements].tobytes()
            want = raw.view(array.dtype).reshape(array.shape)[elements].tobytes()
            assert got == want, (number, seq)


def test_reverse_walk_shows_the_same_as_the_way_there(made, session):
    state = State(session)
    there = [state.memory_at(Space.SRAM, SRAM, 600, s) for s in range(len(made.rows))]
    for seq in range(len(made.rows) - 1, -1, -1):
        back = state.memory_at(Space.SRAM, SRAM, 600, seq)
        assert back.data == there[seq].data
        assert np.array_equal(back.writers, there[seq].writers)


def test_a_byte_that_no_command_changed_says_so(made, session):
    (seq, _operand), data = next(iter(made.observed.items()))
    read = next(r for r in made.reads if r[0] == seq and r[4] == 0)
    view = memory_at(session, Space.SRAM, read[1], len(data), seq)
    assert view.data == data
    assert (view.writers == OUTSIDE).sum() == 1
    assert view.writers[5] == OUTSIDE


def test_one_look_without_a_state(made, session):
    last = len(made.rows) - 1
    assert np.array_equal(tensor_at(session, 0, last).array, made.arrays[0])


def test_views_share_the_bytes_of_their_source(tmp_path):
    fake = build(tmp_path / "v.npudbg", seed=1, nodes=2)
    source = max(n for n, t in fake.tensors.items() if t.name == "t1")
    flat = fake.tensor("flat", fake.arrays[source].reshape(-1), "output",
                       fake.tensors[source].address, len(fake.nodes))  # fmt: skip
    fake.change(flat, first_seq=fake.tensors[source].first_seq,
                last_seq=fake.tensors[source].last_seq)  # fmt: skip
    fake.node("Reshape", "view", (source,), (flat,), -1, kernel="view")
    fake.save()
    with Session.open(fake.path) as session:
        tensors = Tensors(State(session))
        for seq in range(len(fake.rows)):
            one, two = tensors.tensor_at(source, seq), tensors.tensor_at(flat, seq)
            assert np.array_equal(one.written.reshape(-1), two.written)
            assert one.array.reshape(-1).tobytes() == two.array.tobytes()


@pytest.mark.parametrize(("address", "nbytes"), [(-1, 4), (0, -1), (0, 1 << 21), (1 << 62, 1)])
def test_a_range_that_cannot_be_is_refused(session, address, nbytes):
    with pytest.raises(DebuggerError):
        State(session).memory_at(Space.DDR, address, nbytes, 0)


def test_nothing_is_nothing(session):
    view = State(session).memory_at(Space.DDR, DDR, 0, 0)
    assert view.data == b"" and not len(view.written)
