"""reduce: inputs and weights cut down, and the finding still the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from npudbg.cli import main
from npudbg.commands.reducing.edits import (
    Sizes,
    can_be_zeroed,
    cut_axes,
    few_axes,
    input_axes,
    narrowed,
    shared_sizes,
    weights_of,
    zeroed,
)
from npudbg.graph.cut import Cut

MODEL = str(Path(__file__).parents[2] / "data" / "models" / "f_fp16.onnx")
RNG = np.random.default_rng(4)


def part(nodes: list[Any], feeds: dict[str, Any], weights: dict[str, Any], outputs: str) -> Cut:
    graph = helper.make_graph(
        nodes, "minimal",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs.split()],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return Cut(model, feeds, tuple(range(len(nodes))))


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("f4")


def computed(cut: Cut) -> Any:
    import onnxruntime as ort

    onnx.checker.check_model(cut.model, full_check=True)
    session = ort.InferenceSession(cut.model.SerializeToString())
    return session.run(None, dict(cut.feeds))[0]


def separable() -> Cut:
    """A depthwise convolution with its normalisation, then a pointwise one and a reshape."""
    nodes = [
        helper.make_node("Conv", ["x", "d"], ["a"], group=8, pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "s", "o", "m", "v"], ["n"]),
        helper.make_node("Conv", ["n", "p", "bias"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["y"]),
    ]
    weights = {
        "d": floats(8, 1, 3, 3), "s": floats(8), "o": floats(8), "m": floats(8),
        "v": np.abs(floats(8)) + 1, "p": floats(5, 8, 1, 1), "bias": floats(5),
        "shape": np.array([1, 5, 36], "i8"),
    }  # fmt: skip
    return part(nodes, {"x": floats(1, 8, 6, 6)}, weights, "y")


def test_channels_of_equal_size_are_cut_through_every_operator() -> None:
    whole = separable()
    (channels,) = [s for s in shared_sizes(whole) if s.size == 8]
    assert set(channels.axes) == {
        ("x", 1), ("d", 0), ("s", 0), ("o", 0), ("m", 0), ("v", 0), ("p", 1),
    }  # fmt: skip
    small = cut_axes(whole, channels, 2, 5)
    assert weights_of(small)["d"].shape == (3, 1, 3, 3)
    group = next(a.i for a in small.model.graph.node[0].attribute if a.name == "group")
    assert group == 3
    # Without the channels' share the result is that of zero weights for the others.
    expected = cut_axes(whole, channels, 0, 8)
    for tensor in expected.model.graph.initializer:
        if tensor.name == "p":
            array = numpy_helper.to_array(tensor).copy()
            array[:, [0, 1, 5, 6, 7]] = 0
            tensor.CopyFrom(numpy_helper.from_array(array, "p"))
    np.testing.assert_allclose(computed(small), computed(expected), rtol=1e-4, atol=1e-5)


def test_a_size_in_a_reshape_follows() -> None:
    whole = separable()
    (filters,) = [s for s in shared_sizes(whole) if s.size == 5]
    small = cut_axes(whole, filters, 3, 5)
    assert weights_of(small)["shape"].tolist() == [1, 2, 36]
    np.testing.assert_allclose(computed(small), computed(whole)[:, 3:5], rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(low=st.integers(0, 5), size=st.integers(1, 6), axis=st.sampled_from([0, 2, 3]))
def test_a_cut_of_element_wise_inputs_is_a_cut_of_the_result(
    low: int, size: int, axis: int
) -> None:
    x, z = floats(6, 3, 6, 6), floats(6, 3, 6, 6)
    whole = part([helper.make_node("Add", ["x", "z"], ["y"])], {"x": x, "z": z}, {}, "y")
    what = next(s for s in input_axes(whole) if s.axes == (("x", axis), ("z", axis)))
    high = min(low + size, 6)
    small = cut_axes(whole, what, low, high)
    index = tuple(slice(low, high) if i == axis else slice(None) for i in range(4))
    np.testing.assert_array_equal(computed(small), (x + z)[index])
    assert small.model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value == high - low


def test_levels_of_a_pyramid_are_cut_by_the_same_share() -> None:
    fine, coarse = floats(1, 2, 12, 12), floats(1, 2, 6, 6)
    nodes = [
        helper.make_node("Resize", ["coarse", "", "scales"], ["up"], mode="nearest"),
        helper.make_node("Add", ["fine", "up"], ["y"]),
    ]
    scales = {"scales": np.array([1, 1, 2, 2], "f4")}
    whole = part(nodes, {"fine": fine, "coarse": coarse}, scales, "y")
    what = next(s for s in input_axes(whole) if s.axes == (("fine", 2), ("coarse", 2)))
    assert what.size == 6
    small = cut_axes(whole, what, 2, 3)
    assert [a.shape[2] for a in small.feeds.values()] == [2, 1]
    np.testing.assert_array_equal(computed(small), computed(whole)[:, :, 4:6])


def test_halving_finds_one_element_and_stops_where_both_halves_are_needed() -> None:
    x = np.zeros((1, 13), "f4")
    x[0, 9] = 5
    whole = part([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, {}, "y")
    what = Sizes((("x", 1),), 13, False)
    one = narrowed(whole, what, lambda p, _: bool((p.feeds["x"] == 5).any()))
    assert one.feeds["x"].tolist() == [[5.0]]
    x[0, 2] = 5
    both = narrowed(whole, what, lambda p, _: int((p.feeds["x"] == 5).sum()) == 2)
    assert both is whole


def test_a_view_with_gaps_stays_one_and_a_copy_stays_a_copy() -> None:
    gaps = floats(4, 12)[:, ::2]
    whole = part([helper.make_node("Add", ["x", "z"], ["y"])],
                 {"x": gaps, "z": floats(4, 6)}, {}, "y")  # fmt: skip
    small = cut_axes(whole, Sizes((("x", 1), ("z", 1)), 6, False), 0, 3)
    assert small.feeds["x"].strides == gaps.strides
    assert small.feeds["z"].flags.c_contiguous


def test_what_is_zeroed_keeps_its_nan_and_never_is_the_subject() -> None:
    bad = floats(2, 3)
    bad[1, 2] = np.nan
    nodes = [
        helper.make_node("Add", ["x", "bad"], ["a"], name="add"),
        helper.make_node("Mul", ["a", "z"], ["y"], name="mul"),
    ]
    whole = part(
        nodes, {"x": floats(2, 3), "z": floats(2, 3)}, {"bad": bad, "i": np.arange(4)}, "y"
    )
    assert can_be_zeroed(whole, "a") == ["bad", "z"], "x could make another fault of the same name"
    assert can_be_zeroed(whole, "bad") == ["x", "z"]
    small = zeroed(whole, ["bad", "z"])
    kept = weights_of(small)["bad"]
    assert np.isnan(kept[1, 2]) and np.isnan(kept).sum() == 1 and not np.nan_to_num(kept).any()
    assert not small.feeds["z"].any()
    np.testing.assert_array_equal(small.feeds["x"], whole.feeds["x"])


def test_pairs_are_only_tried_of_few() -> None:
    found = few_axes(separable())
    assert [s.axes for s in found if s.size == 5] == [
        (("p", 0),), (("bias", 0),), (("p", 0), ("bias", 0)),
    ]  # fmt: skip
    assert not [s for s in found if s.size == 8], "seven axes make too many pairs"


def test_the_pixel_that_overflows_is_what_is_left(tmp_path: Path) -> None:
    """Of a picture that is fine in fp16 but for one pixel, that pixel is the bug report."""
    x = RNG.uniform(-1, 1, (1, 3, 32, 32)).astype("f4")
    x[0, :, 23, 30] = (150.0, -0.5, 0.25)  # (3 * 150)^2 is beyond 65504
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out"
    argv = ["reduce", MODEL, str(tmp_path / "x.npy"), "--precision", "fp16", "--out", str(out)]
    assert main(argv) == 1
    small = onnx.load(out / "minimal.onnx")
    with np.load(out / "inputs.npz") as inputs:
        (name,) = inputs.files
        left = inputs[name]
    assert left.shape[2:] == (1, 1)
    # Whether the cut lies before or behind the factor, it is this pixel's.
    factor = 3 if name != "x" else 1
    assert abs(left).max() == 150.0 * factor
    assert len(small.graph.node) == 1
    assert "Inputs:" in (out / "README.txt").read_text()
