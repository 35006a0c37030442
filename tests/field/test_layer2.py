"""Layer 2 on the field's own cases, each beside its innocent twin."""

from __future__ import annotations

import numpy as np
import pytest
from cases import (
    F,
    case,
    codes,
    contract_model,
    conv_model,
    host,
    layer,
    model,
    normal,
    only,
    target,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from npudbg.layers.case import Preprocessing
from npudbg.layers.casting import cast_of
from npudbg.layers.einsum import as_matmul
from npudbg.layers.expected import fits, missing_axes
from npudbg.layers.findings import judge

I64, U8 = TensorProto.INT64, TensorProto.UINT8
RNG = np.random.default_rng(0)


# -- names, count, rank, shape ---------------------------------------------------------------


def test_names_and_count():
    known = contract_model(image=("<f4", (1, 4)), state=("<f4", (1, 2)))
    found = layer(2, host(normal(1, 4), "imgae"), model=known, unread=frozenset())
    assert codes(found) == ["I201", "I202", "I202"]
    assert "did you mean image?" in found[0].message
    assert found[1].subject.name == "image" and "1 of 2" in found[1].message
    both = [host(normal(1, 4), "image"), host(normal(1, 2), "state", number=1)]
    assert layer(2, *both, model=known, unread=frozenset()) == []
    # Fed, but not as a host tensor; or not known whether.
    assert layer(2, both[0], model=known, unread=frozenset({"state"})) == []
    assert layer(2, both[0], model=known) == []


def test_b19_missing_time_axis():
    video = contract_model(x=("<f4", (1, 4, 3, 8, 8)))
    found = only(layer(2, normal(1, 3, 8, 8), model=video), "I210")
    assert "rank 4 given (1,3,8,8), rank 5 expected (1,4,3,8,8)" in found.message
    assert "missing axis 1 (size 4)" in found.message
    assert found.evidence["missing_axes"] == [1] and "np.stack" in found.fix
    assert layer(2, normal(1, 4, 3, 8, 8), model=video) == []


def test_image_without_batch_axis_and_in_hwc():
    image = contract_model(x=("<f4", ("N", 3, 8, 9)))
    found = only(layer(2, normal(3, 8, 9), model=image), "I210")
    assert found.evidence["missing_axes"] == [0] and "expand_dims(x, 0)" in found.fix
    hwc = only(layer(2, normal(8, 9, 3), model=image), "I210")
    assert hwc.evidence["transpose"] == [2, 0, 1]
    assert "x.transpose(2, 0, 1), 0)" in hwc.fix
    surplus = only(layer(2, normal(1, 1, 3, 8, 9), model=image), "I210")
    assert surplus.evidence["surplus_axes"] == [0] and "squeeze" in surplus.fix


def test_shape_and_the_transpose_that_fits():
    image = contract_model(x=("<f4", (1, 3, 8, 9)))
    found = only(layer(2, normal(1, 8, 9, 3), model=image), "I211")
    assert found.evidence["transposes"][0] == [0, 3, 1, 2]
    assert "axis 1 is 8 instead of 3" in found.message
    assert "transpose(0,3,1,2) fits" in found.message
    other = only(layer(2, normal(1, 3, 8, 8), model=image), "I211")
    assert other.evidence["axes"] == [3] and "transpose" not in other.message
    joined = only(layer(2, normal(1, 3, 9, 8)[:, :, :, :].reshape(1, 6, 4, 9), model=image), "I211")
    assert "number of elements is the same" in joined.message
    # A symbol takes any size until --dim binds it.
    dynamic = contract_model(x=("<f4", (1, 3, "H", "W")))
    assert layer(2, normal(1, 3, 5, 7), model=dynamic) == []
    bound = only(layer(2, normal(1, 3, 5, 7), model=dynamic, dims={"H": 6, "x.3": 7}), "I211")
    assert bound.evidence["axes"] == [2]


def test_zero_size_and_unknown_rank():
    assert layer(2, np.zeros((0, 4), "f4"), model=contract_model(x=("<f4", ("N", 4)))) == []
    assert layer(2, normal(3, 4), model=contract_model(x=("<f4", None))) == []


def test_one_symbol_with_two_sizes():
    two = contract_model(a=("<f4", ("N", 4)), b=("<f4", ("N", 2)))
    a = host(normal(3, 4), "a")
    found = only(layer(2, a, host(normal(5, 2), "b", number=1), model=two), "I212")
    assert found.evidence["sizes"] == [3, 5] and found.subject.name == "b"
    assert layer(2, a, host(normal(3, 2), "b", number=1), model=two) == []


def test_b21_symbolic_dims_on_a_static_target():
    relu = model(
        [helper.make_node("Relu", ["x"], ["y"], name="/relu")], {"x": (F, ["N", 3, "H", "W"])}
    )
    htp = target(tensor={"static_shapes": True})
    found = only(layer(2, normal(1, 3, 6, 7), graph=relu, on=htp), "I213")
    assert found.severity == "error" and found.subject.name == "x"
    assert "dims N, H, W symbolic" in found.message and "N=1 H=6 W=7" in found.message
    assert found.evidence["suggested"] == {"N": 1, "H": 6, "W": 7}
    assert found.fix == "bind them: --dim N=1 --dim H=6 --dim W=7"
    assert layer(2, normal(1, 3, 6, 7), graph=relu) == []  # no demand
    dims = {"N": 1, "H": 6, "W": 7}
    assert layer(2, normal(1, 3, 6, 7), graph=relu, on=htp, dims=dims) == []
    fixed = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, [1, 3, 6, 7])})
    assert layer(2, normal(1, 3, 6, 7), graph=fixed, on=htp) == []


