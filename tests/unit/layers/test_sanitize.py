"""Sanitizers: a real run's record, as it is and with one thing wrong in it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.rerun import job_of
from npudbg.commands.teaching import CASES, load
from npudbg.layers.case import Case
from npudbg.layers.findings import judge
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.session.writer import SessionWriter
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory, Target


def board(**changes) -> Target:
    """Return a board with so little SRAM that the model is cut into tiles."""
    base = targets.load("generic-a57")
    free = type(base.operators)()
    return msgspec.structs.replace(
        base, **{"memory": Memory(sram_bytes=16_384), "operators": free, **changes}
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The path of a tiled run."""
    graph, arrays = load(CASES["clean"])
    path = tmp_path_factory.mktemp("clean") / "clean.npudbg"
    return judge_run(Job("clean", save=str(path)), graph, board(), arrays).path


@pytest.fixture
def altered(recorded, tmp_path):
    """A function that judges the record after an edit of its rows, reads and tensors."""

    def judged(edit=None, *, target=None, sanitize=False, tensors=None):
        with Session.open(recorded) as was:
            rows = was.commands(0, was.n_commands).copy()
            reads = was.accesses(0, was.n_commands).copy()
            if edit is not None:
                rows, reads = edit(rows, reads)
            writer = SessionWriter(tmp_path / "altered.npudbg")
            writer.set_meta(was.meta)
            for record in was.tensors:
                change = (tensors or {}).get(record.name, {})
                writer.add_tensor(msgspec.structs.replace(record, blob=None, **change))
            for node in was.nodes:
                writer.add_node(node)
            writer.append_commands(rows)
            writer.append_accesses(reads)
            path = writer.close()
        with Session.open(Path(path)) as session:
            case = Case(target=target or board(), session=session, sanitize=sanitize)
            return [f for f in judge(case, 3) if f.code.startswith("T38")]

    return judged


def codes(findings):
    return [f.code for f in findings]


@pytest.mark.parametrize("sanitize", [False, True])
def test_the_record_as_it_is_has_none(altered, sanitize):
    assert codes(altered(sanitize=sanitize)) == (["T387"] if sanitize else [])


def operand(rows, reads):
    """Return the place of a kernel's SRAM operand that a load of its own had brought."""
    for at in np.flatnonzero((reads["space"] == Space.SRAM) & (reads["operand"] == 0)):
        by = int(reads["by"][at])
        if by >= 0 and rows["kind"][by] == Kind.DMA_LOAD:
            return int(at)
    raise AssertionError("no such operand")


def test_one_byte_that_nothing_wrote_is_found_by_the_shadow_alone(altered):
    seen = {}

    def short(rows, reads):
        at = operand(rows, reads)
        by = int(reads["by"][at])
        rows["nbytes"][by] -= 1
        # Nobody else may write the byte: the first load of its place is the one.
        seen["address"] = int(rows["dst"][by] + rows["nbytes"][by])
        covered = (
            (rows["dst_space"] == Space.SRAM) & (rows["seq"] < reads["seq"][at])
            & (rows["dst"] <= seen["address"]) & (rows["dst"] + rows["nbytes"] > seen["address"])
        )  # fmt: skip
        assert not covered.any()
        return rows, reads

    assert "T381" not in codes(altered(short))
    (found,) = [f for f in altered(short, sanitize=True) if f.evidence.get("bytes") == 1]
    assert found.code == "T381"
    assert found.evidence["address"] == found.subject.address == seen["address"]


def test_a_store_read_beside_a_kernel_that_overwrites_it(altered):
    """A race of a kernel with a store: the window of loads does not see it."""
    seen = {}

    def early(rows, reads):
        store = int(np.flatnonzero(rows["kind"] == Kind.DMA_STORE)[0])
        later = np.flatnonzero((rows["kind"] == Kind.KERNEL) & (rows["seq"] > store))
        kernel = int(later[-1])
        rows["dst"][kernel] = rows["src"][store]
        rows["start"][kernel] = rows["start"][store] + 1
        rows["end"][kernel] = rows["end"][store]
        seen.update(kernel=kernel, store=store, address=int(rows["src"][store]))
        seen["cycles"] = int(rows["end"][store] - rows["start"][store]) - 1
        return rows, reads

    assert "T382" not in codes(altered(early))
    found = [
        f for f in altered(early, sanitize=True)
        if f.code == "T382" and f.evidence["writer"] == seen["kernel"]
        and f.evidence["other"] == seen["store"]
    ]  # fmt: skip
    assert [f.evidence["address"] for f in found] == [seen["address"]]
    assert found[0].evidence["cycles"] == seen["cycles"]


