"""The agent in real programs: unchanged, judged, and never broken by their debugger."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import agent_programs as programs
import numpy as np
import pytest

from npudbg.agent import place, protocol
from npudbg.agent.start import LISTEN, SOCKET, WAIT
from npudbg.backends import attached
from npudbg.commands.attached import child as attached_child

SECONDS = 60.0


def run(folder, *argv, handler, env=None, pause=None):
    """Run a program under a server; returns the finished process."""
    path = attached.directory() / "t.sock"
    server = attached.Server(path, handler, pause_seconds=pause)
    server.start()
    try:
        return subprocess.run(
            [sys.executable, *argv],
            cwd=folder,
            env=attached_child.environment({SOCKET: str(path), **(env or {})}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        server.close(5.0)
        handler.server = server


def assert_ran(done):
    assert (done.stdout, done.stderr, done.returncode) == (programs.OUTPUT, "to stderr\n", 0)


def test_before_and_after_a_call(folder):
    notes = programs.Notes()
    done = run(folder, "app.py", handler=notes)
    assert_ran(done)
    (session,) = notes.sessions
    assert session.model.path == str(folder / "relu.onnx")
    assert session.model.inputs[0].shape == (1, 3, "H", "W")
    assert session.model.inputs[0].dtype == "<f4"
    assert session.providers == ("CPUExecutionProvider",)
    (before,), (after,) = notes.befores, notes.afters
    (x,), (y,) = before.values, after.values
    assert before.program.argv == ("app.py",)
    assert x.facts["address"] == int((folder / "address.txt").read_text())
    assert x.facts["strides"] == [768, 4, 96, 12]
    assert x.facts["transposed_by"] == [0, 3, 1, 2]
    # Channel-last into channel-first: only where c*64 + p == 3*p + c do the two agree.
    right = sum(c * 64 + p == 3 * p + c for c in range(3) for p in range(64))
    assert x.facts["wrong"] == 192 - right
    expected = np.arange(-96, 96, dtype="f4").reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)
    assert x.array.strides == expected.strides
    assert (x.array == expected).all()
    assert x.raw.data == np.arange(-96, 96, dtype="f4").tobytes()
    assert (y.array == np.maximum(expected, 0)).all()
    assert after.elapsed_ns > 0


@pytest.mark.parametrize("how", ["module", "stdin", "code", "script"])
def test_ways_to_start_a_program(folder, how):
    argv = {"module": ["-m", "app"], "code": ["-c", programs.APP], "script": ["tool"]}
    (folder / "tool").write_text("#!/usr/bin/env python\nimport app\n")
    notes = programs.Notes()
    if how == "stdin":
        argv[how] = ["-c", "exec(open('app.py').read())"]
    assert_ran(run(folder, *argv[how], handler=notes))
    assert notes.calls == 1


def test_other_apis(folder):
    text = (
        programs.HEAD
        + """
import threading
b = s.io_binding()
b.bind_cpu_input("x", x)
b.bind_output("y")
s.run_with_iobinding(b)
p = np.ascontiguousarray(x)
b = s.io_binding()
b.bind_input("x", "cpu", 0, np.float32, p.shape, p.ctypes.data)
b.bind_output("y")
s.run_with_iobinding(b)
print(b.copy_outputs_to_cpu()[0].sum())
o = ort.OrtValue.ortvalue_from_numpy(x)
print(s.run_with_ort_values(None, {"x": o})[0].numpy().sum())
done = threading.Event()
s.run_async(["y"], {"x": x}, lambda r, u, e: (print(r[0].sum(), u, repr(e)), done.set()), 5)
done.wait()
print(s.run(["y"], input_feed={"x": x})[0].sum())
try:
    s.run(None, {"x": x.astype("f8")})
except Exception as error:
    print(type(error).__name__)
