"""Metrics against plain NumPy, and the reasons that they lead to."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.layers.compare import Comparison, Tolerance, compare
from npudbg.session.errors import UserError

RNG = np.random.default_rng(0)


def names(comparison):
    return [r.name for r in comparison.reasons]


@given(st.integers(0, 10_000), st.sampled_from(["f4", "f8", "f2", "i1", ">f4", "bfloat16"]))
@settings(max_examples=60, deadline=None)
def test_metrics_equal_numpy(seed, name):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    shape = tuple(rng.integers(1, 9, rng.integers(1, 5)))
    golden = (rng.standard_normal(shape) * 20).astype(dtype)
    got = (golden.astype("f8") + rng.standard_normal(shape)).astype(dtype)
    found = compare(got, golden, atol=0.5, rtol=0.1, layouts=False).metrics
    x, y = golden.astype("f8"), got.astype("f8")
    error = y - x
    assert found.max_abs == np.abs(error).max()
    assert np.abs(error[found.max_abs_at]) == found.max_abs
    assert found.mismatches == (np.abs(error) > 0.5 + 0.1 * np.abs(x)).sum()
    assert found.euclidean == pytest.approx(np.linalg.norm(error))
    assert found.bias == pytest.approx(error.mean(), abs=1e-12)
    if x.any():
        nonzero = x != 0
        assert found.max_rel == pytest.approx((np.abs(error)[nonzero] / np.abs(x[nonzero])).max())
    if x.any() and y.any():
        cosine = (x * y).sum() / np.linalg.norm(x) / np.linalg.norm(y)
        assert found.cosine == pytest.approx(cosine)
    if x.any() and error.any():
        assert found.snr_db == pytest.approx(10 * np.log10((x**2).sum() / (error**2).sum()))
    if x.size > 2 and x.std() > 0 and y.std() > 0:
        assert found.correlation == pytest.approx(np.corrcoef(x.ravel(), y.ravel())[0, 1])
        slope, intercept = np.polyfit(x.ravel(), y.ravel(), 1)
        assert found.slope == pytest.approx(slope, rel=1e-6, abs=1e-9)
        assert found.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-6)


def test_argmax_agreement():
    golden = np.array([[1, 2, 3], [3, 2, 1], [0, 5, 5], [1, 0, 0]], "f4")
    got = np.array([[1, 2, 4], [1, 2, 0], [0, 4, 5], [2, 0, 0]], "f4")
    # Row 2 has two maxima in the golden tensor: either is right.
    assert compare(got, golden).metrics.argmax_equal == 0.75


def test_nan_on_one_side_is_a_mismatch_and_on_both_is_none():
    golden = np.array([1, np.nan, np.inf, 4], "f4")
    assert compare(golden, golden).verdict == "equal"
    got = np.array([1, 2, -np.inf, np.nan], "f4")
    found = compare(got, golden)
    assert found.metrics.mismatches == 3
    assert compare(np.array([1, np.nan, np.nan, 4], "f4"), np.ones(4, "f4")).failed[0] == (
        "non-finite"
    )


def test_equal_close_and_diverging():
    golden = RNG.standard_normal((1, 8, 16, 16)).astype("f4")
    assert compare(golden, golden.copy()).verdict == "equal"
    rounded = golden.astype("f2").astype("f4")
    assert compare(rounded, golden, 1e-7, 1e-7).verdict == "close"
    assert names(compare(rounded, golden, 1e-7, 1e-7)) == ["noise"]
    wrong = compare(RNG.standard_normal(golden.shape).astype("f4"), golden)
    assert wrong.verdict == "diverges"
    assert names(wrong) == ["unrelated"]
    assert set(wrong.failed) >= {"cosine", "snr"}


def test_one_metric_never_decides():
    """Boxes of 0 to 640 and scores of 0 to 1: the cosine is 1.0000 and every score is lost."""
    boxes = RNG.uniform(0, 640, (1, 4, 500)).astype("f4")
    scores = RNG.uniform(0, 1, (1, 3, 500)).astype("f4")
    golden = np.concatenate([boxes, scores], 1)
    scale = 640 / 255
    got = np.round(golden / scale) * scale
    found = compare(got.astype("f4"), golden)
    assert found.metrics.cosine > 0.9999
    assert found.metrics.dead_channels == (4, 5, 6)
    assert found.verdict == "diverges"
    assert names(found)[0] == "dead-channels"


@pytest.mark.parametrize(("factor", "offset", "name"), [(1.3, 0, "scale"), (1, 2.5, "offset")])
def test_scale_and_offset_are_named_with_their_numbers(factor, offset, name):
    golden = RNG.standard_normal((1, 3, 40, 40)).astype("f4")
    got = golden * np.float32(factor) + np.float32(offset)
    got += RNG.standard_normal(golden.shape).astype("f4") * 0.01
    found = compare(got, golden)
    assert names(found) == [name]
    evidence = found.reasons[0].evidence
    assert evidence["slope"] == pytest.approx(factor, rel=0.01)
    assert evidence["intercept"] == pytest.approx(offset, abs=0.01)


def test_collapse_saturation_and_isolated_elements():
    golden = RNG.standard_normal((1, 4, 30, 30)).astype("f4")
    assert names(compare(np.zeros_like(golden), golden))[0] == "collapse"
    clipped = compare(np.minimum(golden, 1), golden)
    assert names(clipped)[0] == "saturation"
    assert clipped.reasons[0].evidence["limit"] == 1
    assert clipped.reasons[0].evidence["at_limit"] == (golden >= 1).sum()
    one = golden.copy()
    one[0, 2, 3, 4] += 0.5
    found = compare(one, golden)
    assert found.verdict == "close"
    assert names(found) == ["isolated"]
    assert found.metrics.max_abs_at == (0, 2, 3, 4)


def test_noise_is_no_scale():
    golden = RNG.standard_normal(5000).astype("f4")
    for level in (0.01, 0.1, 0.3, 1.0):
        got = golden + level * RNG.standard_normal(5000).astype("f4")
        assert names(compare(got, golden)) == ["noise"]


def test_worst_channel_comes_first():
    golden = RNG.standard_normal((1, 6, 20, 20)).astype("f4")
    got = golden.copy()
    got[:, 4] += RNG.standard_normal((20, 20)).astype("f4") * 2
    got[:, 1] *= 1.01
    found = compare(got, golden)
    assert [c.index for c in found.metrics.channels] == [4, 1]
    assert "channel-snr" in found.failed


def test_shapes_that_differ():
    golden = RNG.standard_normal((1, 8, 6, 5)).astype("f4")
    assert compare(golden.reshape(8, 6, 5), golden).verdict == "equal"
    turned = compare(golden.transpose(0, 2, 3, 1), golden)
    assert turned.layout.permutation == (0, 2, 3, 1)
    assert turned.verdict == "diverges"
    other = compare(golden[:, :3], golden)
    assert other.failed == ("shape",)
    assert other.metrics is None


def test_layout_is_the_reason_where_there_is_one():
    golden = RNG.standard_normal((1, 8, 6, 5)).astype("f4")
    got = golden.transpose(0, 2, 3, 1).reshape(golden.shape)
    found = compare(got, golden)
    assert names(found) == ["layout"]
    assert found.layout.kind == "reinterpreted"


def test_a_record_as_json_and_back():
    golden = RNG.standard_normal((1, 8, 6, 5)).astype("f4")
    for got in (golden, golden[:, ::-1], golden * np.nan, np.zeros_like(golden)):
        found = compare(got, golden)
        again = msgspec.json.decode(msgspec.json.encode(found), type=Comparison)
        assert again == found


def test_empty_and_single_elements():
    assert compare(np.empty((0, 3), "f4"), np.empty((0, 3), "f4")).verdict == "equal"
    assert compare(np.float32(2.0), np.array(2.0, "f4")).verdict == "equal"
    assert compare(np.array(3.0), np.array(2.0)).metrics.max_abs == 1


def test_complex_and_text():
    a = np.array([1 + 2j, 3 - 1j])
    assert compare(a, a).verdict == "equal"
    assert compare(a, a.conj()).metrics.max_abs == 4
    with pytest.raises(UserError):
        compare(np.array(["a"]), np.array(["a"]))


def test_large_tensors_need_no_full_copy():
    golden = np.ones((16, 64, 64, 64), "f4")
    golden[0, 0, 0, 0] = 2
    tracemalloc.start()
    compare(golden[::-1], golden, layouts=False, tolerance=Tolerance(cosine=0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < golden.nbytes
