"""`npudbg exec` and `npudbg attach`: what they record, ask, print and return."""

from __future__ import annotations

import argparse
import io
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "agent"))
import agent_programs as programs

from npudbg.backends.attached_record import Recorder
from npudbg.commands import attach, attached_child, attached_judges, attached_run, exec_
from npudbg.commands.attached_debugger import AttachedDebugger, Judges, Terminal
from npudbg.session.commands import Kind, Space, Status
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Meta, Subject
from npudbg.session.scan import scan
from npudbg.session.writer import SessionWriter

NAN_APP = programs.HEAD + 'x = x.copy()\nx[0, 1, 2, 3] = np.nan\ns.run(None, {"x": x})\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    runtime = Path("/tmp") / f"npudbg-test-{os.getpid()}-{time.monotonic_ns()}"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.chdir(tmp_path)
    programs.write(tmp_path, app=programs.APP, nan=NAN_APP)
    yield tmp_path
    for left in sorted(runtime.rglob("*"), reverse=True):
        left.unlink() if not left.is_dir() else left.rmdir()
    runtime.rmdir()


def parse(command, *argv):
    parser = argparse.ArgumentParser()
    command.prepare_parser(parser)
    return parser.parse_args(argv)


def supervise(debugger, *argv):
    return exec_.supervise([sys.executable, *argv], debugger)


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


# -- stopping and asking ------------------------------------------------------------------


def terminal_of(answers):
    master, slave = pty.openpty()
    os.write(master, answers.encode())
    return master, Terminal(slave, slave)


@pytest.mark.parametrize(
    ("answers", "code", "aborted"),
    [("c\n", 0, 0), ("i\nz\n\n", 0, 0), ("a\n", 1, 1), ("d\n", 0, 0)],
)
def test_asked_at_the_first_faulty_call(folder, answers, code, aborted, capfd):
    master, terminal = terminal_of(answers)
    debugger = programs.debugger(stop="faulty", terminal=terminal)
    assert supervise(debugger, "app.py") == code
    out, err = capfd.readouterr()
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    os.close(terminal.read)
    assert "call 1 is held: (c)ontinue, (a)bort, (i)nfo, (d)etach?" in shown
    assert debugger.aborted == aborted
    if aborted:
        assert "AbortedByDebugger: call 1 was aborted in npudbg before it was made" in err
    else:
        assert (out, err) == (programs.OUTPUT, "to stderr\n")
    if "i" in answers:
        assert "transpose of a packed array by (0, 3, 1, 2)" in shown
        assert "190 of 192 elements wrongly" in shown
        assert "answer c, a, i or d" in shown


def test_without_a_terminal_a_held_call_is_aborted(folder, capfd):
    debugger = programs.debugger(stop="faulty", terminal=None)
    assert supervise(debugger, "app.py") == 1
    assert "AbortedByDebugger" in capfd.readouterr().err


def test_a_rule_that_breaks_does_not_break_the_program(folder, capfd):
    def broken(call, placed):
        raise KeyError("no such thing")

    debugger = AttachedDebugger(None, Judges(broken, broken), Recorder(None), stop="faulty")
    assert supervise(debugger, "app.py") == 0
    assert capfd.readouterr().out == programs.OUTPUT
    assert any("a rule failed on call 1: KeyError" in p for p in debugger.problems)


def test_leave_after_n_calls(folder):
    (folder / "five.py").write_text(programs.HEAD + 'for i in range(5): s.run(None, {"x": x})\n')
    debugger = programs.debugger(limit=2)
    assert supervise(debugger, "five.py") == 0
    assert debugger.calls == 2


# -- the program's life -------------------------------------------------------------------


def test_exit_codes_and_streams(folder, capfd):
    for text, code in (
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import signal; assert signal.getsignal(signal.SIGPIPE) != signal.SIG_DFL", 0),
    ):
        assert supervise(programs.debugger(), "-c", text) == code
    assert exec_.supervise(["sh", "-c", "echo out; echo err >&2; exit 3"], programs.debugger()) == 3
    assert capfd.readouterr() == ("out\n", "err\n")
    # A program's dispositions are the default ones: a closed pipe ends it.
    assert exec_.supervise(["sh", "-c", "kill -PIPE $$"], programs.debugger()) == 141
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


