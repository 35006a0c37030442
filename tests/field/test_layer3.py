"""Field cases of layer 3: coherency, alignment, hang, IOMMU, never-written output.

Each is a fault in the simulated device, and its diagnosis is read off the record.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.teaching import CASES, load
from npudbg.debugger.state import State
from npudbg.render.marks import GOOD, UNKNOWN, layer_mark
from npudbg.session.commands import Kind, Space, Status
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory


def board(sram=16_384, **dma):
    base = targets.load("generic-a57")
    return msgspec.structs.replace(
        base,
        memory=Memory(sram_bytes=sram),
        dma=msgspec.structs.replace(base.dma, **{"base_alignment": None, **dma}),
        operators=type(base.operators)(),
    )


def run(tmp_path, *faults, target=None, case="clean", **options):
    graph, arrays = load(CASES[case])
    job = Job(model=case, faults=faults, save=str(tmp_path / "s.npudbg"), **options)
    return judge_run(job, graph, target or board(), arrays)


def only(judged, code):
    (found,) = [f for f in judged.findings if f.code == code]
    return found


def test_the_same_board_without_a_fault_has_no_error(tmp_path):
    judged = run(tmp_path)
    assert [f.message for f in judged.findings if f.severity == "error"] == []


def test_b37_a_dirty_line_is_written_back_after_the_dma(tmp_path):
    judged = run(tmp_path, "late-writeback:tensor=scores")
    found = only(judged, "T352")
    assert judged.verdict.code == "T352"
    assert found.subject.name == "scores"
    assert found.evidence["bytes"] == 40  # 10 float32 scores in one 64-byte line
    assert found.evidence["stored_by"] < found.subject.seq
    np.testing.assert_array_equal(judged.outputs["scores"], np.zeros((1, 10), "f4"))


def test_a_missing_flush_is_the_frame_before(tmp_path):
    judged = run(tmp_path, "missing-flush:tensor=image")
    found = only(judged, "T350")
    assert judged.verdict.code == "T350"
    image = load(CASES["clean"])[1]["image"]
    assert found.evidence["wrong"] == int((image != image[..., ::-1]).sum())


def test_a_missing_invalidate_leaves_old_values_with_the_host(tmp_path):
    judged = run(tmp_path, "missing-invalidate:tensor=scores")
    assert judged.verdict.code == "T351"
    assert only(judged, "T351").evidence["wrong"] == 10


PLACES = {"left": 0x2000_0000, "right": 0x2000_03CC}


def test_a_torn_line_names_both_buffers_the_line_and_what_was_lost(tmp_path):
    judged = run(
        tmp_path, "torn-line:tensor=right", case="torn-line", host_addresses=PLACES,
        target=targets.load("rk3588"),
    )  # fmt: skip
    found = only(judged, "T353")
    assert (judged.verdict.layer, judged.verdict.code) == (3, "T353")
    assert found.subject.name == "right"
    assert found.evidence["neighbour"] == "left"
    assert found.evidence["line_address"] == 0x2000_03C0
    assert found.evidence["wrong"] == 13 - 1  # 52 bytes in the line; a middle pixel mirrors itself
    assert found.evidence["bytes_in_line"] == 0x400 - 0x3CC
    assert "H113" in {f.code for f in judged.findings}


def test_a_line_shared_with_the_heap_is_torn_too(tmp_path):
    judged = run(
        tmp_path, "torn-line:tensor=image", target=board(), host_addresses={"image": 0x1000_0020}
    )
    found = only(judged, "T353")
    assert judged.verdict.code == "T353"
    assert found.evidence["neighbour"] is None
    assert found.evidence["bytes_in_line"] == 32


def test_whole_lines_cannot_be_torn(tmp_path):
    with pytest.raises(UserError, match="lies on whole cache lines of 64 bytes"):
        run(tmp_path, "torn-line:tensor=image", host_addresses={"image": 0x1000_0000})


def test_b38_a_job_that_completes_no_task(tmp_path):
    judged = run(tmp_path, "hang:node=/stem/conv")
    found = only(judged, "T310")
    assert judged.status == "hung"
    assert found.evidence["tasks_done"] == 0
    assert "addresses" in found.message
    with Session.open(judged.path) as session:
        last = session.command(session.n_commands - 1)
        assert last["kind"] == Kind.WAIT
        assert last["status"] == Status.HUNG


def test_a_job_stuck_in_a_later_task(tmp_path):
    judged = run(tmp_path, "hang:node=/block2/conv")
    found = only(judged, "T310")
    assert 0 < found.evidence["tasks_done"] < found.evidence["tasks"]
    assert "/block2/conv" in found.message


def test_all_tasks_done_and_the_interrupt_lost(tmp_path):
    judged = run(tmp_path, "lost-interrupt")
    found = only(judged, "T360")
    assert judged.verdict.code == "T360"
    assert found.evidence["tasks_done"] == 14  # 15 nodes, and Flatten is a view


@pytest.mark.parametrize("retries", [0, 5])
def test_a_device_that_is_not_there(tmp_path, retries):
    judged = run(tmp_path, f"missing-device:retries={retries}")
    found = only(judged, "T312")
    assert judged.verdict.code == "T312"
    assert found.evidence["attempts"] == retries + 1
    assert found.evidence["host_busy"] == 1
    with Session.open(judged.path) as session:
        rows = session.commands(0, session.n_commands)
        waits = rows[rows["kind"] == Kind.WAIT]
        assert found.evidence["waited_cycles"] == (waits["end"] - waits["start"]).sum()
        device = rows[rows["kind"] <= Kind.DMA_STORE]
        assert (device["status"] == Status.NOT_STARTED).all()
        assert len(device) == 1 and device[0]["seq"] == found.subject.seq
        busy = session.extra("engines_busy")
        assert sum(v for k, v in busy.items() if k != "host") == 0
        assert {n.status for n in session.nodes} <= {"not-run", "ok"}
        assert session.array(session.tensors[int(device[0]["tensor"])]) is None


def test_too_many_attempts_are_refused(tmp_path):
    with pytest.raises(UserError, match="from 0 to 1000"):
        run(tmp_path, "missing-device:retries=1001")


@pytest.mark.parametrize("retries", [1, 4])
def test_b41_a_device_that_a_reset_does_not_bring_back(tmp_path, retries):
    judged = run(tmp_path, f"no-recovery:node=/block1/pw,retries={retries}")
    lost, dead = only(judged, "T310"), only(judged, "T363")
    assert judged.verdict.code == "T310"  # the cause; that it stays dead is told beside it
    assert dead.evidence["jobs_after"] == retries
    assert dead.evidence["lost"] == lost.subject.seq
    assert f"for job {lost.evidence['completed'] + 1}:" in lost.message
    with Session.open(judged.path) as session:
        rows = session.commands(lost.subject.seq, session.n_commands)
        first, attempts = rows[:2], rows[2:]
        assert first["status"].tolist() == [Status.HUNG] * 2
        assert attempts["status"].tolist() == [Status.NOT_STARTED, Status.HUNG] * retries
        assert session.command(dead.subject.seq)["kind"] == Kind.DMA_LOAD
    assert not [f for f in run(tmp_path, "hang:node=/block1/pw").findings if f.code == "T363"]


def test_a_deadlock_names_the_circle(tmp_path):
    judged = run(tmp_path, "deadlock:node=/block2/conv")
    circle = only(judged, "T361").evidence["circle"]
    assert len(circle) == 2
    with Session.open(judged.path) as session:
        kinds = {session.command(seq)["kind"] for seq in circle}
        assert kinds == {Kind.DMA_LOAD, Kind.DMA_STORE}


def test_a_deadlock_without_a_place_takes_the_first_that_can_be(tmp_path):
    circle = only(run(tmp_path, "deadlock"), "T361").evidence["circle"]
    assert len(circle) == 2


def test_the_output_of_a_run_that_hung_is_not_judged(tmp_path):
    with Session.open(run(tmp_path, "lost-interrupt").path) as session:
        assert layer_mark(session, 4)[0] == UNKNOWN
        assert layer_mark(session, 1)[0] == GOOD


def test_a_deadlock_needs_two_tiles(tmp_path):
    with pytest.raises(UserError, match="more tiles"):
        run(tmp_path, "deadlock:node=/fc")


def test_b42_an_address_beyond_the_dma_mask(tmp_path):
    high = msgspec.structs.replace(
        board(mask_bits=32), memory=Memory(sram_bytes=16_384, ddr_base=0x1_2000_0000)
    )
    judged = run(tmp_path, target=high)
    found = only(judged, "T362")
    assert judged.status == "fault"
    assert found.evidence["address"] >= 1 << 32
    assert "32-bit mask" in found.message
    low = msgspec.structs.replace(high, memory=Memory(sram_bytes=16_384))
    assert run(tmp_path, target=low).status == "complete"


def test_b43_an_unmapped_address_with_its_direction(tmp_path):
    judged = run(tmp_path, "iommu-fault:tensor=block1/pw,way=store")
    found = only(judged, "T362")
    assert found.evidence["direction"] == "write"
    assert found.subject.name in ("block1/pw", "pool")


@pytest.mark.parametrize(("address", "step", "lost"), [(0x1004, 32, 4), (0x2004, 16, 4)])
def test_b06_b09_a_misaligned_buffer_is_layer_1_and_its_transfer_layer_3(
    address, step, lost, tmp_path
):
    judged = run(tmp_path, target=board(base_alignment=step), host_addresses={"image": address})
    assert judged.verdict.layer == 1
    transfer = only(judged, "T302")
    assert transfer.evidence["bytes_before"] == lost
    aligned = run(
        tmp_path, target=board(base_alignment=step), host_addresses={"image": address - lost}
    )
    assert aligned.verdict.layer == 0


def test_an_output_that_no_dma_wrote(tmp_path):
    judged = run(tmp_path, "dropped-dma:tensor=scores,way=store")
    found = only(judged, "T341")
    assert judged.verdict.code == "T341"
    assert found.subject.name == "scores"


def test_a_fault_that_meets_nothing_says_so(tmp_path):
    with pytest.raises(UserError, match="nothing in this run met it"):
        run(tmp_path, "dropped-dma:seq=999999")
    with pytest.raises(UserError, match="no tensor 'nobody'"):
        run(tmp_path, "dropped-dma:tensor=nobody")
    with pytest.raises(UserError, match="incoherent"):
        run(tmp_path, "missing-flush:tensor=image", target=targets.load("generic"))


def test_b39_a_later_job_that_times_out_names_its_fence(tmp_path):
    """An operator on the host splits the model into two jobs; the second never completes."""
    split = msgspec.structs.replace(
        board(), operators=type(board().operators)(unsupported=("MaxPool",))
    )
    judged = run(tmp_path, "hang:node=/fc", target=split)
    found = only(judged, "T310")
    assert (found.evidence["submitted"], found.evidence["completed"]) == (2, 1)
    assert "job 2: 1 of 2 submitted jobs completed, its fence was not signalled" in found.message
    first = only(run(tmp_path, "hang:node=/stem/conv", target=split), "T310")
    assert (first.evidence["submitted"], first.evidence["completed"]) == (1, 0)


def paged(**dma):
    """Return a board whose pages are as small as its buffers are aligned: none is shared."""
    target = board(**dma)
    memory = msgspec.structs.replace(target.memory, page_bytes=64)
    return msgspec.structs.replace(target, memory=memory)


@pytest.mark.parametrize(
    ("fault", "direction", "reason"),
    [
        ("iommu-fault:tensor=block1/pw", "write", "unmapped"),
        ("iommu-fault:tensor=block1/pw,how=unmapped,way=store", "write", "unmapped"),
        ("iommu-fault:tensor=block1/pw,way=load", "read", "unmapped-early"),
        ("iommu-fault:tensor=image@ddr,how=early", "read", "unmapped-early"),
        ("iommu-fault:tensor=block1/pw,how=read-only", "write", "read-only"),
        ("truncated-address:tensor=block1/pw", "write", "truncated"),
        ("truncated-address:tensor=block1/pw,way=load,bits=20", "read", "truncated"),
    ],
)
def test_b43_each_mistake_of_a_mapping_is_told_from_the_others(tmp_path, fault, direction, reason):
    judged = run(tmp_path, fault, target=paged())
    found = only(judged, "T362")
    assert judged.verdict.code == "T362" and judged.status == "fault"
    assert [f.code for f in judged.findings if f.severity == "error"] == ["T362"]
    assert found.evidence["direction"] == direction
    assert found.evidence["reason"] == reason
    assert found.evidence["engine"].startswith("dma")
    with Session.open(judged.path) as session:
        row = session.command(found.subject.seq)
        assert row["status"] == Status.FAULT
        assert row["kind"] == (Kind.DMA_STORE if direction == "write" else Kind.DMA_LOAD)
        assert session.n_commands == found.subject.seq + 1  # the job ends there
        if reason.startswith("unmapped"):
            assert found.evidence["page_address"] == found.evidence["address"] // 64 * 64


def test_a_page_that_was_unmapped_early_names_who_had_reached_it(tmp_path):
    judged = run(tmp_path, "iommu-fault:tensor=image@ddr,how=early", target=paged())
    found = only(judged, "T362")
    reached = found.evidence["last_reached_by"]
    assert reached < found.subject.seq
    with Session.open(judged.path) as session:
        page = found.evidence["page_address"]
        mine = [
            seq
            for seq in range(found.subject.seq)
            for a in session.accesses(seq, seq + 1)
            if a["addr"] < page + 64 and a["addr"] + a["nbytes"] > page
        ]
        assert mine[-1] == reached
        assert session.tensors[int(session.command(reached)["tensor"])].name == "image@ddr"


def test_a_buffer_that_nothing_reaches_after_it_was_unmapped(tmp_path):
    with pytest.raises(UserError, match="nothing in this run met it"):
        run(tmp_path, "iommu-fault:tensor=scores,how=early", target=paged())


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("iommu-fault:how=never", "how is unmapped, early or read-only"),
        ("iommu-fault:how=read-only,way=load", "refuses stores only"),
        ("iommu-fault", "has no IOMMU"),
        ("truncated-address:bits=40", "fits in 40 bits"),
    ],
)
def test_mappings_that_cannot_be(tmp_path, fault, text):
    with pytest.raises(UserError, match=text):
        run(tmp_path, fault, target=paged(iommu=False))


def test_without_an_iommu_a_truncated_read_brings_an_open_bus(tmp_path):
    fault = "truncated-address:tensor=block1/pw,way=load,bits=20"
    judged = run(tmp_path, fault, target=board(iommu=False))
    found = only(judged, "T349")
    assert judged.verdict.code == "T349" and judged.status == "complete"
    with Session.open(judged.path) as session:
        row = session.command(found.subject.seq)
        tensor = session.tensor("block1/pw")
        meant = found.evidence["meant_address"]
        assert tensor.address <= meant < tensor.address + tensor.base_nbytes
        assert found.evidence["address"] == meant % (1 << 20) == row["src"]
        assert set(session.payload(found.subject.seq)) == {0xFF}


def test_without_an_iommu_a_truncated_write_destroys_what_lies_there(tmp_path):
    # Memory begins at 0x1000, so that an address without its upper bits is memory too.
    low = msgspec.structs.replace(
        board(iommu=False), memory=Memory(sram_bytes=16_384, ddr_base=0x1000)
    )
    with Session.open(run(tmp_path, target=low).path) as session:
        rows = session.commands(0, session.n_commands)
        reads = session.accesses(0, session.n_commands)
        reads = reads[(reads["space"] == Space.DDR) & (reads["operand"] == -1)]
        seq, bits, read, victim = next(
            (int(store["seq"]), bits, int(a["seq"]), session.tensors[int(a["tensor"])].name)
            for store in rows[rows["kind"] == Kind.DMA_STORE]
            for bits in range(13, 18)
            if int(store["dst"]) >> bits
            for a in reads[reads["seq"] > store["seq"]]
            if a["addr"] <= int(store["dst"]) % (1 << bits) < a["addr"] + a["nbytes"] - 4
            and session.tensors[int(a["tensor"])].last_seq < store["seq"]
        )
    judged = run(tmp_path, f"truncated-address:seq={seq},bits={bits}", target=low)
    found = only(judged, "T349")
    assert judged.verdict.code == "T349"
    assert found.subject.seq == seq and found.evidence["direction"] == "write"
    assert victim in found.evidence["there"]
    assert not [f for f in judged.findings if f.code in ("T341", "T348", "T380")]
    with Session.open(judged.path) as session:
        row, written = session.command(seq), session.payload(seq)
        seen = State(session).memory_at(Space.DDR, int(row["dst"]), 4, read)
        at = int(row["dst"]) - int(session.accesses(read, read + 1)[0]["addr"])
        assert seen.data == written[:4] == session.observed(read, -1)[at : at + 4]
        assert seen.writers.tolist() == [seq] * 4
