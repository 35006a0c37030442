"""SIGTERM and SIGHUP while a run is being recorded: nothing temporary is left behind."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

NODES = 4000


@pytest.fixture
def long_run(tmp_path: Path) -> list[str]:
    """Return the command line of a run that takes many seconds."""
    shape = (1, 64, 64, 64)
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(NODES)]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"t{NODES}", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "chain.onnx")
    np.save(tmp_path / "x.npy", np.ones(shape, np.float32))
    (tmp_path / "tmp").mkdir()
    return [
        sys.executable,
        "-m",
        "npudbg",
        "run",
        *(str(tmp_path / n) for n in ("chain.onnx", "x.npy")),
    ]


@pytest.fixture(autouse=True)
def hear_them() -> Iterator[None]:
    """Undo what a caller that runs the tests under nohup or in the background has set.

    A child takes over which signals are ignored.
    """
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, signal.SIG_DFL) for n in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def left(folder: Path) -> list[str]:
    """Return what npudbg has left (ONNX Runtime keeps a file of its own there)."""
    return [p.name for p in folder.iterdir() if p.name.startswith("npudbg")]


def wait_for_the_session(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a session is being written."""
    until = time.monotonic() + 60
    while not list(folder.glob("npudbg-*.npudbg")):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_session(long_run: list[str], tmp_path: Path, number: int) -> None:
    folder = tmp_path / "tmp"
    process = subprocess.Popen(
        [*long_run, "--headless"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for_the_session(folder, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors == b""
    assert left(folder) == []


def test_nohup_stays_in_force(long_run: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    process = subprocess.Popen(
        ["nohup", *long_run, "--headless"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
    )
    wait_for_the_session(folder, process)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert left(folder) == []


def test_the_full_screen_gives_the_terminal_back(long_run: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        long_run,
        env={**os.environ, "TMPDIR": str(folder), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = bytearray()
    os.set_blocking(ours, False)
    until, sent = time.monotonic() + 90, False
    while process.poll() is None and time.monotonic() < until:
        try:
            shown += os.read(ours, 65536)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            break
        if not sent and b"node" in shown and list(folder.glob("npudbg-*.npudbg")):
            process.send_signal(signal.SIGTERM)
            sent = True
    assert process.wait(60) == 128 + signal.SIGTERM
    with contextlib.suppress(OSError):
        shown += os.read(ours, 65536)
    os.close(ours)
    assert b"\x1b[?1049h" in shown  # the alternate screen was entered
    assert b"\x1b[?1049l" in shown[shown.rindex(b"\x1b[?1049h") :]  # and left
    assert left(folder) == []
