"""Counters and what is said of them, on made-up records whose figures are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npudbg.layers.case import Case
from npudbg.layers.counters import counters
from npudbg.layers.findings import judge
from npudbg.session.commands import ACCESS, COMMAND, Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Meta, NodeRecord, TensorRecord
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Dma, Memory, Target, Threshold

ENGINES = ("dma0", "dma1", "mac", "vec", "host")
LIMITS = {
    "pe_utilisation": Threshold(healthy=0.7, dangerous=0.4, high_is_good=True),
    "sram_bandwidth": Threshold(healthy=0.7, dangerous=0.9),
    "noc_congestion": Threshold(healthy=0.3, dangerous=0.8),
    "dma_saturation": Threshold(healthy=0.6, dangerous=0.95),
}
STATED = {"dma.setup_cycles": "test"}


@pytest.fixture
def session(tmp_path):
    """A function from (kind, engine, start, end, node, bytes) to an open session."""
    opened = []

    def make(*steps, macs=0):
        writer = SessionWriter(tmp_path / f"{len(opened)}.npudbg")
        writer.set_meta(Meta(engines=ENGINES, backend="simulated"))
        plain = {"role": "activation", "dtype": "<f4", "strides": (4,), "space": "ddr"}
        writer.add_tensor(
            TensorRecord(id=0, name="scale", shape=(1024,), address=0x4000_0000, **plain)
        )
        for index, name in enumerate(("small", "large")):
            writer.add_node(NodeRecord(index=index, name=name, op_type="Conv", macs=macs))
        rows = np.zeros(len(steps), COMMAND)
        for seq, (kind, engine, start, end, node, nbytes) in enumerate(steps):
            row = rows[seq]
            row["seq"], row["kind"], row["engine"] = seq, kind, ENGINES.index(engine)
            row["start"], row["end"], row["node"] = start, end, node
            row["nbytes"], row["box"] = nbytes, 0
            row["box"][0] = (0, nbytes // 4)
            row["src_space"], row["dst_space"] = Space.DDR, Space.SRAM
        writer.append_commands(rows)
        writer.append_accesses(np.empty(0, ACCESS))
        opened.append(Session.open(Path(writer.close())))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def target(**changes):
    dma = Dma(setup_cycles=100, bytes_per_cycle=16.0)
    memory = Memory(sram_banks=4, bank_bytes_per_cycle=16)
    return Target(**{"name": "t", "title": "t", "dma": dma, "memory": memory, **changes})


LOAD, KERNEL = Kind.DMA_LOAD, Kind.KERNEL


def judged(record, code, **changes):
    return [f for f in judge(Case(target=target(**changes), session=record), 3) if f.code == code]


def test_the_noc_is_held_while_any_channel_moves(session):
    # Covered: 0..50 and 40..90 on two channels, 20..30 within; the kernel does not count.
    record = session(
        (LOAD, "dma0", 0, 50, 0, 64), (LOAD, "dma1", 40, 90, 1, 64), (LOAD, "dma1", 20, 30, 1, 64),
        (KERNEL, "mac", 50, 200, 1, 64),
    )  # fmt: skip
    value = {c.name: c.value for c in counters(record, target())}
    assert value["noc_congestion"] == 90 / 200
    assert value["dma_saturation"] == 60 / 200


@pytest.mark.parametrize(("end", "found"), [(900, True), (700, False)])
def test_a_congested_noc_names_the_node_that_holds_it(session, end, found):
    record = session(
        (LOAD, "dma0", 0, 200, 0, 64), (LOAD, "dma1", 200, end, 1, 64),
        (KERNEL, "mac", 0, 1000, 1, 64),
    )  # fmt: skip
    about = [f for f in judged(record, "T330", thresholds=LIMITS)
             if f.subject.name == "noc_congestion"]  # fmt: skip
    assert bool(about) == found
    if found:
        assert about[0].evidence == {
            "value": 0.9, "dangerous": 0.8, "node": 1, "share": round(700 / 900, 4)
        }  # fmt: skip
    assert judged(record, "T330") == []  # a profile without thresholds


def test_every_threshold_has_its_counter_and_its_explanation(session):
    # 1000 cycles of one channel, which bring 60,800 bytes into banks of 64 bytes a cycle.
    steps = [(LOAD, "dma0", n * 100, n * 100 + 100, n % 2, 6080) for n in range(10)]
    found = judged(session(*steps), "T330", thresholds=LIMITS)
    assert {f.subject.name for f in found} == set(LIMITS)
    assert all(f.fix and "node" in f.evidence for f in found)
    bandwidth = next(f for f in found if f.subject.name == "sram_bandwidth")
    assert bandwidth.evidence["value"] == 60_800 / (1000 * 64)


def test_small_packets_are_told_with_what_they_lose(session):
    # 64 bytes take 4 cycles beside a set-up of 100; 4096 take 256.
    small = [(LOAD, "dma0", n * 104, n * 104 + 104, 0, 64) for n in range(30)]
    large = [(LOAD, "dma1", n * 356, n * 356 + 356, 1, 4096) for n in range(10)]
    (found,) = judged(session(*small, *large), "T335", sources=STATED)
    assert found.subject.name == "scale"
    assert found.evidence["small"] == 30
    assert found.evidence["transfers"] == 40
    assert found.evidence["setup_cycles"] == 3000
    assert found.evidence["share"] == round(3000 / (30 * 104 + 10 * 356), 4)


def test_large_transfers_or_a_silent_profile_are_left_alone(session):
    small = [(LOAD, "dma0", n * 104, n * 104 + 104, 0, 64) for n in range(30)]
    large = [(LOAD, "dma0", n * 356, n * 356 + 356, 1, 4096) for n in range(40)]
    assert judged(session(*small), "T335") == []  # the set-up is the simulator's own
    assert judged(session(*large), "T335", sources=STATED) == []
    assert judged(session(*small, *large), "T335", sources=STATED) == []  # most are large
    assert judged(session(*small[:19]), "T335", sources=STATED) == []  # a few are no storm
    free = Dma(setup_cycles=0)
    assert judged(session(*small), "T335", sources=STATED, dma=free) == []