@pytest.mark.parametrize("size", [None, 9223372036854775807])
def test_b22_no_upper_bound(size):
    gather = model(
        [helper.make_node("Gather", ["w", "i"], ["y"], name="/embed")],
        {"i": (I64, [size])},
        {"w": normal(10, 4)},
    )
    npu = target(tensor={"static_shapes": True})
    found = only(layer(2, host(np.array([1, 2, 3]), "i"), graph=gather, on=npu), "I213")
    assert "/embed (Gather, input 1)" in found.message
    assert found.related[0].kind == "node" and found.related[0].name == "/embed"
    assert found.evidence["suggested"] == {"i.0": 3}
    assert ("no upper bound" in found.message) == (size is not None)
    bound = layer(2, host(np.array([1, 2, 3]), "i"), graph=gather, on=npu, dims={"i.0": 3})
    assert bound == []


# -- element types ---------------------------------------------------------------------------


def test_b15_float64_into_float32():
    x = RNG.random((1, 13))
    known = contract_model(x=("<f4", (1, 13)))
    found = only(layer(2, x, model=known), "I220")
    assert "float64 given, float32 expected (104 vs 52 bytes)" in found.message
    assert (found.evidence["given_bytes"], found.evidence["expected_bytes"]) == (104, 52)
    assert found.evidence["cast"] == "rounds" and "a cast is safe" in found.message
    assert found.evidence["largest_change"] == np.abs(x - x.astype("f4")).max()
    assert found.fix == "x = x.astype(np.float32)"
    assert layer(2, x.astype("f4"), model=known) == []
    # Byte order is layer 1's affair, not a type of its own.
    assert layer(2, x.astype(">f4"), model=known) == []


def test_b17_cast_without_quantisation():
    x = np.array([0.1, 0.4, 0.7, 0.95], "f4")
    known = contract_model(x=("|u1", (4,)))
    found = only(layer(2, x.astype("u1"), model=known), "I221")
    assert found.severity == "warning" and found.certainty == "suspected"
    assert "uint8 tensor has 1 distinct value (0)" in found.message
    quantised = np.round(x / (1 / 255)).astype("u1")
    assert layer(2, quantised, model=known) == []
    before = only(layer(2, x, model=known), "I220")  # caught before the cast, too
    assert before.evidence["cast"] == "destroys" and before.evidence["distinct_after"] == 1
    assert "quantise" in before.fix
    mask = np.array([0, 1, 1, 0], "u1")
    assert only(layer(2, mask, model=known), "I221").severity == "info"
    synthesised = case(host(x.astype("u1")), model=known, synthesised=frozenset({"x"}))
    assert judge(synthesised, 2) == []


