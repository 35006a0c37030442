"""Field cases of layer 4 that golden values decide: B12, B31, B32, each with its innocent twin."""

from __future__ import annotations

import numpy as np
import pytest

from npudbg.layers.case import Case
from npudbg.layers.findings import judge
from npudbg.layers.verdict import verdict
from npudbg.session.dtypes import dtype_name
from npudbg.session.reader import Session
from npudbg.session.records import Meta, NodeRecord, Quantization, TensorRecord
from npudbg.session.scan import scan
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

RNG = np.random.default_rng(0)


def recorded(tmp_path, chain, *, precision="fp32", backend="attached", quantization=None):
    """A session of a chain of nodes: ``chain`` maps (operator or "", name) to an array."""
    path = tmp_path / "s.npudbg"
    writer = SessionWriter(path)
    writer.set_meta(Meta(backend=backend, precision=precision))
    last = len(chain) - 1
    for number, ((op, name), array) in enumerate(chain.items()):
        writer.add_tensor(
            TensorRecord(
                id=number,
                name=name,
                role="input" if not op else "output" if number == last else "activation",
                shape=array.shape,
                dtype=dtype_name(array.dtype),
                blob=writer.put_array(array),
                producer=number - 1,
                quantization=quantization if number == last else None,
                stats=scan(array),
                origin="measured",
            )
        )
        if op:
            writer.add_node(
                NodeRecord(
                    index=number - 1, name=f"/{op}_{number}", op_type=op,
                    inputs=(number - 1,), outputs=(number,),
                )
            )  # fmt: skip
    writer.close()
    return Session.open(path)


def judged(session, golden, **fields):
    case = Case(target=Target(name="t", title="t"), session=session, golden=golden, **fields)
    found = [f for f in judge(case, 4) if f.code.startswith("O41")]
    return found, verdict(found, case=case)


# B12: the native output is NC1HWC2 and is read as NCHW.