print(p.ctypes.data)
"""
    )
    (folder / "apis.py").write_text(text)
    notes = programs.Notes()
    done = run(folder, "apis.py", handler=notes)
    lines = done.stdout.splitlines()
    assert lines[:5] == ["4560.0", "4560.0", "4560.0 5 ''", "4560.0", "InvalidArgument"], done
    calls = {c.number: c for c in notes.befores}
    assert [calls[n].api for n in sorted(calls)] == [
        "run_with_iobinding",
        "run_with_iobinding",
        "run_with_ort_values",
        "run_async",
        "run",
        "run",
    ]
    assert calls[1].values[0].facts["strides"] == [768, 4, 96, 12]
    assert calls[2].values[0].facts["owner"] == "pointer"
    assert calls[2].values[0].facts["address"] == int(lines[5])
    assert calls[3].values[0].facts["owner"] == "onnxruntime.OrtValue"
    assert all(float(np.clip(c.values[0].array, 0, None).sum()) == 4560 for c in calls.values())
    outputs = {c.number: c for c in notes.afters}
    assert all(float(outputs[n].values[0].array.sum()) == 4560 for n in range(1, 6))
    assert "InvalidArgument" in outputs[6].error


def test_abort_raises_in_the_program(folder):
    (folder / "abort.py").write_text(
        programs.HEAD
        + """
try:
    s.run(None, {"x": x})
except RuntimeError as error:
    print(type(error).__name__, error)
"""
    )
    done = run(folder, "abort.py", handler=programs.Notes(before="abort"))
    assert done.stdout == ("AbortedByDebugger call 1 was aborted in npudbg before it was made\n"), (
        done.stderr
    )
    notes = programs.Notes(after="abort")
    done = run(folder, "abort.py", handler=notes)
    assert "after it returned" in done.stdout
    assert len(notes.afters) == 1


def test_detach(folder):
    (folder / "twice.py").write_text(programs.APP + programs.APP.replace(programs.HEAD, ""))
    notes = programs.Notes(before="detach")
    done = run(folder, "twice.py", handler=notes)
    assert done.stdout == programs.OUTPUT * 2
    assert (notes.calls, len(notes.afters)) == (1, 0)


def test_the_users_own_sitecustomize_runs(folder):
    own = folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.MINE = __name__\n")
    (folder / "mine.py").write_text(
        "import sys, sitecustomize\nprint(MINE, sitecustomize.__file__)\n"
        "print([p for p in sys.path if 'npudbg' in p and 'bootstrap' in p])\n"
        "print([m for m in sys.modules if 'numpy' in m])\n" + programs.APP
    )
    notes = programs.Notes()
    env = {"PYTHONPATH": os.pathsep.join([str(attached_child.bootstrap()), str(own)])}
    done = run(folder, "mine.py", handler=notes, env=env)
    assert done.stdout == (
        f"sitecustomize {own / 'sitecustomize.py'}\n[]\n[]\n{programs.OUTPUT}"
    ), done.stderr
    assert notes.calls == 1


def test_a_program_without_npudbg_and_its_dependencies(folder):
    """Only NumPy and ONNX Runtime are importable: no site-packages of npudbg's."""
    lean = folder / "lean"
    lean.mkdir()
    for name in ("numpy", "onnxruntime"):
        package = Path(sys.modules.get(name, __import__(name)).__file__).parent
        (lean / name).symlink_to(package)
        if (package.parent / f"{name}.libs").exists():
            (lean / f"{name}.libs").symlink_to(package.parent / f"{name}.libs")
    text = (
        "import importlib.util as u\n"
        "assert not any(u.find_spec(n) for n in ('npudbg', 'msgspec', 'wrapt', 'onnx'))\n"
    )
    (folder / "lean.py").write_text(text + programs.APP)
    notes = programs.Notes()
    # -S: no site-packages and no sitecustomize; what site would do is done by hand.
    start = "import sitecustomize, runpy; runpy.run_path('lean.py', run_name='__main__')"
    env = {"PYTHONPATH": os.pathsep.join([str(attached_child.bootstrap()), str(lean)])}
    assert_ran(run(folder, "-S", "-c", start, handler=notes, env=env))
    assert notes.calls == 1
    # And with -S alone the agent stays out, and so does any harm.
    notes = programs.Notes()
    assert_ran(run(folder, "-S", "lean.py", handler=notes, env=env))
    assert notes.calls == 0


