"""The seven steps of a tensor's life: on made-up records, on teaching sessions, on faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npudbg import cli
from npudbg.render import fit
from npudbg.render.life import life_lines, marks_of
from npudbg.render.life_findings import step_of
from npudbg.session.commands import ACCESS, COMMAND, Kind, Space, Status
from npudbg.session.reader import Session
from npudbg.session.records import Finding, NodeRecord, Stats, Subject, TensorRecord
from npudbg.targets.loader import load, toml_text

SESSIONS = Path(__file__).parents[3] / "sessions"
A57 = toml_text("generic-a57")
HOST_ADDRESS = 0x7000_0000

LOAD_HOST, LOAD, KERNEL, STORE, CPU = "load-host", "load", "kernel", "store", "cpu"
FLUSH, INVALIDATE, WAIT = "flush", "invalidate", "wait"
WHAT = {
    LOAD_HOST: (Kind.DMA_LOAD, 0, Space.HOST, Space.DDR, -1),
    LOAD: (Kind.DMA_LOAD, 0, Space.DDR, Space.SRAM, 0),
    KERNEL: (Kind.KERNEL, 2, Space.SRAM, Space.SRAM, 0),
    STORE: (Kind.DMA_STORE, 1, Space.SRAM, Space.DDR, 0),
    FLUSH: (Kind.FLUSH, 4, Space.HOST, Space.NONE, -1),
    INVALIDATE: (Kind.INVALIDATE, 4, Space.DDR, Space.NONE, -1),
    WAIT: (Kind.WAIT, 4, Space.NONE, Space.NONE, -1),
    CPU: (Kind.HOST, 4, Space.NONE, Space.DDR, 1),
}
IN, OUT, CPU_OUT = 5, 6, 7
STATS = Stats(count=16, min=0.0, max=1.0, mean=0.5, std=0.1)


def tensors(**changes):
    """Return an input on both sides, an output and what a CPU operator makes of it."""
    plain = {"shape": (4, 4), "dtype": "<f4", "strides": (16, 4), "stats": STATS, "base_nbytes": 64}
    host = {"address": HOST_ADDRESS, "space": "host", **plain, **changes}
    ddr = {"space": "ddr", **plain}
    return (
        TensorRecord(id=4, name="image", role="input", **host),
        TensorRecord(id=IN, name="image@ddr", role="input", address=0x4000_0000, **ddr),
        TensorRecord(id=OUT, name="y", role="output", address=0x4001_0000, producer=0, **ddr),
        TensorRecord(id=CPU_OUT, name="z", role="output", address=0x4002_0000, producer=1, **ddr),
    )


NODES = (
    NodeRecord(index=0, name="conv", op_type="Conv", inputs=(IN,), outputs=(OUT,), kernel="conv",
               engine="mac"),
    NodeRecord(index=1, name="nms", op_type="NonMaxSuppression", inputs=(2, OUT),
               outputs=(CPU_OUT,), kernel="host", engine="host"),
)  # fmt: skip


def session_of(make_session, *steps, reads=(), bad=(), toml=A57, findings=(), **changes):
    """Return a session of the given steps; each step is a word and a tensor's number."""
    rows = np.zeros(len(steps), COMMAND)
    for seq, (what, tensor) in enumerate(steps):
        row = rows[seq]
        kind, engine, src, dst, node = WHAT[what]
        row["seq"], row["start"], row["end"] = seq, 10 * seq, 10 * seq + 10
        row["kind"], row["engine"], row["src_space"], row["dst_space"] = kind, engine, src, dst
        row["node"], row["tensor"], row["nbytes"] = node, tensor, 64
        row["status"] = dict(bad).get(seq, Status.OK)
    return make_session(
        rows, np.array(list(reads), ACCESS), toml=toml, nodes=NODES, findings=findings,
        tensors=tensors(**changes),
    )  # fmt: skip


RUN = ((FLUSH, IN), (LOAD_HOST, IN), (LOAD, IN), (KERNEL, OUT), (STORE, OUT), (WAIT, -1),
       (INVALIDATE, OUT))  # fmt: skip
READS = ((3, 0, 64, IN, 0, Space.SRAM, 0, 2), (4, 0, 64, OUT, -1, Space.SRAM, 0, 3))


def without(word):
    """Return the run, with one command made to be of no tensor and no kind that matters."""
    return [(WAIT, -1) if step[0] == word else step for step in RUN]


