"""`npudbg exec`: what it records, and what its judges are given."""

from __future__ import annotations

import io

import agent_programs as programs
import numpy as np
import pytest
from agent_programs import parse, supervise

from npudbg.backends.attached_record import Recorder
from npudbg.commands import exec_
from npudbg.commands.attached import judges as attached_judges
from npudbg.commands.attached import run as attached_run
from npudbg.commands.attached.debugger import AttachedDebugger, Judges
from npudbg.layers.findings import Rule
from npudbg.session.commands import Kind, Space, Status
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Meta, Subject
from npudbg.session.scan import scan
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

# -- what is recorded ---------------------------------------------------------------------


def record(folder, *argv, outputs=lambda call, placed: []):
    writer = SessionWriter(folder / "s.npudbg")
    recorder = Recorder(writer, scan=scan)
    out = io.StringIO()
    debugger = AttachedDebugger(out, Judges(programs.misplaced, outputs), recorder)
    code = supervise(debugger, *argv)
    verdict = attached_run.judge_run(debugger.findings, debugger.calls)
    recorder.close(debugger.findings, verdict, meta=Meta(target="generic"))
    return code, debugger, out.getvalue(), Session.open(folder / "s.npudbg")


def test_the_session_holds_address_strides_and_base_bytes(folder):
    code, debugger, text, session = record(folder, "app.py")
    with session:
        assert code == 0
        x = session.tensor("x")
        assert x.address == int((folder / "address.txt").read_text())
        assert (x.space, x.address_origin, x.origin) == ("host", "measured", "measured")
        assert x.strides == (768, 4, 96, 12)
        assert (x.offset, x.base_nbytes, x.owner) == (0, 768, "numpy.ndarray")
        view = session.view(x)
        assert view.strides == x.strides
        expected = np.arange(-96, 96, dtype="f4").reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)
        assert (view == expected).all()
        assert (session.array(x) == expected).all()
        assert session.blob(x.base_blob) == np.arange(-96, 96, dtype="f4").tobytes()
        y = session.tensor("y")
        assert (session.array(y) == np.maximum(expected, 0)).all()
        assert y.base_blob is None
        assert (y.stats.max, y.stats.zeros) == (95.0, 97)
        (node,) = session.nodes
        assert (node.inputs, node.outputs, node.status) == ((x.id,), (y.id,), "ok")
        row = session.command(0)
        assert (row["kind"], row["status"], row["node"]) == (Kind.HOST, Status.OK, 0)
        assert (row["dst"], row["dst_space"], row["nbytes"]) == (y.address, Space.HOST, 768)
        assert 0 < row["end"] - row["start"] < 60e9
        assert session.meta.backend == "attached"
        assert session.meta.clock_hz == 1_000_000_000
        assert session.meta.model.inputs[0].name == "x"
        (finding,) = session.findings
        assert finding.subject.tensor == x.id
        assert finding.message == "190 of 192"
        assert finding.evidence["call"] == 1 and finding.evidence["calls"] == 1
        assert (session.verdict.layer, session.verdict.code) == (1, "H999")
        assert any("layer 2" in line for line in session.verdict.ruled_out)
        facts = session.extra("attached")["facts"][str(x.id)]
        assert facts["transposed_by"] == [0, 3, 1, 2]
    assert debugger.problems == []
    assert f"at 0x{x.address:x} strides (768,4,96,12)" in text
    assert "layer 1 error H999 190 of 192 [measured]" in text
    assert "(measured)" in text


def test_many_calls_keep_the_bytes_of_the_telling_ones(folder):
    (folder / "many.py").write_text(
        programs.HEAD
        + """
p = np.ascontiguousarray(x)
for i in range(12):
    s.run(None, {"x": p})
s.run(None, {"x": x})
s.run(None, {"x": x})
"""
    )
    _, debugger, text, session = record(folder, "many.py")
    with session:
        kept = [t.blob is not None for t in session.tensors if t.role == "input"]
        assert kept == [True] * 8 + [False] * 4 + [True, False]
        assert session.tensors[-2].name == "x#14"
        assert session.n_commands == len(session.nodes) == 14
        assert [f.evidence["calls"] for f in session.findings] == [2]
        assert [f.evidence["call"] for f in session.findings] == [13]
    assert text.count("H999") == 1
    assert debugger.calls == 14


def test_no_file_is_left_where_nothing_ran(folder):
    args = parse(exec_, "--save", "s.npudbg", "--", "no-such-program-here")
    with pytest.raises(UserError):
        exec_.run(args)
    assert not list(folder.glob("s.npudbg*"))


def test_calls_that_fail_or_never_return(folder):
    (folder / "fail.py").write_text(
        programs.HEAD
        + """
try:
    s.run(None, {"x": x.astype("f8")})
except Exception:
    pass
"""
    )
    # The program is gone before the call returns: from a callback of our own.
    (folder / "die.py").write_text(
        programs.HEAD
        + """
inner = s._sess
class Dies:
    def run(self, *a):
        os._exit(9)
    def __getattr__(self, name):
        return getattr(inner, name)
s._sess = Dies()
s.run(None, {"x": x})
"""
    )
    code, _, _, session = record(folder, "fail.py")
    with session:
        assert code == 0
        assert session.nodes[0].status == "failed"
        assert "double" in session.nodes[0].note
        assert session.command(0)["status"] == Status.FAULT
    code, _, _, session = record(folder, "die.py")
    with session:
        assert code == 9
        assert session.nodes[0].status == "hung"
        assert session.command(0)["status"] == Status.HUNG