def test_b17_the_models_own_scale_is_named():
    graph = model(
        [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])],
        {"x": (U8, [4])},
        {"s": np.float32(0.02), "z": np.uint8(128)},
    )
    found = only(layer(2, np.zeros(4, "u1"), graph=graph), "I221")
    assert "x / 0.02) + 128, 0, 255" in found.fix


@pytest.mark.parametrize(
    ("values", "to", "effect"),
    [
        (np.arange(5.0), "<i4", "exact"),
        (np.arange(5.0), "|u1", "exact"),
        (np.array([1.0, np.nan]), "<f4", "exact"),
        (np.linspace(0, 1, 100), "|u1", "destroys"),
        (np.array([0.0, 300.0]), "|u1", "destroys"),
        (np.array([1e6, 1.0]), "<f2", "destroys"),
        (np.array([2**40, 1]), "<i4", "destroys"),
        (np.array([1.0, np.nan]), "<i4", "destroys"),
        (np.linspace(0, 200, 100), "|u1", "rounds"),
        (np.linspace(0, 1, 100), "<f2", "rounds"),
        (np.linspace(0, 1, 100), "bfloat16", "rounds"),
    ],
)
def test_what_a_cast_does(values, to, effect):
    assert cast_of(values, to).effect == effect


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=40))
def test_exact_means_exact(values):
    array = np.array(values)
    cast = cast_of(array, "<f4")
    assert (cast.effect == "exact") == bool((array.astype("f4").astype("f8") == array).all())


def test_wide_types_without_a_unit():
    npu = target(compute={"dtypes": ("fp16", "int8")})
    known = contract_model(ids=("<i8", (1, 8)), length=("<i8", ()))
    inputs = [host(np.arange(8).reshape(1, 8), "ids"), host(np.array(8), "length", number=1)]
    found = only(layer(2, *inputs, model=known, on=npu), "I264")
    assert found.subject.name == "ids" and found.severity == "warning"
    assert layer(2, *inputs, model=known) == []
    allowed = target(compute={"dtypes": ("fp16", "int64")})
    assert layer(2, *inputs, model=known, on=allowed) == []


def test_values_beyond_fp16():
    x = np.array([[1.0, 70000.0, -65504.0]], "f4")
    known = contract_model(x=("<f4", (1, 3)))
    found = only(layer(2, x, model=known, precision="fp16"), "I245")
    assert found.evidence["beyond"] == 1 and found.evidence["max_abs"] == 70000
    assert layer(2, x, model=known) == []
    assert layer(2, x / 2, model=known, precision="fp16") == []


# -- layout ----------------------------------------------------------------------------------


def test_b10_nhwc_shape_read_as_nchw():
    graph = conv_model([1, 8, 10, 1], channels=8, kernel=(3, 1))
    found = only(layer(2, normal(1, 8, 10, 1), graph=graph), "I230")
    assert (found.severity, found.certainty) == ("warning", "suspected")
    assert "declared NCHW but shape (1,8,10,1) looks like NHWC" in found.message
    assert "C=8 unlikely, last dim 1" in found.message and "80 elements" in found.message
    assert found.evidence["elements"] == 80
    twin = conv_model([1, 1, 8, 10], channels=1)
    assert layer(2, normal(1, 1, 8, 10), graph=twin) == []
    # A model that turns its input itself means NHWC.
    assert layer(2, normal(1, 8, 10, 1), graph=conv_model([1, 8, 10, 1], 1, nhwc=True)) == []
    said = {"x": Preprocessing(layout="NCHW")}
    assert layer(2, normal(1, 8, 10, 1), graph=graph, preprocessing=said) == []
    # Not an image at all: no Conv reads it.
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, [1, 8, 10, 1])})
    assert layer(2, normal(1, 8, 10, 1), graph=relu) == []