@pytest.mark.parametrize("how", ["subprocess", "fork"])
def test_children_are_followed(folder, how):
    child = {
        "subprocess": "import subprocess; subprocess.run([sys.executable, 'app.py'], check=True)\n",
        "fork": (
            "s.run(None, {'x': x})\n"
            "pid = os.fork()\n"
            "if not pid:\n"
            "    y = s.run(None, {'x': x[:, :, :4]})[0]\n"
            "    os._exit(y.shape[2])\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4\n"
        ),
    }[how]
    (folder / "parent.py").write_text(
        programs.HEAD + child + "s.run(None, {'x': x})\nprint('end')\n"
    )
    notes = programs.Notes()
    done = run(folder, "parent.py", handler=notes)
    assert done.stdout.endswith("end\n"), done.stderr
    assert len(notes.programs) == 2
    parent, offspring = notes.programs
    assert offspring.pid != parent.pid and offspring.ppid == parent.pid
    assert [c.program.pid for c in notes.befores].count(offspring.pid) == 1
    assert all(c.session is not None for c in notes.befores)


def test_no_debugger_no_difference(folder):
    for env in ({SOCKET: str(folder / "none.sock")}, {SOCKET: "x" * 300}, {LISTEN: "/none/a.sock"}):
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=folder,
            env=attached_child.environment(env),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert_ran(done)


