"""`npudbg exec` and `npudbg attach` as commands: what they print and return."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import agent_programs as programs
import pytest
from agent_programs import parse

from npudbg.commands import attach, exec_
from npudbg.commands.attached import child as attached_child
from npudbg.session.errors import UserError
from npudbg.session.reader import Session

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
