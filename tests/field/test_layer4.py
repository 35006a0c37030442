"""Field cases of layer 4 that concern fp16, saturation, quantisation and byte order.

Each is built from the public report's own reproduction, with its innocent twin.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.pipeline import Job, judge_run
from npudbg.graph.loader import from_proto
from npudbg.targets.profile import Compute, Target

GENERIC = Target(name="generic", title="generic")


def run(nodes, arrays, outputs, tmp_path, weights=None, **options):
    graph = helper.make_graph(
        nodes,
        "case",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(a.dtype.newbyteorder("=")), a.shape
            )
            for n, a in arrays.items()
        ],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    job = Job(model="case", save=str(tmp_path / "s.npudbg"), **options)
    return judge_run(job, from_proto(model), GENERIC, arrays)


def found(judged, code):
    return [f for f in judged.findings if f.code == code]


# B26: fp16 ReduceMean through a sum; the fp32 value is fine, the sum leaves fp16.


@pytest.mark.parametrize(("count", "overflows"), [(70_000, True), (60_000, False)])
def test_b26_fp16_reduction_overflows(count, overflows, tmp_path):
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["s"], name="ReduceSum_1", keepdims=1)]
    judged = run(
        nodes,
        {"x": np.ones((1, count), "f4")},
        {"s": TensorProto.FLOAT},
        tmp_path,
        {"axes": np.array([1], "i8")},
        precision="fp16",
    )
    origins = found(judged, "O401")
    assert bool(origins) == overflows
    if overflows:
        (origin,) = origins
        assert origin.layer == judged.verdict.layer == 4
        assert origin.subject.name == "s"
        assert origin.evidence["pos_inf"] == 1
        assert origin.evidence["elements"] == 1
        assert origin.evidence["fp32_value"] == pytest.approx(70_000)
        assert "65504" in origin.message
    else:
        assert judged.verdict.layer == 0


# B27: a residual Add passes 65504, one layer later Inf - Inf is NaN.


@pytest.mark.parametrize(("second", "overflows"), [(20_000.0, True), (10_000.0, False)])
def test_b27_fp16_add_overflows_and_becomes_nan(second, overflows, tmp_path):
    nodes = [
        helper.make_node("Add", ["a", "b"], ["s"], name="Add_2"),
        helper.make_node("Sub", ["s", "s"], ["y"], name="Sub_3"),
    ]
    arrays = {"a": np.full((1, 4), 50_000, "f2"), "b": np.full((1, 4), second, "f2")}
    judged = run(nodes, arrays, {"y": TensorProto.FLOAT16}, tmp_path)
    if not overflows:
        assert [f for f in judged.findings if f.severity == "error"] == []
        return
    (origin,) = found(judged, "O401")
    assert origin.subject.name == "s"
    assert "Add_2" in origin.message
    assert origin.evidence["pos_inf"] == 4
    assert origin.evidence["fp32_value"] == pytest.approx(
        70_000, rel=1e-3
    )  # 50,000 in fp16 is 49,984
    assert origin.evidence["headroom"] == pytest.approx(50_000 / 65_504, abs=1e-3)
    (symptom,) = found(judged, "O402")
    assert symptom.subject.name == "y"
    assert symptom.evidence["nan"] == 4
    assert judged.verdict.code == "O401"
    assert any("y" in link for link in judged.verdict.chain)


# B33, B35: one int8 scale over boxes (0..640) and scores (0..1).


def detections(scale, tmp_path, *, scores=None):
    rng = np.random.default_rng(1)
    boxes = rng.uniform(0, 640, (1, 4, 64)).astype("f4")
    scores = rng.uniform(0, 0.9, (1, 3, 64)).astype("f4") if scores is None else scores
    nodes = [
        helper.make_node("Concat", ["boxes", "scores"], ["joined"], axis=1, name="Concat_1"),
        helper.make_node("QuantizeLinear", ["joined", "scale", "zero"], ["q"], name="Q"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], name="DQ"),
    ]
    weights = {"scale": np.array(scale, "f4"), "zero": np.array(-128, "i1")}
    return run(
        nodes, {"boxes": boxes, "scores": scores}, {"y": TensorProto.FLOAT}, tmp_path, weights
    )


def test_b33_scores_collapse_under_the_scale_of_the_boxes(tmp_path):
    judged = detections(640 / 255, tmp_path)
    (collapse,) = found(judged, "O405")
    assert collapse.severity == "error"
    assert collapse.subject.name == "y"
    assert collapse.evidence["channels"] == [4, 5, 6]
    assert collapse.evidence["scale"] == pytest.approx(640 / 255)
    assert collapse.evidence["levels"] == 1
    assert judged.verdict.layer == 4


def test_b35_scores_that_use_two_levels(tmp_path):
    judged = detections(1.134, tmp_path)
    (collapse,) = found(judged, "O405")
    assert collapse.evidence["levels"] == 2
    assert "of 256 levels" in collapse.message


def test_b33_twin_scores_of_the_boxes_range_stay_silent(tmp_path):
    scores = np.random.default_rng(2).uniform(0, 640, (1, 3, 64)).astype("f4")
    judged = detections(640 / 255, tmp_path, scores=scores)
    assert found(judged, "O405") == []


# B18 reaches the output as garbage: the chain names the host.


def test_b18_big_endian_input_is_layer_1_whatever_the_output(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    big = np.arange(8, dtype=">f4").reshape(1, 2, 2, 2)
    judged = run(nodes, {"x": big}, {"y": TensorProto.FLOAT}, tmp_path)
    assert judged.verdict.layer == 1
    assert found(judged, "T301"), "the device reads the bytes as they are"
    native = run(nodes, {"x": big.astype("<f4")}, {"y": TensorProto.FLOAT}, tmp_path)
    assert native.verdict.layer == 0


def test_saturated_fp16_values_are_counted(tmp_path):
    target = Target(name="sat", title="saturating", compute=Compute(saturate=True))
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"], name="Mul_1")]
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(1000, "f4"), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = np.linspace(1, 100, 16, dtype="f4").reshape(1, 16)
    job = Job(model="case", precision="fp16", save=str(tmp_path / "s.npudbg"))
    judged = judge_run(job, from_proto(model), target, {"x": x})
    (saturated,) = found(judged, "O403")
    assert saturated.evidence["at_max"] == int((x * 1000 > 65_504).sum())
    assert found(judged, "O401") == []
