"""reduce: few nodes, the same finding, a bundle that replays, and nothing lost to a kill."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.cli import main
from npudbg.commands.reducing.state import key
from npudbg.session.reader import Session

MODEL = str(Path(__file__).parents[2] / "data" / "models" / "f_fp16.onnx")


def detector(path: Path, *, blocks: int = 8, poisoned: int = 5, size: int = 24) -> Path:
    """Write a small detector: blocks of Conv, BatchNormalization and HardSwish, two heads."""
    rng = np.random.default_rng(7)
    nodes: list[Any] = []
    weights: dict[str, Any] = {}

    def conv(name: str, x: str, out: int, inner: int, kernel: int, **more: Any) -> str:
        w = (rng.standard_normal((out, inner, kernel, kernel)) / (inner * kernel**2) ** 0.5) * 1.4
        weights[f"{name}.w"] = w.astype("f4")
        nodes.append(helper.make_node("Conv", [x, f"{name}.w"], [name], name=f"/{name}", **more))
        return name

    x, channels = "image", 3
    for i in range(blocks):
        stride = 2 if i in (0, 3) else 1
        y = conv(f"b{i}/conv", x, 8, channels, 3, pads=[1, 1, 1, 1], strides=[stride, stride])
        for part, value in (("s", 1), ("b", 0), ("m", 0), ("v", 1)):
            weights[f"b{i}.{part}"] = np.full(8, value, "f4")
        norm = [f"b{i}.{p}" for p in "sbmv"]
        nodes.append(
            helper.make_node("BatchNormalization", [y, *norm], [f"b{i}/bn"], name=f"/b{i}/bn")
        )
        nodes.append(helper.make_node("HardSwish", [f"b{i}/bn"], [f"b{i}/act"], name=f"/b{i}/act"))
        new = f"b{i}/act"
        if channels == 8 and stride == 1:
            nodes.append(helper.make_node("Add", [new, x], [f"b{i}/add"], name=f"/b{i}/add"))
            new = f"b{i}/add"
        x, channels = new, 8
    weights[f"b{poisoned}/conv.w"][2, 1, 0, 0] = np.nan
    boxes = conv("boxes", x, 4, 8, 1)
    logits = conv("logits", x, 2, 8, 1)
    nodes.append(helper.make_node("Sigmoid", [logits], ["scores"], name="/scores"))
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (boxes, "scores")],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def replay(folder: Path) -> tuple[int, dict[str, Any]]:
    """Run the one command that README.txt gives, in the folder."""
    lines = (folder / "README.txt").read_text().splitlines()
    words = shlex.split(next(line for line in lines if line.startswith("    npudbg ")))
    done = subprocess.run(
        [sys.executable, "-m", *words, "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("poisoned", [0, 5])
def test_a_nan_weight_in_a_detector(tmp_path: Path, poisoned: int) -> None:
    model, out = detector(tmp_path / "d.onnx", poisoned=poisoned), tmp_path / "out"
    assert main(["reduce", str(model), "--seed", "3", "--out", str(out)]) == 1
    small = onnx.load(out / "minimal.onnx")
    onnx.checker.check_model(small)
    assert len(small.graph.node) <= 5
    assert f"/b{poisoned}/conv" in {n.name for n in small.graph.node}
    (weight,) = [numpy_helper.to_array(t) for t in small.graph.initializer]
    # NaN was put to [2, 1, 0, 0]: one filter and one channel of it are enough.
    assert weight.shape == (1, 1, 3, 3) and np.argwhere(np.isnan(weight)).tolist() == [[0] * 4]
    assert [d.dim_value for d in small.graph.input[0].type.tensor_type.shape.dim] == [1] * 4
    code, report = replay(out)
    assert code == 1
    assert report["verdict"]["code"] == "I290"
    with Session.open(out / "session.npudbg") as session:
        assert session.verdict is not None and session.verdict.code == "I290"
    names = {p.name for p in out.iterdir()}
    assert names == {
        ".lock", "README.txt", "inputs.npz", "minimal.onnx", "reduce.json", "session.npudbg",
    }  # fmt: skip
    assert not any(p.stat().st_mode & 0o111 for p in out.iterdir())


def test_a_symptom_keeps_the_way_from_its_cause(tmp_path: Path) -> None:
    """No cut may feed NaN in: what is left leads from the weight to the output."""
    model, out = detector(tmp_path / "d.onnx", poisoned=6), tmp_path / "out"
    argv = ["reduce", str(model), "--finding", "O402", "--out", str(out)]
    assert main(argv) == 1
    names = [n.name for n in onnx.load(out / "minimal.onnx").graph.node]
    assert names[0] == "/b6/conv" and names[-1] in ("/boxes", "/scores")
    with np.load(out / "inputs.npz") as inputs:
        assert all(np.isfinite(inputs[n]).all() for n in inputs.files)
    code, report = replay(out)
    assert code == 1 and "O402" in {f["code"] for f in report["findings"]}


def test_options_go_with_the_bundle(tmp_path: Path) -> None:
    x, out = tmp_path / "x.npy", tmp_path / "out"
    np.save(x, np.random.default_rng(1).uniform(-255, 255, (1, 3, 32, 32)).astype("f4"))
    argv = [
        "reduce", MODEL, str(x), "--precision", "fp16", "--cast", "sq=fp32", "--target",
        "rk3588", "--out", str(out),
    ]  # fmt: skip
    assert main(argv) == 1
    small = onnx.load(out / "minimal.onnx")
    assert "mean" in [n.name for n in small.graph.node]
    code, report = replay(out)
    assert (code, report["verdict"]["code"]) == (1, "O401")


def test_a_fault_of_the_hardware_stays_in_the_part(tmp_path: Path) -> None:
    model, out = detector(tmp_path / "d.onnx", poisoned=7), tmp_path / "out"
    fault = "nan-weight:tensor=b2/conv.w"
    assert main(["reduce", str(model), "--fault", fault, "--out", str(out), "--finding", "T347"])
    assert [n.name for n in onnx.load(out / "minimal.onnx").graph.node] == ["/b2/conv"]
    code, report = replay(out)
    assert (code, report["verdict"]["code"]) == (1, "T347")


def test_nothing_at_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 32, 32), 0.5, "f4"))
    argv = ["reduce", MODEL, str(tmp_path / "x.npy"), "--out", str(tmp_path / "o")]
    assert main(argv) == 0
    assert "nothing to reduce" in capsys.readouterr().out
    assert main([*argv, "--finding", "O401"]) == 2


def test_another_job_does_not_go_on_in_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = detector(tmp_path / "d.onnx", blocks=2, poisoned=1), tmp_path / "out"
    argv = ["reduce", str(model), "--out", str(out)]
    assert main(argv) == 1
    assert main([*argv, "--seed", "9"]) == 2
    assert "another model, input or set of options" in capsys.readouterr().err
    (out / "reduce.json").write_text('{"format": "npudbg-reduce/1", "job": [')
    assert main(argv) == 2
    assert "damaged" in capsys.readouterr().err


def tried(out: Path) -> dict[str, bool]:
    try:
        return dict(json.loads((out / "reduce.json").read_bytes())["tried"])
    except FileNotFoundError:
        return {}


def test_sigkill_loses_at_most_one_step(tmp_path: Path) -> None:
    model = detector(tmp_path / "d.onnx", blocks=7, poisoned=4, size=32)
    argv = [sys.executable, "-m", "npudbg", "reduce", str(model), "--finding", "O402", "--out"]
    whole = tmp_path / "whole"
    subprocess.run([*argv, str(whole)], check=False, capture_output=True, timeout=300)
    want = tried(whole)
    assert len(want) > 12
    out, kills = tmp_path / "out", 0
    nodes = sum(set(k) <= set("0123456789abcdef") and len(k) < 16 for k in want)
    for goal in (1, nodes // 2, nodes + 4):  # in either phase
        process = subprocess.Popen([*argv, str(out)], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        before, told = len(tried(out)), 0
        for line in process.stderr:  # a step is told when its state is on disk
            if "step " in line:
                told += 1
                assert f"step {before + told}:" in line  # goes on: repeats none
            if before + told >= goal:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                break
        process.wait()
        process.stderr.close()
        assert process.returncode == -signal.SIGKILL
        state = json.loads((out / "reduce.json").read_bytes())
        assert len(state["tried"]) >= before + told  # all that was told is kept
        # The best model so far is there, and is a whole one.
        if state["best"] is not None:
            part = onnx.load(out / "minimal.onnx")
            onnx.checker.check_model(part)
            assert len(part.graph.node) <= len(state["best"])
        time.sleep(0.05)
    assert kills == 3
    subprocess.run([*argv, str(out)], check=False, capture_output=True, timeout=300)
    assert tried(out) == want
    assert (out / "minimal.onnx").read_bytes() == (whole / "minimal.onnx").read_bytes()


def test_the_key_of_a_set_ignores_order() -> None:
    assert key([0, 2, 5]) == key([5, 0, 2]) == "25"


@pytest.mark.models
def test_a_public_detector_with_a_nan_weight(tmp_path: Path, model_path: Any) -> None:
    model = onnx.load(model_path("ppocr_det"))
    constants = {n.output[0]: n for n in model.graph.node if n.op_type == "Constant"}
    conv = [n for n in model.graph.node if n.op_type == "Conv"][30]
    tensor = constants[conv.input[1]].attribute[0].t
    weight = numpy_helper.to_array(tensor).copy()
    weight.flat[3] = np.nan
    tensor.CopyFrom(numpy_helper.from_array(weight))
    onnx.save(model, tmp_path / "det.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((1, 3, 64, 64), "f4"))
    out = tmp_path / "out"
    argv = ["reduce", str(tmp_path / "det.onnx"), str(tmp_path / "x.npy"), "--out", str(out)]
    assert main(argv) == 1
    names = [n.name for n in onnx.load(out / "minimal.onnx").graph.node]
    assert len(names) <= 5 and conv.name in names
    assert (out / "minimal.onnx").stat().st_size + (out / "inputs.npz").stat().st_size < 4096
    code, report = replay(out)
    assert (code, report["verdict"]["code"]) == (1, "I290")
