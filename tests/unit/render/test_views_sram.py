"""SRAM over time, held against a loop over every command and every byte."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from npudbg.render import fit, sram_slots
from npudbg.render.sram_map import sram_lines
from npudbg.session.commands import ACCESS, COMMAND, Kind, Space, Status

SIZE = 4096
SEEDS = range(6)


def brute(session):
    """Return (seq, low, high, start, last reader, its end) of each write, by a loop."""
    rows, reads = session.commands(0, 10**9), session.accesses(0, 10**9)
    slots = []
    for row in rows:
        if row["dst_space"] != Space.SRAM or row["status"] == Status.FAULT:
            continue
        mine = [int(r["seq"]) for r in reads if r["by"] == row["seq"] and r["space"] == Space.SRAM]
        last = max([int(row["seq"]), *mine])
        done = max([int(row["end"]), *(int(rows["end"][s]) for s in mine)])
        low = int(row["dst"])
        slots.append(
            (int(row["seq"]), low, low + int(row["nbytes"]), int(row["start"]), last, done)
        )
    return slots


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_are_those_of_a_loop(random_session, seed):
    session = random_session(seed)
    got = sram_slots.slots_of(session)
    found = zip(
        *(a.tolist() for a in (got.seq, got.low, got.high, got.start, got.last, got.done)),
        strict=True,
    )
    assert list(found) == brute(session)


def test_slots_across_chunks(random_session):
    session = random_session(3, 9000)
    assert len(session.chunk_starts) > 1
    got = sram_slots.slots_of(session)
    reads = session.accesses(0, 10**9)
    last = {int(s): int(s) for s in got.seq}
    for read in reads:
        if int(read["by"]) in last:
            last[int(read["by"])] = max(last[int(read["by"])], int(read["seq"]))
    assert got.last.tolist() == list(last.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_peak_is_that_of_counting_at_every_command(random_session, seed):
    session = random_session(seed)
    slots, expected = sram_slots.slots_of(session), brute(session)
    live = [sum(h - a for s, a, h, _, last, _ in expected if s <= n <= last) for n in range(60)]
    assert sram_slots.peak(slots, "command", 0, 60) == (max(live), live.index(max(live)))
    part = live[20:40]
    assert sram_slots.peak(slots, "command", 20, 40).nbytes == max(part)
    cycles = session.n_cycles
    by_cycle = [
        sum(h - a for _, a, h, b, _, d in expected if b <= c < d) for c in range(cycles + 1)
    ]
    assert sram_slots.peak(slots, "cycle", 0, cycles + 1).nbytes == max(by_cycle)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lies_where_is_the_newest_write_of_each_byte(random_session, seed):
    session = random_session(seed)
    slots = sram_slots.slots_of(session)
    memory = np.full(SIZE, -1)
    for index, (seq, low, high, *_) in enumerate(brute(session)):
        if seq <= 41:
            memory[low:high] = index
    got = np.full(SIZE, -1)
    parts = sram_slots.lying(slots, 41)
    for part in parts:
        assert (got[part.low : part.high] == -1).all()
        got[part.low : part.high] = part.slot
    assert np.array_equal(got, memory)
    assert [p.low for p in parts] == sorted(p.low for p in parts)


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_are_the_bytes_that_no_living_slot_takes(random_session, seed):
    session = random_session(seed)
    slots = sram_slots.slots_of(session)
    taken = np.zeros(SIZE, bool)
    for seq, low, high, _, last, _ in brute(session):
        if seq <= 30 <= last:
            taken[low:high] = True
    got = np.ones(SIZE, bool)
    holes = sram_slots.gaps(slots, sram_slots.living(slots, "command", 30), 0, SIZE)
    for low, high in holes:
        assert low < high
        got[low:high] = False
    assert np.array_equal(got, taken)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(holes))


@pytest.mark.parametrize("seed", SEEDS)
def test_overlaps_are_the_pairs_of_a_double_loop(random_session, seed):
    session = random_session(seed)
    slots, all_ = sram_slots.slots_of(session), brute(session)
    expected = {
        (i, j)
        for i, a in enumerate(all_)
        for j, b in enumerate(all_)
        if a[0] < b[0] < a[4] and a[1] < b[2] and b[1] < a[2]
    }
    got = sram_slots.overlaps(slots, 0, 60)
    assert got.complete
    assert {tuple(p) for p in got.pairs.tolist()} == expected
    assert len(got.pairs) == len(expected)


@pytest.mark.parametrize("axis", ["command", "cycle"])
def test_the_map_is_the_share_of_bytes_and_moments(random_session, axis):
    session = random_session(1, 24)
    slots, high = sram_slots.slots_of(session), 24 if axis == "command" else session.n_cycles
    area = np.zeros((SIZE, high))
    for seq, low, top, start, last, done in brute(session):
        born, died = (seq, last + 1) if axis == "command" else (start, done)
        area[low:top, born:died] += 1
    columns = 8 if axis == "command" else 1
    cells = area.reshape(16, SIZE // 16, columns, -1).mean(axis=(1, 3))
    got = sram_slots.occupancy(slots, axis, (0, high), (0, SIZE), 16, columns)
    assert np.allclose(got, np.clip(cells, 0, 1))


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("axis", ["command", "cycle"])
def test_lines_fit_and_carry_no_control(random_session, width, axis):
    session = random_session(2)
    slots = sram_slots.slots_of(session)
    lines = sram_lines(session, 0, 60, width, axis=axis)
    text = [each.text for each in lines]
    assert all(fit.cells(t) <= width and t.isprintable() for t in text)
    top = sram_slots.peak(slots, "command", 0, 60)
    assert any(t.startswith(f"peak {top.nbytes:,} B live at command {top.at}") for t in text)
    assert "simulated" in text[0]


def test_an_empty_session_and_an_empty_range(make_session, random_session):
    nothing = make_session(np.zeros(0, COMMAND), np.zeros(0, ACCESS))
    assert "no command writes SRAM here" in sram_lines(nothing, 0, 10, 80)[-1].text
    assert len(sram_lines(random_session(1), 5, 5, 80)) == 2


def test_a_hostile_record_is_drawn_not_believed(make_session):
    rows = np.zeros(3, COMMAND)
    rows["seq"], rows["dst_space"], rows["kind"] = range(3), Space.SRAM, Kind.DMA_LOAD
    rows["dst"] = (-5, 2**62 + 5, 64)
    rows["nbytes"] = (10, 10, 2**40 - 1)
    rows["tensor"], rows["node"], rows["engine"], rows["start"] = 10**6, -7, 200, -(10**15)
    reads = np.zeros(2, ACCESS)
    reads["seq"], reads["by"], reads["space"] = (1, 2), (10**12, 2), Space.SRAM
    session = make_session(rows, reads)
    assert sram_slots.slots_of(session).seq.tolist() == [2]
    assert all(fit.cells(each.text) <= 80 for each in sram_lines(session, 0, 3, 80))


def test_a_hundred_thousand_commands_take_seconds_at_most(make_session):
    count = 100_000
    rows = np.zeros(count, COMMAND)
    rows["seq"] = np.arange(count)
    rows["start"], rows["end"] = rows["seq"] * 10, rows["seq"] * 10 + 10
    rows["kind"], rows["dst_space"], rows["nbytes"] = Kind.DMA_LOAD, Space.SRAM, 64
    rows["dst"] = rows["seq"] % 64 * 64
    reads = np.zeros(count - 1, ACCESS)
    reads["seq"], reads["by"] = np.arange(1, count), np.arange(count - 1)
    reads["space"], reads["nbytes"] = Space.SRAM, 64
    session = make_session(rows, reads)
    began = time.perf_counter()
    lines = sram_lines(session, 0, count, 120)
    assert time.perf_counter() - began < 10
    assert any("peak 128 B live" in each.text for each in lines)