def test_transpose_at_the_entrance():
    graph = conv_model([1, 8, 8, 3], nhwc=True)
    npu = target(tensor={"layouts": ("NHWC", "NCHW")})
    found = only(layer(2, normal(1, 8, 8, 3), graph=graph, on=npu), "I231")
    assert found.severity == "info" and found.evidence["bytes"] == 768
    assert layer(2, normal(1, 8, 8, 3), graph=graph) == []


def test_declared_layout_against_the_models():
    graph = conv_model([1, "C", "H", "W"], channels=8)
    said = {"x": Preprocessing(layout="NHWC")}
    found = layer(2, normal(1, 8, 8, 8), graph=graph, preprocessing=said)
    assert only(found, "I232").severity == "error" and "fits both" in found[0].message
    assert found[0].related[0].name == "/conv"
    right = {"x": Preprocessing(layout="NCHW")}
    assert layer(2, normal(1, 8, 8, 8), graph=graph, preprocessing=right) == []
    turned = conv_model([1, 8, 8, 3], nhwc=True)
    assert layer(2, normal(1, 8, 8, 3), graph=turned, preprocessing=said) == []


def test_channels_that_the_first_conv_demands():
    graph = conv_model([1, "C", "H", "W"])
    found = only(layer(2, normal(1, 16, 17, 3), graph=graph), "I233")
    assert found.evidence["given"] == 16 and found.evidence["expected"] == 3
    assert "looks like NHWC" in found.message and "transpose(0,3,1,2)" in found.fix
    grey = only(layer(2, normal(1, 1, 16, 16), graph=graph), "I233")
    assert grey.evidence["given"] == 1
    assert layer(2, normal(1, 3, 16, 17), graph=graph) == []


# -- ranges ----------------------------------------------------------------------------------

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SAID = {"x": Preprocessing(mean=MEAN, std=STD, scale=255.0)}


def photo():
    """A photograph-like NCHW image of whole pixels."""
    y, x = np.mgrid[0:32, 0:32] / 32
    base = np.stack([0.55 + 0.3 * np.sin(6 * x), 0.5 + 0.3 * y, 0.4 + 0.3 * np.cos(5 * y * x)])
    noise = 0.05 * np.random.default_rng(1).standard_normal(base.shape)
    return np.clip(np.round(255 * (base + noise)), 0, 255).astype("f4")[None]


def standard(pixels, mean=MEAN, std=STD, factor=1 / 255):
    m, s = (np.array(v).reshape(1, 3, 1, 1) for v in (mean, std))
    return ((pixels * factor - m) / s).astype("f4")


def values_of(x, said=None, graph=None):
    graph = graph or conv_model([1, 3, 32, 32])
    return layer(2, x, graph=graph, preprocessing=said or {})


def test_unnormalised():
    found = only(values_of(photo(), SAID), "I240")
    assert (found.severity, found.certainty) == ("error", "proven")
    assert found.evidence["expected"][0] == pytest.approx([-2.118, 2.249], abs=1e-3)
    assert found.evidence["max"][0] == photo()[0, 0].max()
    assert "(x/255 - mean) / std" in found.fix
    assert values_of(standard(photo()), SAID) == []
    for same in (
        Preprocessing(mean=MEAN, std=STD),
        Preprocessing(mean=MEAN, std=STD, scale=1 / 255),
    ):
        assert values_of(standard(photo()), {"x": same}) == []
        assert codes(values_of(photo(), {"x": same})) == ["I240"]


def test_unnormalised_is_only_suspected_when_nothing_was_stated():
    found = only(values_of(photo()), "I240")
    assert (found.severity, found.certainty) == ("warning", "suspected")
    assert values_of(photo() / 255) == []
    assert values_of(standard(photo())) == []
    # A model that begins with its own normalisation wants pixels.
    own = conv_model([1, 3, 32, 32], before=[("Sub", 127.5), ("Mul", 1 / 127.5)])
    assert values_of(photo(), graph=own) == []