@pytest.mark.parametrize("answer", ["silence", "noise", "cut", "no object", "unknown", "eof"])
def test_a_debugger_that_talks_nonsense(folder, answer):
    """Whatever stands at the other end, the program runs to its right end."""
    path = attached.directory() / "bad.sock"
    listener = place.listen(path)
    listener.settimeout(SECONDS)

    def behave():
        sock, _ = listener.accept()
        with sock:
            protocol.receive(sock, 10)
            if answer == "eof":
                return
            hello = {"type": "hello", "version": 1, "pause_seconds": 1, "max_bytes": "many"}
            protocol.send(sock, hello)
            protocol.receive(sock, 10)  # session
            reply = {
                "silence": b"",
                "noise": b"\x00garbage" * 20,
                "cut": protocol.encode({"type": "continue"})[:9],
                "no object": b"npuD\x02\0\0\0" + bytes(8) + b"[]",
                "unknown": protocol.encode({"type": "dance"}),
            }[answer]
            sock.sendall(reply)
            if answer in ("silence", "cut"):
                time.sleep(3)

    thread = threading.Thread(target=behave)
    thread.start()
    with listener:
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=folder,
            env=attached_child.environment({SOCKET: str(path)}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert_ran(done)
        thread.join()


def test_the_server_outlives_nonsense(folder):
    notes = programs.Notes()
    path = attached.directory() / "s.sock"
    server = attached.Server(path, notes)
    server.start()
    for junk in (b"", b"GET / HTTP/1.0\r\n\r\n", b"npuD" + b"\xff" * 40):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            sock.sendall(junk)
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=folder,
        env=attached_child.environment({SOCKET: str(path)}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert_ran(done)
    server.close(5)
    assert notes.calls == 1
    assert not path.exists()


def test_a_foreign_uid_is_refused(folder, monkeypatch):
    notes = programs.Notes()
    true_peer = place.peer
    monkeypatch.setattr(place, "peer", lambda s: (true_peer(s)[0], true_peer(s)[1] + 1))
    assert_ran(run(folder, "app.py", handler=notes))
    assert notes.programs == []
    assert notes.server.refused and "uid" in notes.server.refused[0]


DEBUGGER = """
import sys, time
sys.path[:0] = {path!r}
import agent_programs as programs
from npudbg.commands import exec_
class Held(programs.Notes):
    def before(self, call):
        open("held.txt", "w").write(str(call.program.pid))
        time.sleep(600)
exec_.supervise([sys.executable, "app.py"], Held())
"""


def test_a_killed_debugger_leaves_the_program_running(folder):
    app = programs.APP.replace(
        'print("sum"', 'open("out.txt", "w").write(f"{y.sum()}")\nprint("sum"'
    )
    (folder / "app.py").write_text(app)
    here = [str(Path(programs.__file__).parent), *[p for p in sys.path if p]]
    (folder / "debugger.py").write_text(DEBUGGER.format(path=here))
    with subprocess.Popen([sys.executable, "debugger.py"], cwd=folder) as debugger:
        wait_for(folder / "held.txt")
        assert not (folder / "out.txt").exists()
        debugger.send_signal(signal.SIGKILL)
    wait_for(folder / "out.txt")
    assert (folder / "out.txt").read_text() == "4560.0"


def wait_for(path):
    deadline = time.monotonic() + SECONDS
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


def listening_program(folder, text, **env):
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=folder,
        env=attached_child.environment({LISTEN: "1", **env}),
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + SECONDS
    while not attached.listening():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    return process


def test_join_a_program_that_waits(folder):
    process = listening_program(folder, programs.APP, **{WAIT: "60"})
    ((pid, path),) = attached.listening()
    assert pid == process.pid
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    notes = programs.Notes()
    attached.join(path, notes)
    assert process.communicate(timeout=SECONDS)[0] == programs.OUTPUT
    assert (notes.calls, len(notes.afters), len(notes.sessions)) == (1, 1, 1)
    assert attached.listening() == []
    assert not path.exists()


def test_join_a_running_loop_leave_it_and_join_again(folder):
    text = (
        programs.HEAD
        + """
import time
n = 0
while not os.path.exists("stop"):
    y = s.run(None, {"x": x})[0]
    n += 1
    time.sleep(0.01)
print(n >= 2, y.sum())
"""
    )
    process = listening_program(folder, text)
    ((_, path),) = attached.listening()
    for _ in range(2):
        notes = programs.Notes(after="detach")
        attached.join(path, notes)
        assert (notes.calls, len(notes.sessions)) == (1, 1)
    (folder / "stop").touch()
    assert process.communicate(timeout=SECONDS)[0] == "True 4560.0\n"


def test_a_debugger_that_died_between_calls_makes_room(folder):
    text = (
        programs.HEAD
        + """
import time
while not os.path.exists("stop"):
    s.run(None, {"x": x})
    open("made", "w").write("1")
    while not os.path.exists("more"):
        time.sleep(0.01)
"""
    )
    process = listening_program(folder, text, **{WAIT: "60"})
    ((_, path),) = attached.listening()
    with place.connect(path, 5.0) as sock:
        protocol.receive(sock, 10)
        protocol.send(sock, {"type": "hello", "version": 1})
        for _ in range(3):  # session, before-call, after-call
            protocol.receive(sock, 10)
            protocol.send(sock, {"type": "continue"})
        wait_for(folder / "made")
    # The first one is gone and no call has noticed it.
    notes = programs.Notes(before="detach")
    joined = threading.Thread(target=lambda: attached.join(path, notes))
    joined.start()
    time.sleep(0.3)
    (folder / "stop").touch()
    (folder / "more").touch()
    joined.join(SECONDS)
    process.communicate(timeout=SECONDS)
    assert len(notes.programs) == 1


def test_one_debugger_at_a_time(folder):
    from npudbg.session.errors import UserError

    process = listening_program(folder, programs.APP, **{WAIT: "60"})
    ((_, path),) = attached.listening()
    tried = []

    class Second(programs.Notes):
        def before(self, call):
            with pytest.raises(UserError, match="another debugger") as error:
                attached.join(path, programs.Notes())
            tried.append(str(error.value))
            return "continue"

    attached.join(path, Second())
    process.communicate(timeout=SECONDS)
    assert len(tried) == 1


def test_nobody_to_join(folder):
    from npudbg.session.errors import UserError

    with pytest.raises(UserError, match="no program listens there"):
        attached.join(folder / "none.sock", programs.Notes())
    with place.listen(folder / "mute.sock") as listener:

        def hang_up():
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(UserError, match="no npudbg agent"):
            attached.join(folder / "mute.sock", programs.Notes())
        thread.join()


OLD_NUMPY = os.environ.get("NPUDBG_TEST_OLD_PYTHON")


@pytest.mark.skipif(not OLD_NUMPY, reason="NPUDBG_TEST_OLD_PYTHON names no interpreter")
def test_oldest_supported_numpy(folder, monkeypatch):
    monkeypatch.setattr(sys, "executable", OLD_NUMPY)
    notes = programs.Notes()
    assert_ran(run(folder, "app.py", handler=notes))
    assert notes.programs[0].numpy.startswith("1.26")
    assert notes.befores[0].values[0].facts["strides"] == [768, 4, 96, 12]
