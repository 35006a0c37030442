"""Layer 2 on the field's own cases, each beside its innocent twin: the tensor's contract."""

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
from onnx import TensorProto, helper

from npudbg.layers.case import Preprocessing
from npudbg.layers.casting import cast_of
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