def test_normalised_twice():
    found = only(values_of(standard(standard(photo())), SAID), "I241")
    assert "twice" in found.message and found.certainty == "suspected"
    shifted = only(values_of(standard(standard(photo()), factor=1), SAID), "I241")
    assert (shifted.severity, shifted.certainty) == ("error", "proven")
    assert only(values_of(photo() / 255 / 255), "I241").certainty == "suspected"


def test_scaled_but_not_shifted():
    found = only(values_of(photo() / 255, SAID), "I242")
    assert "mean and std not applied" in found.message and found.severity == "warning"


def test_statistics_in_pixels():
    said = {"x": Preprocessing(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))}
    assert values_of(standard(photo()), said) == []
    assert codes(values_of(photo(), said)) == ["I240"]
    one = {"x": Preprocessing(mean=(0.5,), std=(0.5,))}
    assert values_of(standard(photo(), (0.5,) * 3, (0.5,) * 3), one) == []


def test_channels_normalised_in_reverse():
    wrong = standard(photo()[:, ::-1], MEAN[::-1], STD[::-1])
    found = only(values_of(np.ascontiguousarray(wrong), SAID), "I243")
    assert found.evidence["whole_pixels_reversed"] == 1 and found.evidence["whole_pixels"] < 0.5
    assert found.severity == "warning"


def test_channel_means_in_reverse_are_a_hint():
    noise = np.random.default_rng(2).integers(-60, 61, (1, 3, 32, 32))
    bgr = np.array([103.53, 116.28, 123.675]).reshape(1, 3, 1, 1).round() + noise
    found = only(values_of(standard(bgr), SAID), "I243")
    assert (found.severity, found.certainty) == ("info", "suspected")
    assert found.evidence["mean_pixels"] == pytest.approx([103.5, 116.3, 123.7], abs=5)
    assert values_of(np.ascontiguousarray(standard(bgr[:, ::-1])), SAID) == []


def test_synthesised_values_are_not_judged():
    made = case(host(photo()), graph=conv_model([1, 3, 32, 32]), preprocessing=SAID,
                synthesised=frozenset({"x"}))  # fmt: skip
    assert judge(made, 2) == []


def test_count_of_statistics():
    graph = conv_model([1, 1, 32, 32], channels=1)
    found = only(values_of(photo()[:, :1] / 255, SAID, graph), "I244")
    assert (found.evidence["given"], found.evidence["channels"]) == (3, 1)


# -- quantisation at the entrance ------------------------------------------------------------


def qdq(scale, zero):
    return model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="/quant"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ],
        {"x": (F, [1, 100])},
        {"s": np.float32(scale), "z": np.int8(zero)},
    )


def test_input_beyond_its_quantisation():
    x = np.linspace(-4, 4, 100, dtype="f4").reshape(1, 100)
    graph = qdq(2 / 127, 0)
    found = only(layer(2, x, graph=graph), "I250")
    step = np.float32(2 / 127)
    want = ((x > step * 127.5) | (x < -step * 128.5)).sum()
    assert found.evidence["clipped"] == want and found.severity == "warning"
    assert found.evidence["range"] == pytest.approx([-128 * 2 / 127, 2.0])
    assert found.related[0].name == "/quant"
    assert only(layer(2, x * 10, graph=graph), "I250").severity == "error"
    assert layer(2, x / 2, graph=graph) == []


def test_input_that_uses_a_few_levels():
    x = np.linspace(0, 0.004, 100, dtype="f4").reshape(1, 100)
    found = only(layer(2, x, graph=qdq(1 / 255, -128)), "I251")
    assert found.evidence["levels"] == 2
    assert layer(2, x * 250, graph=qdq(1 / 255, -128)) == []


# -- limits and preferences ------------------------------------------------------------------


