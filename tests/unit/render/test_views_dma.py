"""The DMA queue and the engines, held against loops over every command and cycle."""

from __future__ import annotations

import time

import numpy as np
import pytest

from npudbg.render import fit, plain
from npudbg.render.dma_channels import merged, queue_of
from npudbg.render.dma_queue import dma_lines
from npudbg.render.engine_waits import waits_of
from npudbg.render.engines import engine_lines, sparkline
from npudbg.session.commands import ACCESS, COMMAND, Kind, Space, Status
from npudbg.targets.loader import load

SEEDS = range(6)
MOVES = (Kind.DMA_LOAD, Kind.DMA_STORE)


def moved(row, reads):
    """Return the bytes a transfer moved: for a STORE what it read in SRAM, where recorded."""
    if row["kind"] == Kind.DMA_STORE:
        mine = [int(r["nbytes"]) for r in reads if r["seq"] == row["seq"] and r["operand"] < 0]
        return sum(mine) or int(row["nbytes"])
    return int(row["nbytes"])


@pytest.mark.parametrize("seed", SEEDS)
def test_channels_are_those_of_counting_cycles(random_session, seed):
    session = random_session(seed)
    rows, reads = session.commands(10, 50), session.accesses(10, 50)
    compute = np.zeros(session.n_cycles, bool)
    for row in session.commands(0, 60):
        if row["kind"] == Kind.KERNEL:
            compute[int(row["start"]) : int(row["end"])] = True
    queue = queue_of(session, 10, 50)
    assert queue.cycles == int(rows["end"].max()) - int(rows["start"].min())
    expected = sorted({int(r["engine"]) for r in rows if r["kind"] in MOVES})
    assert [c.engine for c in queue.channels] == expected
    for channel in queue.channels:
        mine = [r for r in rows if r["engine"] == channel.engine and r["kind"] in MOVES]
        busy = np.zeros(session.n_cycles, bool)
        for row in mine:
            busy[int(row["start"]) : int(row["end"])] = True
        sizes = [moved(r, reads) for r in mine]
        assert channel.rows["seq"].tolist() == [int(r["seq"]) for r in mine]
        assert channel.nbytes.tolist() == sizes
        assert channel.total == sum(sizes)
        assert channel.small == sum(n < 1024 for n in sizes)
        assert channel.busy == busy.sum()
        assert channel.covered == (busy & compute).sum()
        first, last = int(mine[0]["start"]), max(int(r["end"]) for r in mine)
        assert channel.idle.sum() == (~busy[first:last]).sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_is_the_union(seed):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 200, 30)
    end = start + rng.integers(0, 20, 30)
    union = np.zeros(300, bool)
    for a, b in zip(start, end, strict=True):
        union[a:b] = True
    got = np.zeros(300, bool)
    for a, b in zip(*merged(start, end), strict=True):
        assert not got[a:b].any()
        got[a:b] = True
    assert np.array_equal(got, union)


@pytest.mark.parametrize("seed", SEEDS)
def test_waits_are_those_of_a_loop(random_session, seed):
    session = random_session(seed)
    rows, reads = session.commands(0, 60), session.accesses(0, 60)
    waits = waits_of(session, 0, 60)
    data, rest = np.zeros((5, 5), int), np.zeros(5, int)
    until: dict[int, int] = {}
    for row in rows:
        engine, start = int(row["engine"]), int(row["start"])
        gap = start - until.get(engine, start)
        until[engine] = max(until.get(engine, 0), int(row["end"]))
        if gap <= 0:
            continue
        by = [int(r["by"]) for r in reads if r["seq"] == row["seq"]]
        last = max(by, key=lambda s: (int(rows["end"][s]), s), default=None)
        if last is not None and int(rows["end"][last]) == start:
            data[engine, int(rows["engine"][last])] += gap
        else:
            rest[engine] += gap
    assert np.array_equal(waits.data.sum(axis=1), data.sum(axis=1))
    assert np.array_equal(waits.freed.sum(axis=1) + waits.other, rest)


