"""sweep --calib: scales are chosen once, and each input gets the verdict that check gives."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from npudbg.cli import main
from npudbg.commands.options import add_job_options
from npudbg.commands.pipeline import Job, run_job
from npudbg.commands.sweeping import calibration as sweep_calibration
from npudbg.commands.sweeping import job as sweep_job
from npudbg.commands.sweeping import pool as sweep_pool
from npudbg.graph import loader
from npudbg.session.reader import Session

RNG = np.random.default_rng(8)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model, inputs of which the last saturates int8, and samples within [-1, 1]."""
    w = RNG.uniform(-1, 1, (6, 3, 3, 3)).astype("f4")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"),
            helper.make_node("Relu", ["c"], ["y"], name="relu"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, "h", 8])],
        [numpy_helper.from_array(w, "w")],
    )
    model = tmp_path / "m.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    inputs, samples = tmp_path / "in", tmp_path / "samples"
    for folder, count, top in ((inputs, 5, 0.5), (samples, 3, 1.0)):
        folder.mkdir()
        for i in range(count):
            x = RNG.uniform(-top, top, (1, 3, 8, 8)).astype("f4")
            np.save(folder / f"{i}.npy", x * np.float32(40) if (folder, i) == (inputs, 4) else x)
    (inputs / "0-unreadable.npy").write_bytes(b"no array")
    return model, inputs, samples


def options(folders: tuple[Path, Path, Path], *more: str) -> list[str]:
    model, inputs, samples = folders
    fixed = ["--precision", "int8", "--calib", str(samples), "--json", "--jobs", "1"]
    return ["sweep", str(model), str(inputs), *fixed, *more]


def same_as_check(folders: tuple[Path, Path, Path], rows: list[dict[str, Any]]) -> None:
    model, inputs, samples = folders
    assert [r["input"] for r in rows] == ["0-unreadable.npy", *(f"{i}.npy" for i in range(5))]
    for row in rows[1:]:
        one = run_job(
            Job(str(model), [str(inputs / row["input"])], precision="int8", calib=str(samples))
        )
        one.path.unlink()
        assert (row["layer"], row["code"]) == (one.verdict.layer, one.verdict.code)
        assert row["message"] == one.verdict.summary


def test_each_input_gets_what_check_says(
    folders: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    main(options(folders, "--out", str(out)))
    rows = json.loads(capsys.readouterr().out)["inputs"]
    same_as_check(folders, rows)
    assert rows[0]["status"] == "unreadable"


def test_workers_take_the_scales_and_choose_none(
    folders: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from npudbg.device import calibrate

    count, real = [0], calibrate.calibrate

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        return real(*args, **kwargs)

    def here(tasks: Any, work: Any, spec: str, jobs: int) -> Any:
        sweep_job._shared.cache_clear()
        for task in tasks:
            yield task, work(spec, task)

    monkeypatch.setattr(calibrate, "calibrate", counted)
    monkeypatch.setattr(sweep_pool, "run", here)
    main(options(folders))
    rows = json.loads(capsys.readouterr().out)["inputs"]
    assert count[0] == 1
    monkeypatch.undo()
    same_as_check(folders, rows)


def test_a_worker_that_cannot_see_the_file_chooses_the_same(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    model, inputs, samples = folders
    job = Job(str(model), precision="int8", calib=str(samples))
    graph = loader.load(model)
    files = sorted(inputs.iterdir())
    spec, digest = sweep_calibration.shared("{}", job, graph, files, tmp_path)
    found = json.loads(spec)[sweep_calibration.KEY]
    assert found["sha256"] == digest and found["like"] == str(inputs / "0.npy")
    seen = sweep_calibration.of_worker(found, job, graph)
    assert seen.samples == 3
    for raw in (None, b"{}"):
        Path(found["path"]).unlink(missing_ok=True)
        if raw is not None:
            Path(found["path"]).write_bytes(raw)  # another's, or damaged
        assert sweep_calibration.of_worker(found, job, graph) == seen


def test_other_samples_are_another_sweep(
    folders: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")]
    main(options(folders, *out))
    capsys.readouterr()
    main(options(folders, *out))
    assert "6 of 6 inputs were done before" in capsys.readouterr().err
    np.save(folders[2] / "0.npy", np.full((1, 3, 8, 8), 9, "f4"))
    assert main(options(folders, *out)) == 2
    assert "another model or set of options" in capsys.readouterr().err


def test_a_kept_session_says_what_its_scales_are_from(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    model, inputs, samples = folders
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    add_job_options(parser)
    args = parser.parse_args([str(model), "--precision", "int8", "--calib", str(samples)])
    args.inputs = []
    job = Job(str(model), precision="int8", calib=str(samples))
    spec, _ = sweep_calibration.shared(
        sweep_job.spec_of(args), job, loader.load(model), [inputs / "0.npy"], tmp_path
    )
    row = json.loads(sweep_job.run_one(spec, f"{inputs / '0.npy'}\n{tmp_path / 's.npudbg'}"))
    assert row["status"] == "complete"
    with Session.open(tmp_path / "s.npudbg") as session:
        assert any("3 calibration samples, the same for all" in n for n in session.meta.notes)