def test_preferred_multiples():
    cube = target(tensor={"size_multiple": 16, "channel_multiple": 16})
    found = only(layer(2, normal(1, 3, 300, 300), graph=conv_model([1, 3, 300, 300]), on=cube),
                 "I255")  # fmt: skip
    assert found.evidence["padded"] == [1, 3, 304, 304] and found.severity == "info"
    small = only(layer(2, normal(1, 3, 20, 32), graph=conv_model([1, 3, 20, 32]), on=cube), "I255")
    assert small.severity == "warning" and small.evidence["waste"] == pytest.approx(0.6)
    assert layer(2, normal(1, 3, 224, 224), graph=conv_model([1, 3, 224, 224]), on=cube) == []


def test_batch_one_stride():
    fast = target(tensor={"batch1_stride": True})
    graph = conv_model([1, 3, 8, 8])
    view = normal(2, 3, 8, 8)[::2]
    assert view.flags.c_contiguous
    found = only(layer(2, view, graph=graph, on=fast), "I256")
    assert (found.evidence["stride"], found.evidence["expected"]) == (1536, 768)
    assert layer(2, view, graph=graph) == []
    assert layer(2, view.copy(), graph=graph, on=fast) == []
    assert layer(1, view, on=fast) == []  # it is contiguous


def test_rank_and_dimension_limits():
    npu = target(tensor={"max_rank": 4, "max_dim": 8192})
    five = contract_model(x=("<f4", (1, 1, 1, 2, 3)))
    found = only(layer(2, normal(1, 1, 1, 2, 3), model=five, on=npu), "I257")
    assert found.evidence["max_rank"] == 4 and found.severity == "error"
    audio = contract_model(x=("<f4", (1, "T")))
    found = only(layer(2, normal(1, 16000), model=audio, on=npu), "I258")
    assert found.evidence == {"axes": [1], "size": 16000, "max_dim": 8192, "shape": [1, 16000]}
    assert layer(2, normal(1, 8192), model=audio, on=npu) == []
    wide = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="/fc")],
        {"x": (F, [1, 2])},
        {"w": normal(2, 9000)},
    )
    found = only(layer(2, normal(1, 2), graph=wide, on=npu), "I258")
    assert found.subject.kind == "node" and found.subject.name == "/fc"


@pytest.mark.parametrize(("opset", "bad"), [(10, True), (11, False), (17, False), (19, True)])
def test_opset_range(opset, bad):
    graph = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, [1, 3])}, opset=opset)
    atc = target(operators={"opset_min": 11, "opset_max": 18})
    found = layer(2, normal(1, 3), graph=graph, on=atc)
    assert codes(found) == (["I263"] if bad else [])
    if bad:
        assert found[0].evidence["opset"] == opset and found[0].subject.kind == "model"
    assert layer(2, normal(1, 3), graph=graph) == []


# -- operators -------------------------------------------------------------------------------


def einsum(equation="bij,jk->bik", count=1):
    nodes, at = [], "x"
    for n in range(count):
        out = "y" if n == count - 1 else f"h{n}"
        nodes.append(
            helper.make_node("Einsum", [at, "w"], [out], name=f"/{n}/Einsum", equation=equation)
        )
        at = out
    return model(nodes, {"x": (F, [1, 4, 4])}, {"w": normal(4, 4)})


def test_b23_unsupported_operator():
    npu = target(operators={"unsupported": ("Einsum",)})
    found = only(layer(2, normal(1, 4, 4), graph=einsum(), on=npu), "I260")
    assert (found.severity, found.subject.kind) == ("error", "node")
    assert (found.subject.name, found.subject.node) == ("/0/Einsum", 0)
    assert found.fix == "rewrite as MatMul: bij,jk->bik is MatMul(A, B)"
    assert "runs on the CPU" in found.message
    # One finding an operator, however often it stands there.
    many = only(layer(2, normal(1, 4, 4), graph=einsum(count=3), on=npu), "I260")
    assert many.evidence["count"] == 3 and len(many.related) == 2
    only_matmul = target(operators={"mode": "only", "supported": ("MatMul",)})
    assert codes(layer(2, normal(1, 4, 4), graph=einsum(), on=only_matmul)) == ["I260"]
    # A target without that demand, and the model rewritten.
    assert codes(layer(2, normal(1, 4, 4), graph=einsum()), "error") == []
    rewritten = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (F, [1, 4, 4])}, {"w": normal(4, 4)}
    )
    for on in (npu, only_matmul):
        assert layer(2, normal(1, 4, 4), graph=rewritten, on=on) == []