def small(make_session, **more):
    """A load of 2 KiB, one of 64 bytes 5 cycles later, a kernel that reads both, a store."""
    rows = np.zeros(5, COMMAND)
    rows["seq"] = range(5)
    rows["kind"] = (Kind.DMA_LOAD, Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE, Kind.KERNEL)
    rows["engine"] = (0, 1, 2, 0, 2)
    rows["start"] = (0, 5, 105, 205, 220)
    rows["end"] = (100, 105, 205, 305, 230)
    rows["nbytes"] = (2048, 64, 512, 4096, 16)
    rows["src_space"] = (Space.DDR, Space.DDR, Space.SRAM, Space.SRAM, Space.NONE)
    rows["dst_space"] = (Space.SRAM, Space.SRAM, Space.SRAM, Space.DDR, Space.SRAM)
    rows["status"] = more.pop("status", Status.OK)
    reads = np.array(
        [(2, 0, 2048, 0, 0, Space.SRAM, 0, 0), (2, 0, 64, 0, 1, Space.SRAM, 0, 1),
         (3, 0, 512, 0, -1, Space.SRAM, 0, 2)],
        ACCESS,
    )  # fmt: skip
    return make_session(rows, reads, **more)


def test_a_small_queue_by_hand(make_session):
    session = small(make_session)
    first, second = queue_of(session, 0, 5).channels
    assert first.rows["seq"].tolist() == [0, 3]
    assert first.nbytes.tolist() == [2048, 512]  # the store's range is wider than its box
    assert first.idle.tolist() == [0, 105]
    assert (first.busy, first.covered, first.small) == (200, 10, 1)
    assert (second.busy, second.covered, second.small) == (100, 0, 1)
    text = [each.text for each in dma_lines(session, 0, 5, 120, target=load("generic-a57"))]
    assert text[2].split() == [
        "dma0", "2", "2.5", "KiB", "~66%", "12.8", "50%", "5.0%", "34%", "105", "to", "3",
    ]  # fmt: skip
    waits = waits_of(session, 0, 5)
    assert waits.data[0, 2] == 105  # dma0 waited for the matrix array
    assert waits.other[2] == 15  # the second kernel began for no reason that is recorded
    assert waits.data.sum() == 105


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_and_carry_no_control(random_session, width):
    session = random_session(4)
    for lines in (
        dma_lines(session, 0, 60, width, at=30),
        dma_lines(session, 0, 60, width, target=load("generic-a57"), most=3),
        engine_lines(session, 0, 60, width),
    ):
        text = [each.text for each in lines]
        assert all(fit.cells(t) <= width and t.isprintable() for t in text)
        assert text[0].endswith("simulated")
        assert "?" not in plain.text_of([lines[-1]], "ascii")


def test_the_cursor_stands_in_the_list(random_session):
    session = random_session(4)
    marked = [e.text for e in dma_lines(session, 0, 60, 120, at=30) if e.text.startswith(">")]
    queue = queue_of(session, 0, 60)
    expected = [max(s for s in c.rows["seq"].tolist() if s <= 30) for c in queue.channels]
    assert [int(t[2:].split()[0]) for t in marked] == expected


def test_a_hung_command_is_told(make_session):
    status = (Status.OK, Status.HUNG, Status.OK, Status.OK, Status.OK)
    session = small(make_session, status=status)
    text = "\n".join(each.text for each in engine_lines(session, 0, 5, 100))
    assert "command 1 never ended" in text
    assert any(e.text.startswith(" !") for e in dma_lines(session, 0, 5, 100))


def test_nothing_at_all(make_session):
    nothing = make_session(np.zeros(0, COMMAND), np.zeros(0, ACCESS))
    assert dma_lines(nothing, 0, 10, 80)[-1].text == "no transfers here"
    assert engine_lines(nothing, 0, 10, 80)[-1].text == "no commands here"


def test_sparkline_shows_anything_above_nothing_and_full_only_for_all():
    assert sparkline(np.array([0.0, 1e-6, 0.5, 0.99, 1.0])) == " ▁▄▇█"


def test_a_hundred_thousand_commands_take_seconds_at_most(make_session):
    count = 100_000
    rows = np.zeros(count, COMMAND)
    rows["seq"] = np.arange(count)
    rows["engine"] = rows["seq"] % 4
    rows["kind"] = np.where(rows["engine"] < 2, Kind.DMA_LOAD, Kind.KERNEL)
    rows["start"], rows["end"] = rows["seq"] * 3, rows["seq"] * 3 + 9
    rows["dst_space"], rows["nbytes"] = Space.SRAM, 64
    reads = np.zeros(count - 1, ACCESS)
    reads["seq"], reads["by"] = np.arange(1, count), np.arange(count - 1)
    reads["space"] = Space.SRAM
    session = make_session(rows, reads)
    began = time.perf_counter()
    dma_lines(session, 0, count, 120)
    engine_lines(session, 0, count, 120)
    assert time.perf_counter() - began < 10
