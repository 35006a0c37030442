"""Weights damaged in device memory, wherever the model keeps them: T347, and its twins."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.pipeline import Job, judge_run
from npudbg.graph.loader import from_proto
from npudbg.session.errors import UserError
from npudbg.targets import loader as targets

sys.path.insert(0, str(Path(__file__).parents[1]))
from public_models import path_of

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (2, 6)).astype("f4")
W = RNG.uniform(0.5, 1, (6, 4)).astype("f4")
CONSTANT = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W))
MATMUL = helper.make_node("MatMul", ["x", "w"], ["y"])


def transposed():
    """A weight that is folded: the device holds the transpose alone."""
    node = helper.make_node("Transpose", ["stored"], ["w"], perm=[1, 0])
    return [node, MATMUL], {"stored": np.ascontiguousarray(W.T)}


def dequantized():
    """A weight in eight bits, made wide before the run."""
    node = helper.make_node("DequantizeLinear", ["q", "scale"], ["w"])
    return [node, MATMUL], {"q": RNG.integers(-9, 9, (6, 4)).astype("i1"), "scale": np.float32(0.1)}


FORMS = {
    "initializer": ([MATMUL], {"w": W}),
    "constant": ([CONSTANT, MATMUL], {}),
    "folded": transposed(),
    "dequantized": dequantized(),
}


def judged(form, tmp_path, *faults, precision="fp32", **options):
    nodes, weights = form
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    job = Job(
        model="m", faults=faults, precision=precision, save=str(tmp_path / "s.npudbg"), **options
    )
    return judge_run(job, from_proto(model), targets.load("generic"), {"x": X})


def of(result, code):
    return [f for f in result.findings if f.code == code]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_one_nan_in_a_weight(form, precision, tmp_path):
    result = judged(FORMS[form], tmp_path, "nan-weight:tensor=w,index=6", precision=precision)
    (found,) = of(result, "T347")
    assert result.verdict.code == "T347"
    assert found.subject.name == "w"
    assert (found.evidence["wrong"], found.evidence["first"]) == (1, [1, 2])
    # Column 2 of the weight meets column 2 of the result alone.
    assert np.isnan(result.outputs["y"]).tolist() == [[False, False, True, False]] * 2
    assert not of(result, "I290"), "the model's own weights are finite"
    assert not of(result, "O401"), "no node made the NaN"


@pytest.mark.parametrize("form", FORMS)
def test_one_bit_of_a_weight(form, tmp_path):
    result = judged(FORMS[form], tmp_path, "weight-bit-flip:tensor=w,index=3,bit=31")
    (found,) = of(result, "T347")
    assert (found.evidence["bits"], found.evidence["how"]) == (1, "one bit")
    assert float(found.evidence["device"]) == -found.evidence["meant"], "bit 31 is the sign"
    clean = judged(FORMS[form], tmp_path)
    changed = (result.outputs["y"] != clean.outputs["y"]).any(axis=0)
    assert changed.tolist() == [False, False, False, True]


@pytest.mark.parametrize("form", FORMS)
def test_a_scale_of_another_version(form, tmp_path):
    result = judged(FORMS[form], tmp_path, "corrupted-scale:tensor=w,factor=4")
    (found,) = of(result, "T347")
    assert found.evidence["how"] == "scaled by 4"
    clean = judged(FORMS[form], tmp_path)
    np.testing.assert_allclose(result.outputs["y"], 4 * clean.outputs["y"], rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
def test_a_whole_weight_is_left_alone(form, precision, tmp_path):
    result = judged(FORMS[form], tmp_path, precision=precision)
    assert [f.message for f in result.findings if f.severity == "error"] == []


def test_what_is_folded_of_a_damaged_weight_is_not_damaged_itself(tmp_path):
    result = judged(FORMS["dequantized"], tmp_path, "weight-bit-flip:tensor=q,bit=6")
    (found,) = of(result, "T347")
    assert found.subject.name == "q"


def test_a_nan_in_a_constant_that_is_infinite_itself(tmp_path):
    """The model's -Inf (the start of a maximum) does not make the device's NaN its own."""
    lowest = np.full((1,), -np.inf, "f4")
    form = ([helper.make_node("Max", ["x", "w"], ["y"])], {"w": lowest})
    result = judged(form, tmp_path, "nan-weight:tensor=w")
    assert result.verdict.code == "T347"
    assert [f.severity for f in of(result, "I290")] == ["info"]
    assert not of(judged(form, tmp_path), "T347")


def test_a_constant_that_the_user_replaces_is_not_damaged(tmp_path):
    for form in ("constant", "folded"):
        result = judged(FORMS[form], tmp_path, replace={"w": 2 * W})
        assert not of(result, "T347")
        np.testing.assert_allclose(result.outputs["y"], X @ (2 * W), rtol=1e-5)


def test_a_nan_of_the_model_file_is_the_models(tmp_path):
    bad = W.copy()
    bad[1, 2] = np.nan
    node = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(bad))
    turned = helper.make_node("Transpose", ["stored"], ["w"], perm=[1, 0])
    for form in (([node, MATMUL], {}), ([turned, MATMUL], {"stored": bad.T.copy()})):
        result = judged(form, tmp_path)
        assert result.verdict.code == "I290"
        assert "w" in {f.subject.name for f in of(result, "I290")}
        assert not of(result, "T347") and not of(result, "O401")


@pytest.mark.parametrize(
    ("fault", "precision", "said"),
    [
        ("nan-weight:tensor=ww", "fp32", "no tensor 'ww'; did you mean w?"),
        ("nan-weight:tensor=y", "fp32", "'y' is not a weight of the model, the run computes it"),
        ("nan-weight:tensor=w", "int8", "holds 'w' as int8, which has no NaN"),
        ("dropped-dma:tensor=wx", "fp32", "no tensor 'wx'; did you mean x or w?"),
    ],
)
def test_what_cannot_be_injected_is_refused(fault, precision, said, tmp_path):
    with pytest.raises(UserError, match=said.replace("?", r"\?")):
        judged(FORMS["constant"], tmp_path, fault, precision=precision)


def test_a_detector_whose_weights_are_constant_nodes(tmp_path):
    """ppocr's detector has no initializer at all."""
    from npudbg.commands.pipeline import run_job

    path = path_of("ppocr_det")
    if not path.is_file():
        pytest.skip("the model is not there; `make test` fetches it")
    dims = {"x.0": 1, "x.2": 64, "x.3": 64}
    job = Job(str(path), dims=dims, faults=["nan-weight:tensor=conv2d_141.w_0,index=5"])
    result = run_job(job)
    result.path.unlink()
    assert result.verdict.code == "T347"
    found = result.findings[result.verdict.finding]
    assert (found.subject.name, found.evidence["first"]) == ("conv2d_141.w_0", [0, 5, 0, 0])