def test_operator_without_a_kernel_is_a_note():
    found = only(
        layer(
            2,
            normal(4, 4),
            graph=model([helper.make_node("NonZero", ["x"], ["y"])], {"x": (F, [4, 4])}),
        ),
        "I261",
    )
    assert found.severity == "info" and found.origin == "estimated"


def sequence_model():
    branch = [
        helper.make_graph(
            [helper.make_node("Identity", ["x"], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", F, None)],
        )
        for name in ("then", "else")
    ]
    return model(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node(
                "If", ["c"], ["y"], name="/if", then_branch=branch[0], else_branch=branch[1]
            ),
            helper.make_node("SequenceEmpty", [], ["s"], name="/seq"),
            helper.make_node("SequenceInsert", ["s", "r"], ["s2"], name="/insert"),
        ],
        {"x": (F, [1, 4]), "c": (TensorProto.BOOL, [])},
    )


def test_b24_control_flow_and_sequences():
    inputs = [host(normal(1, 4)), host(np.array(True), "c", number=1)]
    npu = target(operators={"mode": "only", "supported": ("Relu", "Identity")})
    found = only(layer(2, *inputs, graph=sequence_model(), on=npu), "I262")
    assert found.severity == "error" and found.subject.name == "/if"
    assert "3 control-flow/sequence ops unsupported" in found.message
    assert "If, SequenceEmpty, SequenceInsert; first at node 1" in found.message
    assert found.evidence["operators"] == {"If": 1, "SequenceEmpty": 1, "SequenceInsert": 1}
    static = target(tensor={"static_shapes": True})
    assert only(layer(2, *inputs, graph=sequence_model(), on=static), "I262").severity == "warning"
    assert only(layer(2, *inputs, graph=sequence_model()), "I262").severity == "info"
    plain = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, [1, 4])})
    assert layer(2, normal(1, 4), graph=plain, on=npu) == []


def test_constant_of_shape_can_be_folded():
    fill = helper.make_node(
        "ConstantOfShape", ["shape"], ["ones"], name="/full",
        value=numpy_helper.from_array(np.ones(1, "f4")),
    )  # fmt: skip
    graph = model(
        [fill, helper.make_node("Add", ["x", "ones"], ["y"])],
        {"x": (F, [1, 4])},
        {"shape": np.array([1, 4])},
    )
    npu = target(operators={"unsupported": ("ConstantOfShape",)})
    found = only(layer(2, normal(1, 4), graph=graph, on=npu), "I265")
    assert found.severity == "warning" and found.subject.name == "/full" and "fold" in found.fix
    assert layer(2, normal(1, 4), graph=graph) == []


def test_bicubic_resize():
    def resize(mode):
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, name="/up")
        return model([node], {"x": (F, [1, 3, 4, 4])}, {"s": np.array([1, 1, 2, 2], "f4")})

    npu = target(operators={"unsupported": ("Gelu",)})
    found = only(layer(2, normal(1, 3, 4, 4), graph=resize("cubic"), on=npu), "I266")
    assert found.certainty == "suspected" and "linear" in found.fix
    assert layer(2, normal(1, 3, 4, 4), graph=resize("linear"), on=npu) == []
    assert layer(2, normal(1, 3, 4, 4), graph=resize("cubic")) == []


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("bij,jk->bik", "MatMul(A, B)"),
        ("bij,bjk->bik", "MatMul(A, B)"),
        ("ij,kj->ik", "MatMul(A, Transpose(B, perm=[1,0]))"),
        ("bhqd,bhkd->bhqk", "MatMul(A, Transpose(B, perm=[0,1,3,2]))"),
        ("ij,jk->ki", "Transpose(MatMul(A, B), perm=[1,0])"),
        ("ij,jk", "MatMul(A, B)"),
        ("ij,ij->ij", None),
        ("ii->i", None),
        ("bij,bij->b", None),
        ("...ij,jk->...ik", None),
        ("abc,cbd->ad", None),
    ],
)
def test_einsum_as_matmul(equation, text):
    assert as_matmul(equation) == text


