"""What commands left in SRAM, held against a replay of the whole record in a plain array."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.session.commands import Space, Status, box_slices
from npudbg.session.memory.writes import INITIAL, Writes
from npudbg.session.reader import Session

SAVED = Path(__file__).parents[2] / "sessions"
NAMES = ("clean", "misaligned-dma", "serial-chain", "torn-line")
SIZE = 1 << 19


@cache
def opened(name: str) -> tuple[Session, Writes]:
    session = Session.open(SAVED / f"{name}.npudbg")
    return session, Writes(session)


def replayed(session: Session, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return SRAM's bytes and who wrote each, after ``last``."""
    memory, writer = np.zeros(SIZE, np.uint8), np.full(SIZE, -1)
    for row in session.commands(0, last + 1):
        done = int(row["status"]) in (Status.OK, Status.TOUCHED)
        if int(row["dst_space"]) != Space.SRAM or not done:
            continue
        data = session.payload(int(row["seq"]))
        if data is None:
            array = session.array(session.tensors[int(row["tensor"])])
            data = np.ascontiguousarray(array[box_slices(row, array.ndim)]).tobytes()
        at = int(row["dst"])
        memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
        writer[at : at + len(data)] = int(row["seq"])
    return memory, writer


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_bytes_and_writers_are_those_of_a_replay(name: str, data: st.DataObject) -> None:
    session, writes = opened(name)
    seq = data.draw(st.integers(-1, session.n_commands - 1))
    low = data.draw(st.integers(0, SIZE // 4))
    size = data.draw(st.sampled_from([1, 7, 64, 4096, 60_000]))
    memory, writer = replayed(session, seq)
    found, known = writes.left(Space.SRAM, low, size, seq)
    assert known.tolist() == (writer[low : low + size] >= 0).tolist()
    assert found.tobytes() == memory[low : low + size].tobytes()
    places = np.arange(low, low + size)
    assert writes.left_at(Space.SRAM, places, seq)[2].tolist() == writer[low : low + size].tolist()


@pytest.mark.parametrize("low", [-64, SIZE * 8])
def test_outside_memory_nothing_is_known(low: int) -> None:
    session, writes = opened("clean")
    places = np.arange(low, low + 32)
    data, known, writers = writes.left_at(Space.SRAM, places, session.n_commands)
    assert not known.any() and not data.any() and (writers == INITIAL).all()
