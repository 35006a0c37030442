"""What-if: tensors and weights replaced, nodes kept in fp32, on the device's own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.pipeline import Job, judge_run, run_job
from npudbg.device.raising import raised_tensors
from npudbg.graph.loader import from_proto
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.targets.loader import load_toml_text, toml_text

MODEL = str(Path(__file__).parents[2] / "data" / "models" / "f_fp16.onnx")
"""sqrt(mean((3 x)^2)) over the channels: the square overflows fp16 from |x| = 86."""


@pytest.fixture
def frame(tmp_path: Path) -> str:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(1).uniform(-255, 255, (1, 3, 32, 32)).astype("f4"))
    return str(path)


def judged(frame: str, tmp_path: Path, **options: Any) -> Any:
    job = Job(MODEL, [frame], precision="fp16", save=str(tmp_path / "s.npudbg"), **options)
    return run_job(job)


def test_the_first_inf_is_at_the_square(frame: str, tmp_path: Path) -> None:
    result = judged(frame, tmp_path)
    assert result.verdict.code == "O401"
    assert result.findings[result.verdict.finding].subject.name == "sq"


def test_one_node_in_fp32_moves_the_fault_and_two_mend_it(frame: str, tmp_path: Path) -> None:
    one = judged(frame, tmp_path, raised=frozenset({"sq"}))
    assert one.findings[one.verdict.finding].subject.name == "rm"
    two = judged(frame, tmp_path, raised=frozenset({"sq", "mean"}))
    assert two.verdict.layer == 0
    x = np.load(frame)
    want = np.sqrt((9.0 * x.astype("f8") ** 2).mean(1, keepdims=True))
    np.testing.assert_allclose(two.outputs["out"], want, rtol=3e-3)
    with Session.open(two.path) as session:
        kinds = {t.name: t.dtype for t in session.tensors}
    assert (kinds["m"], kinds["sq"], kinds["rm"], kinds["out"]) == ("<f2", "<f4", "<f4", "<f2")


def test_a_tensor_is_replaced_before_it_is_read(frame: str, tmp_path: Path) -> None:
    ones = np.full((1, 3, 32, 32), 2.0, "f4")
    result = judged(frame, tmp_path, replace={"m": ones})
    assert result.verdict.layer == 0
    assert (result.outputs["out"] == 2.0).all()


def test_a_replaced_tensor_holds_in_a_run_with_faults_too(frame: str, tmp_path: Path) -> None:
    ones = np.full((1, 3, 32, 32), 2.0, "f4")
    result = judged(
        frame, tmp_path, replace={"m": ones}, faults=["nan-weight:tensor=k"]
    )  # k is read before m is replaced: its NaN cannot get past m
    assert (result.outputs["out"] == 2.0).all()


def test_a_weight_is_replaced_and_not_taken_for_damaged(frame: str, tmp_path: Path) -> None:
    result = judged(frame, tmp_path, replace={"k": np.array([0.5], "f4")})
    assert "T347" not in {f.code for f in result.findings}
    x = np.load(frame)
    want = np.sqrt((0.25 * x.astype("f8") ** 2).mean(1, keepdims=True))
    np.testing.assert_allclose(result.outputs["out"], want, rtol=5e-3)
    poisoned = judged(frame, tmp_path, replace={"k": np.array([np.nan], "f4")})
    assert poisoned.verdict.code == "I290"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replace": {"mm": np.ones(1, "f4")}}, "no tensor of that name"),
        ({"replace": {"m": np.ones(3, "f4")}}, r"shape is \[3\], the tensor's \[1, 3, 32, 32\]"),
        ({"replace": {"m": np.ones((1, 3, 32, 32), "i4")}}, "holds int32, the tensor float32"),
        ({"raised": frozenset({"sqr"})}, "did you mean sq"),
    ],
)
def test_what_does_not_fit_is_one_line(
    frame: str, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        judged(frame, tmp_path, **options)


def chain() -> Any:
    """x - Reshape - Mul by w - Flatten - Add of w."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"], name="r"),
        helper.make_node("Mul", ["r", "w"], ["m"], name="m"),
        helper.make_node("Flatten", ["m"], ["f"], name="f"),
        helper.make_node("Add", ["f", "w"], ["y"], name="a"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [
            numpy_helper.from_array(np.array([2, 4]), "shape"),
            numpy_helper.from_array(np.full(4, 1e-9, "f4"), "w"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_what_a_raised_node_keeps_wide() -> None:
    graph = from_proto(chain())
    assert raised_tensors(graph, {"m"}) == {"m", "f"}  # a view has the type of what it views
    assert raised_tensors(graph, {"m", "a"}) == {"m", "f", "y", "w"}  # all that read w
    assert raised_tensors(graph, {"r", "m", "f", "a"}) >= {"x", "r", "m", "f", "y", "w"}


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_all_nodes_raised_is_the_fp32_run(precision: str) -> None:
    graph, toml = from_proto(chain()), toml_text("generic")
    target = load_toml_text(toml, "generic")
    arrays = {"x": np.linspace(-3, 3, 8, dtype="f4")}
    labels = frozenset(n.label for n in graph.nodes)
    outputs = []
    for job in (Job("m", precision="fp32"), Job("m", precision=precision, raised=labels)):
        result = judge_run(job, graph, target, arrays)
        result.path.unlink()
        outputs.append(result.outputs["y"])
    np.testing.assert_array_equal(*outputs)


def test_a_view_that_is_replaced(tmp_path: Path) -> None:
    graph, toml = from_proto(chain()), toml_text("generic")
    job = Job("m", precision="fp32", replace={"f": np.full((2, 4), 7, "f4")})
    result = judge_run(job, graph, load_toml_text(toml, "generic"), {"x": np.ones(8, "f4")})
    result.path.unlink()
    np.testing.assert_array_equal(result.outputs["y"], np.full((2, 4), 7, "f4") + np.float32(1e-9))
