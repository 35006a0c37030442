"""Parts of the golden comparison: metrics, names of dumps, fp32 in the place of fp16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.golden.names import matched, read_map
from npudbg.commands.golden.source import dequantized
from npudbg.device.reference import Reference
from npudbg.device.widened import Widened
from npudbg.graph.loader import from_proto
from npudbg.layers.compare.closeness import closeness, closer
from npudbg.layers.compare.formats import tolerance
from npudbg.session.errors import UserError
from npudbg.session.records import Quantization

NUMBERS = st.floats(-1e6, 1e6, width=32)
PAIRS = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        hnp.arrays("f4", n, elements=NUMBERS), hnp.arrays("f4", n, elements=NUMBERS)
    )
)


@settings(deadline=None)
@given(PAIRS, st.floats(0, 10), st.floats(0, 1))
def test_metrics_equal_numpy(pair, atol, rtol):
    got, golden = pair
    found = closeness(got, golden, atol=atol, rtol=rtol)
    a, b = got.astype("f8"), golden.astype("f8")
    d = np.abs(a - b)
    assert found.mismatches == np.count_nonzero(~np.isclose(a, b, rtol=rtol, atol=atol))
    assert found.max_abs == d.max() and found.count == len(a) and found.nonfinite == 0
    some = b != 0
    assert found.max_rel == (d[some] / np.abs(b[some])).max(initial=0)
    assert found.euclidean == pytest.approx(np.linalg.norm(a - b))
    if found.mismatches:
        assert found.first == np.argmax(~np.isclose(a, b, rtol=rtol, atol=atol))
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    if norms > 0:
        assert found.cosine == pytest.approx((a * b).sum() / norms, abs=1e-9)
    if d.any() and b.any():
        power = np.square(b).sum() / np.square(a - b).sum()
        assert found.snr == pytest.approx(10 * np.log10(power))


def test_metrics_over_more_than_one_chunk():
    golden = np.arange(200_000, dtype="f4")
    got = golden.copy()
    got[150_001] += 3
    found = closeness(got, golden, atol=1, rtol=0)
    assert (found.mismatches, found.first, found.max_abs) == (1, 150_001, 3)


def test_nan_and_infinity():
    inf, nan = np.inf, np.nan
    golden = np.array([nan, inf, -inf, 1, 2, nan, 0], "f4")
    got = np.array([nan, inf, inf, nan, inf, 5, 0], "f4")
    found = closeness(got, golden, atol=1, rtol=1)
    # Equal: NaN with NaN, Inf with Inf, 0 with 0.
    assert (found.mismatches, found.nonfinite, found.first) == (4, 2, 2)
    assert found.max_abs == inf and found.cosine is None and found.snr is None


def test_zeros():
    zero, one = np.zeros(4, "f4"), np.ones(4, "f4")
    assert closeness(zero, zero, atol=0, rtol=0).snr == np.inf
    lost = closeness(zero, one, atol=0, rtol=0)
    assert lost.cosine is None and lost.snr == 0 and lost.mismatches == 4


@pytest.mark.parametrize(
    "dtype", ["f2", "f8", ml_dtypes.bfloat16, "i1", "u1", "i8", "?", "c8", ">f4"]
)
def test_metrics_of_every_type(dtype):
    array = np.array([0, 1, 1, 0, 1], dtype)
    found = closeness(array, array.copy(), atol=0, rtol=0)
    assert found.mismatches == 0 and found.cosine == pytest.approx(1)
    other = closeness(array, np.array([0, 1, 0, 0, 1], dtype), atol=0, rtol=0)
    assert other.mismatches == 1 and other.max_abs == 1


def test_tolerance_given_holds_as_given():
    golden = np.array([10.0, np.inf, -20.0], "f4")
    assert tolerance(golden, "int8", 0.5, None) == (0.5, 0.0)
    assert tolerance(golden, "int8", None, 0.5) == (0.0, 0.5)
    wide, _ = tolerance(golden, "fp32", None, None)
    narrow, _ = tolerance(golden, "fp16", None, None)
    assert 0 < wide < narrow <= 20 * 0.05


def test_dequantized_by_channel():
    levels = np.array([[1, 2], [3, 4]], "i1")
    one = dequantized(levels, Quantization(scale=(0.5,), zero_point=(1,)))
    assert one.tolist() == [[0, 0.5], [1, 1.5]]
    each = dequantized(levels, Quantization(scale=(1.0, 10.0), zero_point=(0, 1), axis=0))
    assert each.tolist() == [[1, 2], [20, 30]]


def test_names_as_other_tools_write_them():
    known = ["x", "/a/Conv_output_0", "/a/b", "fc1", "fc1r", "logits", "prob"]
    given_ = ["_a_Conv_output_0", "fc1_mm", "fc1r-rs", "logits_mm", "prob", "prob-rs", "other"]
    assert matched(given_, known) == {
        "/a/Conv_output_0": "_a_Conv_output_0",
        "fc1": "fc1_mm",
        "fc1r": "fc1r-rs",
        "logits": "logits_mm",
        "prob": "prob",
    }


def test_a_name_that_could_be_two_is_none():
    assert matched(["a_b"], ["a/b", "a:b"]) == {}
    assert matched(["a/b", "a:b"], ["a_b"]) == {}
    assert matched(["a_b"], ["a_b", "a/b"]) == {"a_b": "a_b"}


@given(st.lists(st.text(max_size=8), max_size=12), st.lists(st.text(max_size=8), max_size=12))
def test_names_pair_one_to_one(theirs, ours):
    pairs = matched(theirs, ours)
    assert set(pairs) <= set(ours) and set(pairs.values()) <= set(theirs)
    assert len(set(pairs.values())) == len(pairs)
    assert all(pairs[n] == n for n in set(theirs) & set(ours))


def test_map_of_names(tmp_path):
    path = tmp_path / "map_name_to_file.txt"
    path.write_text(
        "layer_name          file_name   \n" + "-" * 32 + "\n"
        "/a/Conv output      _a_Conv.txt\nb                   b.txt\n"
    )
    assert read_map(path) == {"_a_Conv": "/a/Conv output", "b": "b"}


@pytest.mark.parametrize(
    ("text", "told"), [("", "no line"), ("a x.txt\nb x.txt\n", "line 2"), ("----\n", "no line")]
)
def test_map_refused(text, told, tmp_path):
    path = tmp_path / "map_name_to_file.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=told):
        read_map(path)


@given(st.binary(max_size=200))
def test_map_of_any_bytes(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("m") / "map_name_to_file.txt"
    path.write_bytes(data)
    try:
        found = read_map(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert all(found.values())


def half_model(kind):
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "k"], ["m"]),
        helper.make_node("Cast", ["m"], ["y"], to=kind),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3,))],
        [helper.make_tensor_value_info("y", kind, (3,))],
        [numpy_helper.from_array(np.float16(300), "k")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return from_proto(made)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32])
def test_widened_does_not_round_or_overflow(kind):
    feed = {"x": np.array([1.0001, 300, 1e5], "f4")}
    given_ = {
        k: v for _, results in Widened(half_model(kind)).run(feed) for k, v in results.items()
    }
    factor = np.float32(300)
    assert given_["h"].tolist() == feed["x"].tolist()
    assert given_["m"].tolist() == (feed["x"] * factor).tolist()
    assert given_["y"].dtype == (np.int32 if kind == TensorProto.INT32 else np.float32)
    own = {k: v for _, r in Reference(half_model(kind)).run(feed) for k, v in r.items()}
    assert np.isinf(own["m"]).sum() == 2  # what the model's own type does


def test_a_channel_that_lost_a_value_is_the_worst():
    """Channel 1 is off by far, channel 2 holds one Inf: the Inf comes first, and hides nothing."""
    golden = np.random.default_rng(1).standard_normal((1, 4, 5, 5)).astype("f4")
    got = golden.copy()
    got[0, 1] += 100
    got[0, 2, 3, 3] = np.inf
    found = closer(closeness(got, golden, atol=0, rtol=0), got, golden)
    assert [c.index for c in found.channels] == [2, 1]
    first, second = found.channels
    assert (first.lost, first.max_abs, first.snr, first.cosine) == (1, np.inf, None, None)
    assert (found.channel, found.channel_snr, found.channel_max_abs) == (2, None, np.inf)
    assert second.lost == 0 and second.max_abs == pytest.approx(100, rel=1e-5)
    # What is not finite in either is no value that was lost.
    golden[0, 2, 3, 3] = np.nan
    found = closer(closeness(got, golden, atol=0, rtol=0), got, golden)
    assert [(c.index, c.lost) for c in found.channels] == [(1, 0)]
