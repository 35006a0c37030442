"""Weights that the device's number format cannot hold, and those that it need not hold."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.pipeline import Job, judge_run
from npudbg.graph.loader import from_proto
from npudbg.targets.profile import Compute, Target

F32 = TensorProto.FLOAT
GENERIC = Target(name="generic", title="generic")
CHIP = msgspec.structs.replace(GENERIC, compute=Compute(saturate=True))


def run(nodes, x, weights, tmp_path, target=GENERIC, **options):
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", F32, x.shape)],
        [helper.make_tensor_value_info("y", F32, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    job = Job(model="case", save=str(tmp_path / "s.npudbg"), precision="fp16", **options)
    return judge_run(job, from_proto(model), target, {"x": x})


def errors(judged):
    return [f.code for f in judged.findings if f.severity == "error"]


def test_a_matrix_beyond_fp16_is_named_before_the_inf_that_it_makes(tmp_path):
    weight = np.eye(4, dtype="f4")
    weight[2, 1] = 70_000.0
    judged = run(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        np.ones((1, 4), "f4"),
        {"w": weight},
        tmp_path,
    )
    (found,) = [f for f in judged.findings if f.code == "I246"]
    assert (judged.verdict.layer, judged.verdict.code) == (2, "I246")
    assert found.evidence["beyond"] == 1 and found.evidence["first"] == [2, 1]
    assert found.evidence["largest"] == 70_000.0
    assert np.isinf(judged.outputs["y"][0, 1])


def test_a_chip_that_saturates_holds_the_limit_instead(tmp_path):
    judged = run(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")],
        np.full((1, 2), 0.25, "f4"),
        {"w": np.array([[1e6, 1], [1, 1]], "f4")},
        tmp_path,
        target=CHIP,
    )
    (found,) = [f for f in judged.findings if f.code == "I246"]
    assert "stands at 65504" in found.message
    assert judged.outputs["y"][0, 0] == np.float16(0.25 * 65504 + 0.25)


def test_a_mask_that_is_added_may_be_infinite(tmp_path):
    """Softmax of -Inf is 0, as of -1e9."""
    judged = run(
        [
            helper.make_node("Add", ["x", "mask"], ["masked"]),
            helper.make_node("Softmax", ["masked"], ["y"], axis=-1),
        ],
        np.ones((1, 4), "f4"),
        {"mask": np.array([[0, 0, -1e9, -1e9]], "f4")},
        tmp_path,
    )
    (found,) = [f for f in judged.findings if f.code == "I246"]
    assert found.severity == "info"
    assert errors(judged) == []
    np.testing.assert_array_equal(judged.outputs["y"], [[0.5, 0.5, 0, 0]])


def test_a_factor_before_a_mask_makes_nan_of_zero(tmp_path):
    """(1 - mask) * -1e9 is the well-known way to NaN in fp16: 0 * -Inf."""
    judged = run(
        [helper.make_node("Mul", ["x", "minus"], ["y"])],
        np.array([[0, 1]], "f4"),
        {"minus": np.array([-1e9], "f4")},
        tmp_path,
    )
    assert judged.verdict.code == "I246"
    assert np.isnan(judged.outputs["y"][0, 0])


@pytest.mark.parametrize("largest", [65504.0, 65519.0])
def test_what_rounds_to_the_largest_number_is_not_called_infinite(tmp_path, largest):
    judged = run(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        np.full((1, 1), 0.5, "f4"),
        {"w": np.array([[largest]], "f4")},
        tmp_path,
    )
    assert errors(judged) == []
    assert judged.outputs["y"][0, 0] == 32752


def test_a_variance_beyond_fp16_is_folded_in_fp32(tmp_path):
    """As every compiler does: nothing is wrong, and the device computes what ONNX says."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 3, 4, 4)).astype("f4") * 500
    scale, shift, mean = (np.array(v, "f4") for v in ([1, 2, 0.5], [0, 1, -1], [0, 50, -80]))
    variance = np.array([2.5e5, 3e5, 1e6], "f4")
    judged = run(
        [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
        x,
        {"s": scale, "b": shift, "m": mean, "v": variance},
        tmp_path,
    )
    assert errors(judged) == []
    half = x.astype("f2").astype("f8")
    each = (1, 3, 1, 1)
    wanted = (half - mean.reshape(each)) / np.sqrt(variance.reshape(each) + 1e-5)
    wanted = wanted * scale.reshape(each) + shift.reshape(each)
    np.testing.assert_allclose(judged.outputs["y"], wanted, atol=2e-3)