def waits_of(rows):
    return np.flatnonzero(rows["kind"] == Kind.WAIT)


def test_a_wait_for_nothing(altered):
    def twice(rows, reads):
        again = rows[waits_of(rows)[-1:]].copy()
        again["seq"], again["start"] = len(rows), rows["end"].max()
        again["end"] = again["start"] + 200
        return np.concatenate([rows, again]), reads

    with_two = altered(twice)
    (found,) = with_two
    assert found.code == "T386"
    assert found.evidence["wait"] > found.evidence["before"] >= 0


def test_a_wait_before_anything_was_submitted(altered):
    def first(rows, reads):
        # What came before the device's first command is only cache maintenance.
        flush = int(np.flatnonzero(rows["kind"] == Kind.FLUSH)[0])
        assert flush == 0
        rows["kind"][flush] = Kind.WAIT
        return rows, reads

    (found,) = altered(first)
    assert (found.code, found.evidence) == ("T386", {"wait": 0, "before": -1})


def test_a_job_that_nobody_waits_for(altered):
    def none(rows, reads):
        rows["kind"][waits_of(rows)] = Kind.CONFIG
        return rows, reads

    found = altered(none)
    assert codes(found) == ["T384"]
    assert found[0].evidence["last_wait"] == -1


def test_a_host_operator_that_does_not_wait(altered):
    def host(rows, reads):
        store = int(np.flatnonzero(rows["kind"] == Kind.DMA_STORE)[0])
        after = int(np.flatnonzero((rows["kind"] == Kind.KERNEL) & (rows["seq"] > store))[0])
        rows["kind"][after] = Kind.HOST
        rows["dst_space"][after] = Space.NONE
        reads = reads[reads["seq"] != after]
        extra = np.zeros(1, reads.dtype)
        extra["seq"], extra["by"], extra["space"] = after, store, Space.DDR
        extra["tensor"], extra["addr"], extra["nbytes"] = rows["tensor"][store], 0x4000_0000, 4
        return rows, np.sort(np.concatenate([reads, extra]), order="seq", kind="stable")

    found = [f for f in altered(host) if f.code == "T384"]
    assert len(found) == 1
    assert found[0].evidence["read_by"] == found[0].subject.seq > found[0].evidence["stored_by"]


def test_a_device_buffer_off_the_engines_alignment(altered, recorded):
    with Session.open(recorded) as session:
        tensor = next(t for t in session.tensors if t.space == "ddr" and t.role == "output")
        place = tensor.address
    found = altered(tensors={tensor.name: {"address": place + 0x40}})
    (odd,) = [f for f in found if f.code == "T385"]
    assert odd.subject.name == tensor.name
    assert (odd.evidence["remainder"], odd.evidence["alignment"]) == (0x40, 0x10000)


def test_lengths_are_judged_only_where_the_profile_counts_in_units(altered):
    plain = board()
    units = board(dma=msgspec.structs.replace(plain.dma, length_alignment=1 << 20))
    (found,) = altered(target=units)
    assert found.code == "T385"
    assert found.evidence["count"] == found.evidence["transfers"]
    four = board(dma=msgspec.structs.replace(plain.dma, length_alignment=4))
    assert altered(target=four) == []  # float32: every run is a multiple of 4


def test_operands_inside_a_bank_word(altered):
    sources = {"memory.bank_bytes_per_cycle": "test"}
    banks = board(memory=Memory(sram_bytes=16_384, bank_bytes_per_cycle=16), sources=sources)

    def shifted(rows, reads):
        at = operand(rows, reads)
        reads["addr"][at] += 4
        reads["nbytes"][at] = 32
        return rows, reads

    (found,) = altered(shifted, target=banks)
    assert found.code == "T385"
    # 32 bytes from 4 on: words 0, 1 and 2.
    assert (found.evidence["words"], found.evidence["words_aligned"]) == (3, 2)
    assert found.evidence["count"] == 1
    assert altered(target=banks) == []
    assert altered(shifted) == []  # the profile does not say what its banks are


def test_a_fork_is_sanitized_as_its_run_was(tmp_path):
    graph, arrays = load(CASES["clean"])
    for wanted in (True, False):
        job = Job("clean", save=str(tmp_path / f"{wanted}.npudbg"), sanitize=wanted)
        judged = judge_run(job, graph, board(), arrays)
        assert ("T387" in codes(judged.findings)) == wanted
        with Session.open(judged.path) as session:
            assert job_of(session)[0].sanitize == wanted