def packed(y, block):
    n, c, h, w = y.shape
    native = np.zeros((n, -(-c // block), h, w, block), y.dtype)
    for channel in range(c):
        native[:, channel // block, :, :, channel % block] = y[:, channel]
    return native


@pytest.mark.parametrize("whole", [False, True])
def test_b12_native_layout_read_as_nchw(tmp_path, whole):
    y = RNG.integers(-128, 128, (1, 255, 4, 4)).astype("i1")
    x = RNG.standard_normal((1, 8, 4, 4)).astype("f4")
    native = packed(y, 8)
    assert native.shape == (1, 32, 4, 4, 8)
    got = native if whole else native.reshape(-1)[: y.size].reshape(y.shape)
    with recorded(tmp_path, {("", "x"): x, ("Conv", "output0"): got}) as session:
        (found,), top = judged(session, {"x": x, "output0": y})
    assert (found.code, found.name) == ("O412", "layout-mistake")
    assert (found.severity, found.certainty) == ("error", "proven")
    assert found.subject.name == "output0"
    assert "NC1HWC2 [1, 32, 4, 4, 8] (C2=8, 1 pad channel)" in found.message
    layout = found.evidence["layout"]
    assert layout["block"] == 8
    assert layout["after"] == 1
    assert layout["before"] < 0.03
    assert (top.layer, top.code) == (4, "O412")


def test_b12_twin_the_unpacked_output_is_silent(tmp_path):
    y = RNG.integers(-128, 128, (1, 255, 4, 4)).astype("i1")
    with recorded(tmp_path, {("", "x"): y[:, :8], ("Conv", "output0"): y}) as session:
        found, top = judged(session, {"output0": y})
    assert found == []
    assert top.layer == 0


def test_b12_dequantised_output_against_real_golden_values(tmp_path):
    real = RNG.standard_normal((1, 255, 4, 4)).astype("f4") * 20
    levels = np.clip(np.round(real / 0.6) - 3, -128, 127).astype("i1")
    native = packed(levels, 8)
    scale = Quantization(scale=(0.6,), zero_point=(-3,))
    chain = {("", "x"): real, ("Conv", "output0"): native}
    with recorded(tmp_path, chain, quantization=scale, precision="int8") as session:
        (found,), _ = judged(session, {"output0": real})
    assert found.code == "O412"
    assert found.evidence["layout"]["block"] == 8


# B31: one node of the neck in a reduced precision; all finite, max difference 1.46.


def neck(damage):
    x = RNG.standard_normal((1, 16, 20, 20)).astype("f4")
    feats = {
        ("", "x"): x,
        ("Conv", "fpn_feat_1"): RNG.standard_normal((1, 16, 20, 20)).astype("f4"),
        ("ConvTranspose", "fpn_feat_2"): RNG.standard_normal((1, 16, 40, 40)).astype("f4") * 0.3,
        ("Conv", "heat"): RNG.standard_normal((1, 4, 40, 40)).astype("f4"),
    }
    golden = {name: array for (_, name), array in feats.items()}
    got = {key: array.astype("f2").astype("f4") for key, array in feats.items()}
    if damage:
        rng = np.random.default_rng(31)
        key = ("ConvTranspose", "fpn_feat_2")
        noise = rng.standard_normal(got[key].shape).astype("f4")
        noise *= np.float32(1.46) / np.abs(noise).max()  # the report's figure
        got[key] = golden["fpn_feat_2"] + noise
        key = ("Conv", "heat")
        got[key] = golden["heat"] + rng.standard_normal(got[key].shape).astype("f4")
    return got, golden


def test_b31_first_divergent_tensor_and_precision(tmp_path):
    got, golden = neck(damage=True)
    with recorded(tmp_path, got, precision="fp16") as session:
        (found,), top = judged(session, golden)
    assert (found.code, found.name) == ("O413", "precision-divergence")
    assert (found.severity, found.certainty) == ("error", "suspected")
    assert found.subject.name == "fpn_feat_2"
    metrics = found.evidence["metrics"]
    assert metrics["max_abs"] == pytest.approx(1.46, rel=1e-4)
    assert metrics["cosine"] < 0.9
    assert metrics.get("nonfinite_got", 0) == 0
    assert found.evidence["agree_before"] == ["x", "fpn_feat_1"]
    assert "max diff 1.46" in found.message
    assert "ConvTranspose" in found.message
    assert "all finite" in found.message
    assert [s.name for s in found.related] == ["heat"]
    assert (top.layer, top.code) == (4, "O413")


def test_b31_twin_fp16_rounding_alone_is_silent(tmp_path):
    got, golden = neck(damage=False)
    with recorded(tmp_path, got, precision="fp16") as session:
        assert judged(session, golden)[0] == []


def test_b31_in_fp32_precision_is_no_excuse(tmp_path):
    got, golden = neck(damage=True)
    with recorded(tmp_path, got, precision="fp32") as session:
        (found,), _ = judged(session, golden)
    assert (found.code, found.certainty) == ("O411", "proven")


# B32: finite, in range, and the wrong class for every image.


def scores(wrong):
    golden = RNG.standard_normal((50, 1000)).astype("f4")
    got = golden + RNG.standard_normal(golden.shape).astype("f4") * 1e-3
    if wrong:
        got = RNG.standard_normal(golden.shape).astype("f4") + 0.02 * golden
        # No image keeps its class.
        got[np.arange(50), golden.argmax(1)] = -1
    return got.astype("f4"), golden


def test_b32_silent_wrong_classes(tmp_path):
    got, golden = scores(wrong=True)
    x = RNG.standard_normal((50, 3, 8, 8)).astype("f4")
    chain = {("", "x"): x, ("Softmax", "attention"): got[:, :8], ("MatMul", "logits"): got}
    with recorded(tmp_path, chain, precision="fp16") as session:
        (found,), top = judged(session, {"logits": golden})
    assert (found.code, found.name) == ("O411", "divergence")
    assert (found.severity, found.certainty) == ("error", "proven")
    metrics = found.evidence["metrics"]
    assert abs(metrics["cosine"]) < 0.05
    assert metrics["argmax_equal"] == 0
    assert "all finite and in the golden range" in found.message
    assert "argmax 0% equal" in found.message
    assert found.evidence["reasons"] == ["unrelated"]
    assert "layer dump" in found.fix
    assert "attention" in found.fix
    assert top.code == "O411"


def test_b32_twin_right_classes_are_silent(tmp_path):
    got, golden = scores(wrong=False)
    with recorded(tmp_path, {("", "x"): got, ("MatMul", "logits"): got}) as session:
        assert judged(session, {"logits": golden})[0] == []


# One late: each result is right, and belongs to the input before.


def test_output_of_the_run_before(tmp_path):
    before, now = RNG.standard_normal((2, 1, 100)).astype("f4")
    with recorded(tmp_path, {("", "x"): now, ("MatMul", "y"): before}) as session:
        (found,), _ = judged(session, {"y": now}, golden_before={"y": before})
        (unknown,), _ = judged(session, {"y": now})
    assert (found.code, found.name) == ("O414", "one-batch-late")
    assert unknown.code == "O411"


def test_output_one_batch_entry_late(tmp_path):
    golden = RNG.standard_normal((4, 100)).astype("f4")
    late = np.concatenate([np.zeros((1, 100), "f4"), golden[:-1]])
    with recorded(tmp_path, {("", "x"): golden, ("MatMul", "y"): late}) as session:
        (found,), _ = judged(session, {"y": golden})
    assert found.code == "O414"
    assert "1 batch entry late" in found.message


def test_nothing_golden_nothing_said(tmp_path):
    got, _ = scores(wrong=True)
    with recorded(tmp_path, {("", "x"): got, ("MatMul", "logits"): got}) as session:
        assert judged(session, {})[0] == []
        assert judged(session, {"another": got})[0] == []
