"""sweep: the same table whoever computes it, and nothing lost with a worker or a kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweep_work import echo

from npudbg.cli import main
from npudbg.commands.sweep import session_name
from npudbg.commands.sweeping import pool as sweep_pool
from npudbg.commands.sweeping.results import Results
from npudbg.session.errors import UserError
from npudbg.session.reader import Session

MODEL = str(Path(__file__).parents[2] / "data" / "models" / "f_fp16.onnx")


def inputs(folder: Path, count: int) -> Path:
    """Write frames of which every third overflows fp16 (|3 x|^2 > 65504 from |x| = 86)."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    for i in range(count):
        x = rng.uniform(-1, 1, (1, 3, 32, 32)).astype("f4")
        np.save(folder / f"in{i:03}.npy", x * np.float32((1, 50, 255)[i % 3]))
    return folder


def command(folder: Path, *more: str) -> list[str]:
    fixed = [sys.executable, "-m", "npudbg", "sweep", MODEL, str(folder), "--precision", "fp16"]
    return [*fixed, "--json", *more]


def table(folder: Path, *more: str) -> dict[str, Any]:
    done = subprocess.run(
        command(folder, *more), capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 1, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def lines(out: Path) -> int:
    try:
        return (out / "results.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_for(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while lines(out) < count and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def workers(pid: int) -> list[int]:
    """Return the sweep's worker processes (not multiprocessing's resource tracker)."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


@pytest.fixture(scope="module")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Thirty inputs and their table, computed by one process."""
    folder = inputs(tmp_path_factory.mktemp("sweep") / "in", 30)
    return folder, table(folder, "--jobs", "1", "--out", str(folder.parent / "one"))


def test_which_of_thirty_inputs_trigger_what(thirty: tuple[Path, dict[str, Any]]) -> None:
    folder, found = thirty
    assert [row["input"] for row in found["inputs"]] == [f"in{i:03}.npy" for i in range(30)]
    for i, row in enumerate(found["inputs"]):
        expected = (4, "O401", "sq") if i % 3 == 2 else (0, "", "")
        assert (row["layer"], row["code"], row["subject"]) == expected
    (failure,) = found["failures"]
    assert failure["inputs"] == [f"in{i:03}.npy" for i in range(2, 30, 3)]
    with Session.open(folder.parent / "one" / failure["session"]) as session:
        assert session.verdict is not None and session.verdict.code == "O401"
        kept = session.tensor("input")
        assert kept is not None
        np.testing.assert_array_equal(session.array(kept), np.load(folder / "in002.npy"))


def test_a_killed_worker_loses_nothing(thirty: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, want = thirty
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(folder, "--jobs", "2", "--out", str(out)), stdout=subprocess.PIPE, text=True
    )
    for count in (4, 10):
        wait_for(out, count, process)
        os.kill(workers(process.pid)[0], signal.SIGKILL)
    text, _ = process.communicate(timeout=200)
    assert json.loads(text) == want


def test_a_killed_sweep_goes_on(thirty: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, want = thirty
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(folder, "--jobs", "1", "--out", str(out)), stdout=subprocess.DEVNULL, text=True
    )
    wait_for(out, 8, process)
    process.kill()
    process.wait()
    before = lines(out) - 1
    assert 7 <= before < 30
    with (out / "results.jsonl").open("ab") as file:
        file.write(b'{"input": "in029.npy", "si')  # cut by the kill
    again = subprocess.run(
        command(folder, "--out", str(out)), capture_output=True, text=True, check=False, timeout=300
    )
    assert f"{before} of 30 inputs were done before" in again.stderr
    assert json.loads(again.stdout) == want
    assert lines(out) == 31


def test_a_changed_input_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = inputs(tmp_path / "in", 3), tmp_path / "out"
    argv = ["sweep", MODEL, str(folder), "--precision", "fp16", "--json", "--out", str(out)]
    assert main(argv) == 1
    capsys.readouterr()
    np.save(folder / "in002.npy", np.ones((1, 3, 32, 32), "f4"))
    (folder / "in001.npy").write_bytes(b"no array")
    assert main(argv) == 1
    printed = capsys.readouterr()
    assert "1 of 3 inputs were done before" in printed.err
    rows = json.loads(printed.out)["inputs"]
    assert [(r["status"], r["layer"]) for r in rows] == [
        ("complete", 0), ("unreadable", None), ("complete", 0),
    ]  # fmt: skip
    assert main([*argv, "--cast", "sq=fp32"]) == 2
    assert "another model or set of options" in capsys.readouterr().err


def test_the_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = inputs(tmp_path / "in", 3)
    assert main(["sweep", MODEL, str(folder), "--precision", "fp16"]) == 1
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == ["input", "verdict", "code", "subject"]
    assert shown[3] == ["in002.npy", "4", "output", "O401", "sq"]
    assert main(["sweep", MODEL, str(folder), "--target", "generic"]) == 0


class TestPool:
    def test_a_poisonous_task_is_tried_four_times_and_harms_no_other(self, tmp_path: Path) -> None:
        tasks = ["a", "poison", "b", "once", "c"]
        got = dict(sweep_pool.run(tasks, echo, str(tmp_path), 2))
        assert got == {
            "a": "did a", "b": "did b", "c": "did c", "once": "did once", "poison": None,
        }  # fmt: skip
        tries = {t: (tmp_path / t).stat().st_size for t in tasks}
        assert tries == {"a": 1, "b": 1, "c": 1, "once": 2, "poison": 1 + sweep_pool.RETRIES}

    def test_leaving_early_leaves_no_process(self, tmp_path: Path) -> None:
        before = set(workers(os.getpid()))
        work = sweep_pool.run([str(i) for i in range(9)], echo, str(tmp_path), 2)
        next(work)
        assert set(workers(os.getpid())) - before
        work.close()  # type: ignore[attr-defined]
        assert set(workers(os.getpid())) == before


class TestMistakes:
    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["{}/none"], "no such folder"),
            (["{}"], "no .npy, .npz or .pb file"),
            (["{}", "--jobs", "0"], "--jobs 0: expected a whole number"),
        ],
    )
    def test_one_line(
        self, argv: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["sweep", MODEL, *(a.format(tmp_path) for a in argv)]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1

    def test_a_folder_in_use(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        from npudbg.commands.durable import work_folder

        folder = inputs(tmp_path / "in", 1)
        with work_folder(tmp_path / "out"):
            assert main(["sweep", MODEL, str(folder), "--out", str(tmp_path / "out")]) == 2
        assert "another run of npudbg works in this folder" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "text",
        [
            b"nonsense\n",
            b"[]\n",
            b'{"format": "npudbg-sweep/1", "sweep": "s"}\n{"input": 3}\n',
            b"[" * 100_000 + b"\n",
        ],
    )
    def test_damaged_results(self, text: bytes, tmp_path: Path) -> None:
        (tmp_path / "results.jsonl").write_bytes(text)
        with pytest.raises(UserError, match="damaged"):
            Results(tmp_path, "s")


def test_names_of_sessions_hold_no_path_and_do_not_clash() -> None:
    names = {session_name("O401", s) for s in ("../../etc/x", "..//..//etc//x", "", "a" * 500)}
    assert len(names) == 4
    assert all("/" not in n and len(n) < 100 and not n.startswith(".") for n in names)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as made:
        yield made


class TestDask:
    def test_the_same_table_even_when_a_worker_dies(
        self, thirty: tuple[Path, dict[str, Any]], cluster: Any, tmp_path: Path
    ) -> None:
        folder, want = thirty
        out = tmp_path / "out"
        process = subprocess.Popen(
            command(folder, "--dask", cluster.scheduler_address, "--out", str(out)),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for(out, 5, process)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        text, _ = process.communicate(timeout=200)
        assert json.loads(text) == want

    def test_no_scheduler_is_one_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("distributed")
        folder = inputs(tmp_path / "in", 1)
        assert main(["sweep", MODEL, str(folder), "--dask", "nonsense://x"]) == 2
        assert "--dask nonsense://x: no scheduler answers" in capsys.readouterr().err


def test_without_dask_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    folder = inputs(tmp_path / "in", 1)
    assert main(["sweep", MODEL, str(folder), "--dask", "tcp://127.0.0.1:8786"]) == 2
    assert "pip install 'npudbg[dask]'" in capsys.readouterr().err


@pytest.mark.slow
def test_five_hundred_inputs(tmp_path: Path, cluster: Any) -> None:
    folder = inputs(tmp_path / "in", 500)
    one, two = tmp_path / "processes", tmp_path / "cluster"
    local = table(folder, "--out", str(one))
    remote = table(folder, "--dask", cluster.scheduler_address, "--out", str(two))
    assert local == remote
    assert [r["layer"] for r in local["inputs"]] == [4 if i % 3 == 2 else 0 for i in range(500)]


def test_stopped_by_the_user_it_says_how_to_go_on(tmp_path: Path) -> None:
    folder, out = inputs(tmp_path / "in", 60), tmp_path / "out"
    # What runs in the background of a script is deaf to Ctrl-C, and so are its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command(folder, "--jobs", "1", "--out", str(out)), stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    wait_for(out, 4, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; the same command goes on from there" in said
    assert "Traceback" not in said
    assert 3 <= lines(out) - 1 < 60
