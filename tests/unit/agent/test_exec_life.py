"""`npudbg exec`: stopping, asking, signals and exit codes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import agent_programs as programs
import pytest
from agent_programs import supervise

from npudbg.backends.attached_record import Recorder
from npudbg.commands import exec_
from npudbg.commands.attached.debugger import AttachedDebugger, Judges, Terminal

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