TRAP = """
import signal, sys, time
got = []
signal.signal({number}, lambda *a: got.append(1))
open("ready", "w").write("1")
deadline = time.monotonic() + 60
while not got and time.monotonic() < deadline:
    time.sleep(0.02)
time.sleep(0.3)
sys.exit(40 + len(got))
"""


def supervisor(folder, number):
    """Write a program that counts a signal; return the code that runs it under exec."""
    (folder / "trap.py").write_text(TRAP.format(number=int(number)))
    return (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "import agent_programs as p\n"
        "from npudbg.commands import exec_\n"
        f"sys.exit(exec_.supervise([{sys.executable!r}, 'trap.py'], p.debugger()))\n"
    )


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_are_forwarded_once(folder, number):
    text = supervisor(folder, number)
    with subprocess.Popen([sys.executable, "-c", text], cwd=folder) as process:
        wait_for(folder / "ready")
        process.send_signal(number)
        assert process.wait(60) == 41


def test_the_terminals_own_signal_arrives_once(folder):
    """Ctrl-C reaches the program through the terminal: it is not sent a second time."""
    text = supervisor(folder, signal.SIGINT)
    pid, master = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, "-c", text])
    wait_for(folder / "ready")
    os.write(master, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 41
    os.close(master)


def test_imports_are_light():
    text = (
        "import sys, npudbg.commands.exec_, npudbg.commands.attach\n"
        "heavy = {'numpy', 'onnx', 'onnxruntime', 'textual', 'msgspec', 'sqlite3'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- the judges ---------------------------------------------------------------------------


def test_the_case_that_the_rules_get(folder, monkeypatch):
    """Layers 1 and 2 see the arrays before the call, layer 4 a session after it."""
    from npudbg.layers import findings
    from npudbg.targets.profile import Target

    seen = []

    def judge(case, layer):
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
    from npudbg.targets.profile import Target

    cases = []
    monkeypatch.setattr(findings, "judge", lambda case, layer: cases.append(case) or [])
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


# -- the commands -------------------------------------------------------------------------


def test_exec_end_to_end(folder, capfd):
    args = parse(
        exec_, "--batch", "--save", "out.npudbg", "--log", "log.txt", "--", sys.executable, "app.py"
    )
    assert exec_.run(args) == 1
    assert capfd.readouterr() == (programs.OUTPUT, "to stderr\n")
    log = (folder / "log.txt").read_text()
    address = int((folder / "address.txt").read_text())
    assert f"at 0x{address:x} strides (768,4,96,12)" in log
    assert "verdict: layer 1" in log
    assert "session saved: out.npudbg" in log
    with Session.open("out.npudbg") as session:
        assert session.verdict.layer == 1
        host = [f for f in session.findings if f.layer == 1 and f.severity == "error"]
        assert host and host[0].subject.name == "x"
        assert "190 of 192" in host[0].message + str(host[0].evidence) or 190 in list(
            host[0].evidence.values()
        )
        assert session.view(session.tensor("x")).strides == (768, 4, 96, 12)
        assert session.meta.target_toml


def test_exec_of_an_innocent_program(folder, capfd):
    text = programs.HEAD + 's.run(None, {"x": np.ascontiguousarray(x) / 96})\nsys.exit(5)\n'
    (folder / "clean.py").write_text(text)
    assert exec_.run(parse(exec_, "--", sys.executable, "clean.py")) == 5
    err = capfd.readouterr().err
    assert "verdict: layer 0: nothing at fault in 1 calls" in err
    assert "ended with exit code 5" in err


def test_exec_finds_layer_4(folder, capfd):
    assert exec_.run(parse(exec_, "--batch", "--", sys.executable, "nan.py")) == 1
    assert "layer 4 error" in capfd.readouterr().err


def test_a_rare_bad_output_in_a_long_loop_is_found(folder, capfd):
    text = """
p = np.ascontiguousarray(x)
for i in range(30):
    s.run(None, {"x": p * (np.inf if i in (20, 25) else 1)})
"""
    (folder / "rare.py").write_text(programs.HEAD + text)
    args = parse(exec_, "--batch", "--save", "r.npudbg", "--", sys.executable, "rare.py")
    assert exec_.run(args) == 1
    with Session.open("r.npudbg") as session:
        found = [f for f in session.findings if f.layer == 4 and f.severity == "error"]
        assert found and found[0].evidence["call"] == 21 and found[0].evidence["calls"] == 2


def test_exec_that_sees_no_call(folder, capfd):
    assert exec_.run(parse(exec_, "--", "sh", "-c", "exit 4")) == 4
    assert "no call was seen" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "no program given"),
        (["--"], "no program given"),
        (["--", "no-such-program-here"], "cannot be started"),
        (["--", "./relu.onnx"], "cannot be started"),
        (["--target", "no-such-chip", "--", "true"], "no-such-chip"),
        (["--save", "no/such/dir/s.npudbg", "--", "true"], "cannot write a session"),
        (["--log", "no/such/dir/log", "--", "true"], "cannot be written"),
        (["--wait", "1", "--save", "a.npudbg", "--", "true"], "--save belongs"),
    ],
)
def test_exec_usage(folder, argv, text):
    with pytest.raises(UserError, match=text) as error:
        exec_.run(parse(exec_, *argv))
    assert "\n" not in str(error.value)