def test_a_run_in_order_is_in_order(make_session):
    session = session_of(make_session, *RUN, reads=READS)
    assert marks_of(session, session.tensor("image")) == ["ok"] * 7
    assert marks_of(session, session.tensor("image@ddr")) == ["ok"] * 7
    assert marks_of(session, session.tensor("y")) == [
        "ok", "ok", "ok", "not needed", "ok", "ok", "ok"
    ]  # fmt: skip
    text = "\n".join(each.text for each in life_lines(session, session.tensor("image"), 120))
    for part in ("host 0x70000000", "aligned to 64 KiB", "strides [16, 4]: contiguous",
                 "FLUSH command 0", "host → ddr by DMA: command 1, 64 B, 10 cyc",
                 "operand 0 of node 0 Conv conv: conv on mac",
                 "read as an operand by command 3"):  # fmt: skip
        assert part in text
    text = "\n".join(each.text for each in life_lines(session, session.tensor("y"), 120))
    for part in ("made by command 3", "the host waited until cycle 60", "INVALIDATE by command 6",
                 "operand 1 of node 1"):  # fmt: skip
        assert part in text


def test_a_flush_that_is_missing_or_too_late_breaks_the_fourth_step(make_session):
    session = session_of(make_session, *without(FLUSH), reads=READS)
    assert marks_of(session, session.tensor("image"))[3] == "broken"
    late = [(LOAD_HOST, IN), (FLUSH, IN), *RUN[2:]]
    assert marks_of(session_of(make_session, *late), tensors()[0])[3] == "broken"


def test_a_coherent_target_needs_no_flush(make_session):
    toml = A57.replace("coherent = false", "coherent = true")
    assert toml != A57
    session = session_of(make_session, *without(FLUSH), reads=READS, toml=toml)
    assert marks_of(session, session.tensor("image"))[3] == "not needed"
    unknown = session_of(make_session, *without(FLUSH), toml=toml_text("generic"))
    assert marks_of(unknown, unknown.tensor("image"))[3] == "not recorded"
    none = session_of(make_session, *RUN, toml="")
    assert marks_of(none, none.tensor("image"))[3] == "ok"
    damaged = session_of(make_session, *without(FLUSH), toml="[[[")
    assert marks_of(damaged, damaged.tensor("image"))[3] == "not recorded"


def test_what_the_cpu_made_is_flushed_before_the_device_loads_it(make_session):
    steps = [(CPU, OUT), (LOAD, OUT)]
    broken = session_of(make_session, *steps)
    assert marks_of(broken, broken.tensor("y"))[3] == "broken"
    fine = session_of(make_session, steps[0], (FLUSH, OUT), steps[1])
    assert marks_of(fine, fine.tensor("y"))[3] == "ok"


def test_an_output_read_without_waiting_breaks_the_seventh_step(make_session):
    early = [*RUN[:3], (WAIT, -1), (KERNEL, OUT), (STORE, OUT), (INVALIDATE, OUT)]
    session = session_of(make_session, *early)
    assert marks_of(session, session.tensor("y"))[6] == "broken"
    hung = session_of(make_session, *RUN, bad=[(5, Status.HUNG)])
    assert marks_of(hung, hung.tensor("y"))[6] == "broken"
    assert any("never ended" in each.text for each in life_lines(hung, hung.tensor("y"), 80))


def test_an_operator_on_the_cpu_waits_for_its_operand(make_session):
    read = (6, 0, 64, OUT, 1, Space.DDR, 0, 4)
    fine = session_of(make_session, *RUN[:6], (CPU, CPU_OUT), (WAIT, -1), reads=[*READS, read])
    assert marks_of(fine, fine.tensor("y"))[6] == "ok"
    steps = [*RUN[:5], (FLUSH, 3), (CPU, CPU_OUT), (WAIT, -1)]
    early = session_of(make_session, *steps, reads=[*READS, read])
    assert marks_of(early, early.tensor("y"))[6] == "broken"


def test_a_transfer_that_was_refused_breaks_the_fifth_step(make_session):
    for status in (Status.FAULT, Status.HUNG, Status.TOUCHED, Status.NOT_STARTED):
        session = session_of(make_session, *RUN, reads=READS, bad=[(1, status)])
        assert marks_of(session, session.tensor("image"))[4] == "broken"


@pytest.mark.parametrize(
    ("changes", "step", "mark"),
    [
        ({"address": HOST_ADDRESS + 0x5000}, 1, "warn"),
        ({"address": None}, 1, "ok"),  # the device's copy has one
        ({"strides": (4, 16)}, 3, "warn"),
        ({"shape": (1, 4), "strides": (999, 4)}, 3, "ok"),
        ({"strides": ()}, 3, "not recorded"),
        ({"dtype": "sequence"}, 3, "ok"),
        ({"dtype": "object"}, 3, "not recorded"),
        ({"stats": None}, 2, "not recorded"),
        ({"stats": Stats(count=16, nan=3)}, 2, "warn"),
    ],
)
def test_what_the_host_gives(make_session, changes, step, mark):
    session = session_of(make_session, *RUN, **changes)
    assert marks_of(session, session.tensor("image"))[step - 1] == mark


