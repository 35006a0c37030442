"""The precision advisor: its list is proven, minimal, and read by the vendors' converters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.cli import main
from npudbg.commands.advising import metric as advise_metric
from npudbg.commands.pipeline import Job, run_job
from npudbg.session.errors import UserError

MODEL = str(Path(__file__).parents[2] / "data" / "models" / "f_fp16.onnx")


@pytest.fixture
def frame(tmp_path: Path) -> str:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(1).uniform(-255, 255, (1, 3, 32, 32)).astype("f4"))
    return str(path)


def advice(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object]]:
    code = main(["advise", *argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_list_makes_the_overflowing_model_finite(
    frame: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = advice(capsys, MODEL, frame, "--precision", "fp16", "--metric", "finite")
    assert code == 1
    assert found["nodes"] == ["sq", "mean"]
    assert found["before"] == {"finite": 0.0}
    assert found["after"] == {"finite": 1.0}
    assert found["smallest"] and int(str(found["runs"])) <= 8
    assert "starts at sq (Mul)" in str(found["first"])
    # Proven from outside: the run with the list has no fault, with any one less it has.
    for left_out, layer in ((None, 0), ("sq", 4), ("mean", 4)):
        raised = frozenset({"sq", "mean"} - {left_out})
        result = run_job(Job(MODEL, [frame], precision="fp16", raised=raised))
        result.path.unlink()
        assert result.verdict.layer == layer


def test_the_list_as_cast_options(frame: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", MODEL, frame, "--precision", "fp16", "--metric", "finite"]) == 1
    names = capsys.readouterr().out.split()
    casts = [word for name in names for word in ("--cast", f"{name}=fp32")]
    assert main(["check", MODEL, frame, "--precision", "fp16", *casts]) == 0


def test_good_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 32, 32), 0.5, "f4"))
    code, found = advice(capsys, MODEL, str(tmp_path / "x.npy"), "--precision", "fp16")
    assert (code, found["nodes"], found["runs"]) == (0, [], 2)


def test_vendors_read_the_list(frame: str, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(form: str) -> str:
        main(
            ["advise", MODEL, frame, "--precision", "fp16", "--metric", "finite", "--format", form]
        )
        return capsys.readouterr().out

    assert listed("atc") == "sq\nmean\n"
    assert listed("rknn") == 'custom_quantize_layers:\n    "sq": float16\n    "rm": float16\n'
    from onnxruntime.transformers.float16 import convert_float_to_float16

    arguments = json.loads(listed("onnx-op-block-list"))
    converted = convert_float_to_float16(onnx.load(MODEL), keep_io_types=True, **arguments)
    kinds = {
        v.name: v.type.tensor_type.elem_type
        for v in onnx.shape_inference.infer_shapes(converted).graph.value_info
    }
    by_name = {n.name: n for n in converted.graph.node}
    assert kinds[by_name["sq"].output[0]] == TensorProto.FLOAT
    assert kinds[by_name["mean"].output[0]] == TensorProto.FLOAT
    assert kinds[by_name["big"].output[0]] == TensorProto.FLOAT16


def deep(tmp_path: Path) -> tuple[str, str]:
    """40 multiplications of which three in a row give values of 2^20."""
    nodes, weights, name = [], [], "x"
    for i in range(40):
        factor = {20: 2.0**20, 23: 2.0**-20}.get(i, -1.0)
        weights.append(numpy_helper.from_array(np.array([factor], "f4"), f"w{i}"))
        nodes.append(helper.make_node("Mul", [name, f"w{i}"], [f"t{i}"], name=f"/n{i}"))
        name = f"t{i}"
    graph = helper.make_graph(
        nodes,
        "deep",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "deep.onnx")
    np.save(tmp_path / "d.npy", np.linspace(1, 2, 64, dtype="f4")[None])
    return str(tmp_path / "deep.onnx"), str(tmp_path / "d.npy")


def test_three_of_forty_nodes_with_few_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, frame = deep(tmp_path)
    code, found = advice(capsys, model, frame, "--precision", "fp16")
    assert code == 1
    # n20 to n22 give values of 2^20 and so does the constant of n20, wide with it; 2^-20,
    # which n23 reads, is a subnormal of fp16, and exact.
    assert found["nodes"] == ["/n20", "/n21", "/n22"]
    assert int(str(found["runs"])) <= 12


def test_too_few_runs_still_give_a_good_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, frame = deep(tmp_path)
    code, found = advice(
        capsys, model, frame, "--precision", "int8", "--metric", "snr>=70",
        "--max-runs", "5",
    )  # fmt: skip
    assert code == 1 and not found["smallest"] and int(str(found["runs"])) == 5
    raised = frozenset(found["nodes"])  # type: ignore[call-overload]
    outputs = []
    for job in (
        Job(model, [frame], precision="fp32"),
        Job(model, [frame], precision="int8", raised=raised),
    ):
        result = run_job(job)
        result.path.unlink()
        outputs.append(result.outputs["t39"].astype("f8").reshape(-1))
    a, b = outputs
    assert 10 * np.log10((a @ a) / max(((a - b) ** 2).sum(), 1e-300)) >= 70


class TestMetric:
    def test_values(self) -> None:
        a, b = np.array([3.0, 4.0]), np.array([4.0, 3.0])
        assert advise_metric.measure(
            advise_metric.Metric("cosine"), {"y": a}, {"y": b}
        ) == pytest.approx(24 / 25)
        assert advise_metric.measure(advise_metric.Metric("max-abs"), {"y": a}, {"y": b}) == 1
        # Signal 25, noise 2: 10 log10(12.5) dB.
        assert advise_metric.measure(
            advise_metric.Metric("snr"), {"y": a}, {"y": b}
        ) == pytest.approx(10.9691, abs=1e-4)

    def test_the_worst_output_counts_and_zeros_are_no_match(self) -> None:
        ones = np.ones(4)
        cosine = advise_metric.Metric("cosine")
        got = {"a": ones, "b": np.zeros(4)}
        assert advise_metric.measure(cosine, got, {"a": ones, "b": ones}) == 0
        assert advise_metric.measure(cosine, {"a": np.zeros(4)}, {"a": np.zeros(4)}) == 1

    def test_inf_where_fp32_has_it_too_is_no_fault(self) -> None:
        mask = np.array([0.0, -np.inf])
        finite = advise_metric.Metric("finite", 1.0)
        assert advise_metric.measure(finite, {"m": mask}, {"m": mask}) == 1
        assert advise_metric.measure(finite, {"m": mask[::-1]}, {"m": mask}) == 0

    @pytest.mark.parametrize("text", ["cosine", "cosine<=0.9", "max-abs>=1", "psnr>=3", "snr>=x"])
    def test_mistakes_are_one_line(self, text: str) -> None:
        with pytest.raises(UserError, match=r"--metric .* expected finite, cosine>="):
            advise_metric.parse([text])


def test_fp32_has_nothing_to_raise(frame: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", MODEL, frame]) == 2
    assert "give fp16, bf16 or int8" in capsys.readouterr().err


def test_a_wrong_scale_that_cosine_does_not_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4096 ones sum up to 2048 in an fp16 accumulator; the cosine of one number is 1."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["s"], name="sum"),
            helper.make_node("Mul", ["s", "k"], ["y"], name="mul"),
        ],
        "sums",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4096])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(np.array([1]), "axes"),
         numpy_helper.from_array(np.array([0.5], "f4"), "k")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((1, 4096), "f4"))
    given = (str(tmp_path / "m.onnx"), str(tmp_path / "x.npy"), "--precision", "fp16")
    code, found = advice(capsys, *given, "--accumulate", "fp16")
    assert (code, found["nodes"]) == (1, ["sum"])
    assert found["before"]["cosine>=0.999"] == 1  # type: ignore[index]
    assert found["before"]["snr>=20"] < 7  # type: ignore[index]
    assert advice(capsys, *given, "--accumulate", "fp32")[0] == 0