def test_wait_and_attach(folder, capfd):
    """A program held by --wait is joined, judged and recorded from elsewhere."""
    codes = []
    argv = [sys.executable, "app.py"]
    text = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "import argparse\nfrom npudbg.commands import exec_\n"
        "p = argparse.ArgumentParser(); exec_.prepare_parser(p)\n"
        f"sys.exit(exec_.run(p.parse_args(['--wait', '60', '--', *{argv!r}])))\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], cwd=folder) as process:
        deadline = time.monotonic() + 60
        while True:
            try:
                path = attach.find(None)
                break
            except UserError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert attach.run(parse(attach, "--list")) == 0
        assert "app.py" in capfd.readouterr().out
        codes.append(attach.run(parse(attach, path.stem, "--batch", "--save", "a.npudbg")))
        codes.append(process.wait(60))
    assert codes == [1, 0]
    assert "verdict: layer 1" in capfd.readouterr().out
    with Session.open("a.npudbg") as session:
        assert session.tensor("x").address == int((folder / "address.txt").read_text())


def test_detached(folder, capfd):
    (folder / "loop.py").write_text(
        programs.HEAD
        + """
import time
while not os.path.exists("stop"):
    s.run(None, {"x": x})
    time.sleep(0.01)
open("ended", "w").write("1")
"""
    )
    assert exec_.run(parse(exec_, "--detached", "--", sys.executable, "loop.py")) == 0
    pid = int(capfd.readouterr().err.split("pid ")[1].split(";")[0])
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                attach.find(str(pid))
                break
            except UserError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert attach.run(parse(attach, str(pid), "--batch", "--calls", "2")) == 1
        assert capfd.readouterr().out.count("run: x") == 2
    finally:
        (folder / "stop").touch()
    assert os.waitpid(pid, 0)[1] == 0
    assert (folder / "ended").exists()


def test_attach_usage(folder, capsys):
    for argv, text in (
        ([], "no program listens"),
        (["999999999"], "does not listen"),
        (["nothing.sock"], "expected a pid"),
        (["--calls", "-1"], "--calls -1"),
    ):
        with pytest.raises(UserError, match=text) as error:
            attach.run(parse(attach, *argv))
        assert "\n" not in str(error.value)
    assert attach.run(parse(attach, "--list")) == 0
    assert capsys.readouterr().out == ""
    assert attach.run(parse(attach, "--env")) == 0
    env = capsys.readouterr().out
    done = subprocess.run(
        ["sh", "-c", f"{env}\necho $NPUDBG_LISTEN $PYTHONPATH"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "/mine"},
    )
    assert done.stdout == f"1 {attached_child.bootstrap()}:/mine\n"