def finding(code, severity="error", **subject):
    return Finding(code=code, name="n", layer=1, severity=severity, certainty="proven",
                   message="m\x1b[2J",
                   subject=Subject(**{"kind": "tensor", **subject}))  # fmt: skip


@pytest.mark.parametrize(
    ("code", "step"),
    [("H110", 1), ("I240", 2), ("H101", 3), ("T350", 4), ("T302", 5), ("T342", 5), ("I211", 6),
     ("T384", 7), ("T351", 7), ("O401", 7), ("H999", 3), ("I999", 6)],
)  # fmt: skip
def test_a_finding_breaks_its_own_step_alone(make_session, code, step):
    session = session_of(
        make_session, *RUN, reads=READS, findings=[finding(code, name="image", tensor=4)]
    )
    marks = marks_of(session, session.tensor("image"))
    assert [n for n, mark in enumerate(marks, 1) if mark == "broken"] == [step]
    assert step_of(session.findings[0]) == step
    other = marks_of(session, session.tensor("y"))
    assert "broken" not in other
    text = [each.text for each in life_lines(session, session.tensor("image"), 100)]
    assert sum(code in t for t in text) == 1
    assert all(t.isprintable() for t in text)


def test_findings_by_command_node_and_name(make_session):
    for subject, name in (
        ({"kind": "command", "seq": 1}, "image"),
        ({"kind": "tensor", "name": "image"}, "image"),
        ({"kind": "node", "node": 0}, "y"),
    ):
        session = session_of(make_session, *RUN, findings=[finding("T311", **subject)])
        assert marks_of(session, session.tensor(name))[6] == "broken"
    session = session_of(make_session, *RUN, findings=[finding("I260", kind="node", node=0)])
    assert marks_of(session, session.tensor("image"))[5] == "broken"
    assert "broken" not in marks_of(session, session.tensor("y"))


def test_a_tensor_that_is_only_called_like_a_copy(make_session):
    odd = TensorRecord(id=8, name="w@ddr", role="weight", shape=(), dtype="<f4", space="ddr")
    session = make_session(np.zeros(0, COMMAND), np.zeros(0, ACCESS), tensors=(*tensors(), odd))
    assert life_lines(session, odd, 80)[0].text.startswith("life of w@ddr  weight")
    marks = marks_of(session, odd)
    assert marks[0] == "not recorded" and marks[4] == "not recorded"


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_and_carry_no_control(random_session, width):
    session = random_session(5)
    for tensor in session.tensors:
        lines = life_lines(session, tensor, width, target=load("generic-a57"))
        assert all(fit.cells(e.text) <= width and e.text.isprintable() for e in lines)
        heads = [e.text for e in lines if e.text[:3].strip().isdigit()]
        assert [h[1] for h in heads] == list("1234567")


@pytest.mark.parametrize(
    ("name", "tensor", "broken"),
    [("misaligned-dma", "image", {1, 5}), ("f-order", "image", {3, 5}),
     ("unnormalised", "image", {2}), ("never-started", "stem/conv", {7}),
     ("clean", "image", set())],
)  # fmt: skip
def test_teaching_sessions(name, tensor, broken):
    with Session.open(SESSIONS / f"{name}.npudbg") as session:
        marks = marks_of(session, session.tensor(tensor))
    assert {n for n, mark in enumerate(marks, 1) if mark == "broken"} == broken


def test_no_step_is_broken_in_a_clean_run():
    with Session.open(SESSIONS / "clean.npudbg") as session:
        for tensor in session.tensors:
            assert not {"broken", "warn"}.intersection(marks_of(session, tensor)), tensor.name


@pytest.mark.parametrize(
    "argv",
    [["sram"], ["sram", "--cycles", "--from", "3", "--to", "9"], ["dma", "--at", "20"],
     ["engines", "--plain"], ["life", "image"], ["life", "scores", "--width", "160"]],
)  # fmt: skip
def test_the_verb_prints_each_view(argv, capsys):
    assert cli.main(["view", str(SESSIONS / "clean.npudbg"), *argv]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) > 4
    assert argv[0] in out.lower() or "--plain" not in argv or out.isascii()


@pytest.mark.parametrize(
    ("argv", "says"),
    [(["life"], "expected a tensor's name"), (["life", "imag"], "did you mean image?"),
     (["sram", "x"], "takes no tensor"), (["dma", "--at", "99"], "from 0 to 53"),
     (["sram", "--from", "9", "--to", "3"], "from 9 to 53"), (["dma", "--rows", "0"], "--rows"),
     (["engines", "--width", "\x1b[2J"], "--width ?[2J"), (["what"], "what")],
)  # fmt: skip
def test_wrong_usage_is_one_line(argv, says, capsys):
    assert cli.main(["view", str(SESSIONS / "clean.npudbg"), *argv]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err and "\x1b" not in err