def test_values_that_are_no_tensors(folder):
    (folder / "odd.py").write_text(
        programs.HEAD
        + """
for odd in ([1, 2], "text", {"a": 1}, np.array(["a", "b"], object), None, 3.5):
    try:
        s.run(None, {"x": odd})
    except Exception:
        pass
print("end")
"""
    )
    code, debugger, _, session = record(folder, "odd.py")
    with session:
        assert code == 0 and debugger.problems == []
        inputs = [t for t in session.tensors if t.role == "input"]
        assert [t.dtype for t in inputs] == [
            "sequence",
            "string",
            "map",
            "string",
            "string",
            "string",
        ]
        assert inputs[0].value == "[1, 2]"


# -- the judges ---------------------------------------------------------------------------


def test_the_case_that_the_rules_get(folder, monkeypatch):
    """Layers 1 and 2 see the arrays before the call, layer 4 a session after it."""
    from npudbg.layers import findings

    seen = []

    def judge(case, layer, extra, failed):
        seen.append((layer, case))
        if layer == 4:
            tensors = {t.name: t for t in case.session.tensors}
            assert tensors["x"].role == "input" and tensors["y"].role == "output"
            assert (case.session.array(tensors["y"]) >= 0).all()
            assert case.session.nodes[0].outputs == (tensors["y"].id,)
            subject = Subject(kind="tensor", name="y", tensor=tensors["y"].id)
            return [finding_of(4, subject)]
        return []

    monkeypatch.setattr(findings, "judge", judge)
    bench = attached_judges.Bench(Target(name="t", title="t"))
    debugger = AttachedDebugger(None, bench.judges(), Recorder(None))
    (folder / "two.py").write_text(programs.HEAD + 'for i in "ab": s.run(None, {"x": x})\n')
    assert supervise(debugger, "two.py") == 0
    assert debugger.problems == [] and bench.notes == []
    assert [layer for layer, _ in seen] == [1, 2, 4] * 2
    case = seen[0][1]
    (x,) = case.inputs
    assert x.record.address == x.facts["address"] != 0
    assert x.array.strides == (768, 4, 96, 12)
    assert case.contract("x").shape == (1, 3, "H", "W")
    assert case.graph.nodes[0].op_type == "Relu"
    (found,) = debugger.findings
    assert found.subject.tensor == 1 and found.evidence["calls"] == 2


def finding_of(layer, subject, severity="error"):
    return Finding(
        code=f"X{layer}",
        name="x",
        layer=layer,
        severity=severity,
        certainty="proven",
        subject=subject,
        message=f"layer {layer}",
    )


@pytest.mark.parametrize("how", ["bytes", "gone"])
def test_models_that_are_no_file(folder, monkeypatch, how):
    from npudbg.layers import findings

    cases = []
    monkeypatch.setattr(findings, "judge", lambda case, layer, *rest: cases.append(case) or [])
    text = {
        "bytes": programs.HEAD.replace('"relu.onnx"', 'open("relu.onnx", "rb").read()'),
        "gone": programs.HEAD + 'os.rename("relu.onnx", "elsewhere")\n',
    }[how]
    (folder / "odd.py").write_text(text + 's.run(None, {"x": x})\n')
    bench = attached_judges.Bench(Target(name="t", title="t"))
    debugger = AttachedDebugger(None, bench.judges(), Recorder(None))
    assert supervise(debugger, "odd.py") == 0
    assert debugger.problems == []
    assert cases[0].contract("x").dtype == "<f4"
    if how == "bytes":
        assert cases[0].graph.nodes[0].op_type == "Relu"
    else:
        assert cases[0].graph is None
        assert "only its contract is known" in bench.notes[0]


def test_verdict_names_the_earliest_layer():
    found = [
        finding_of(1, Subject(kind="tensor", name="x"), "warning"),
        finding_of(4, Subject(kind="tensor", name="y")),
        finding_of(2, Subject(kind="tensor", name="x")),
    ]
    verdict = attached_run.judge_run(found, 3)
    assert (verdict.layer, verdict.code, verdict.finding) == (2, "X2", 2)
    assert verdict.ruled_out == ("layer 1 host: no error in 3 calls",)
    clean = attached_run.judge_run(found[:1], 3)
    assert (clean.layer, len(clean.ruled_out)) == (0, 3)
    assert "no call" in attached_run.judge_run([], 0).summary


def test_plugins_rules_judge_attached_calls_too(folder):
    """A rule of a plugin is asked before and after each call; one that raises is reported."""

    def wide(case):
        return [
            finding_of(4, Subject(kind="tensor", name=t.name, tensor=t.id))
            for t in case.session.tensors
            if t.role == "output"
        ]

    def broken(case):
        raise RuntimeError("out of order")

    failures = []
    bench = attached_judges.Bench(
        Target(name="t", title="t"),
        rules=[Rule(4, ("X901",), wide, "plug"), Rule(2, ("X902",), broken, "plug")],
        failed=lambda rule, error: failures.append((rule.source, str(error))),
    )
    debugger = AttachedDebugger(None, bench.judges(), Recorder(None))
    assert supervise(debugger, "app.py") == 0
    assert debugger.problems == []
    assert [f.subject.name for f in debugger.findings if f.code == "X4"] == ["y"]
    assert failures == [("plug", "out of order")]