@settings(max_examples=150, deadline=None)
@given(st.permutations("bmk"), st.permutations("bkn"), st.permutations("bmn"))
def test_einsum_rewrites_compute_the_same(a, b, out):
    equation = f"{''.join(a)},{''.join(b)}->{''.join(out)}"
    text = as_matmul(equation)
    assert text is not None
    sizes = {"b": 2, "m": 3, "k": 4, "n": 5}
    x, y = (normal(*(sizes[c] for c in operand)) for operand in (a, b))
    made = _run(text, x, y)
    np.testing.assert_allclose(made, np.einsum(equation, x, y), rtol=1e-4, atol=1e-5)


def _run(text, a, b):
    """Compute what the rewrite says."""

    def perm(part):
        return [int(n) for n in part[part.index("[") + 1 : part.index("]")].split(",")]

    outer = None
    if text.startswith("Transpose("):
        text, _, tail = text.removeprefix("Transpose(").rpartition("), perm=")
        outer, text = perm(tail), text + ")"
    left, _, right = (
        text.removeprefix("MatMul(")
        .removesuffix(")")
        .rpartition(", Transpose(B" if "Transpose(B" in text else ", B")
    )
    x = a.transpose(perm(left)) if "perm" in left else a
    y = b.transpose(perm(right)) if "perm" in right else b
    result = np.matmul(x, y)
    return result if outer is None else result.transpose(outer)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.data(),
)
def test_a_dropped_axis_is_found(expected, data):
    axis = data.draw(st.integers(0, len(expected) - 1))
    shape = [n for i, n in enumerate(expected) if i != axis]
    found = missing_axes(shape, tuple(expected))
    assert found is not None
    axes, order = found
    moved = [shape[a] for a in order]
    assert fits(moved, tuple(n for i, n in enumerate(expected) if i not in axes))
    assert list(order) == sorted(order)  # it fits as it is: no transpose is proposed


# -- the runtime's manifest ------------------------------------------------------------------


def test_b13_data_format_as_list():
    found = only(layer(2, manifest={"data_format": ["nchw"]}), "I281")
    assert "must be one string for this runtime, got list" in found.message
    assert found.fix == 'data_format = "nchw"' and found.severity == "error"
    assert layer(2, manifest={"data_format": "nchw"}) == []
    on_pc = {"data_format": ["nchw"], "runtime": {"api": "toolkit"}}
    assert layer(2, manifest=on_pc) == []


def test_b48_stale_cache():
    stale = {"cache": {"ep_version": "1.8.71"}, "runtime": {"ep_version": "1.8.72"}}
    found = only(layer(2, manifest=stale), "I282")
    assert found.message == ("cache EP version 1.8.71, runtime 1.8.72: results not trustworthy")
    assert found.severity == "warning"
    same = {"cache": {"ep_version": "1.8.72"}, "runtime": {"ep_version": "1.8.72"}}
    assert layer(2, manifest=same) == []


def test_b51_context_binary():
    wrong = {
        "context": {"sdk_version": "2.40", "arch": "v79"},
        "runtime": {"sdk_version": "2.38", "arch": "v75"},
    }
    found = only(layer(2, manifest=wrong), "I283")
    assert found.message == "context binary: SDK 2.40 > runtime 2.38, arch v79 != v75"
    older = {
        "context": {"sdk_version": "2.9", "arch": "V75"},
        "runtime": {"sdk_version": "2.38", "arch": "v75"},
    }
    assert layer(2, manifest=older) == []


@pytest.mark.parametrize("junk", [{"cache": 3, "runtime": []}, {"context": {}, "runtime": {}}, {}])
def test_manifests_of_another_kind_are_silent(junk):
    assert layer(2, manifest=junk) == []
