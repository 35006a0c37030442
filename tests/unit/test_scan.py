"""Scans against plain NumPy in float64, for every type, stride and byte order."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.session import scan_narrow
from npudbg.session.scan import histogram, scan, scan_fast, scan_histogram, scan_limits

FLOATS = ["f8", "f4", "f2", ">f4", ">f2", ">f8"]
EXTENSION = [
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "int4", "uint4",
    "int2", "uint2",
]  # fmt: skip
INTEGERS = ["i1", "u1", "i2", "u2", ">i2", "i4", "u4", ">u4", "i8", "u8", "?"]
SIZES = [1, 2, 3, 1000, 8191, 8192, 20_001, 300_001]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def bits_of(dtype):
    """Number of bit patterns of a type that does not fill its byte, else None."""
    if dtype.kind == "b" or dtype.name in EXTENSION:
        narrow = {"bool": 1, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4,
                  "float6_e2m3fn": 6, "float6_e3m2fn": 6}  # fmt: skip
        bits = narrow.get(dtype.name)
        return 1 << bits if bits else None
    return None


def random_array(dtype, size, seed):
    """Random bit patterns: every NaN, Inf, subnormal, zero and limit occurs in the long run."""
    rng = np.random.default_rng(seed)
    top = bits_of(dtype)
    if top:
        return rng.integers(0, top, size, dtype="u1").view(dtype.newbyteorder("="))
    array = np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).copy()
    if dtype.kind == "f" and dtype.itemsize > 2:
        # Random patterns of wide floats have a deviation that float64 cannot hold: tame most.
        calm = rng.standard_normal(size).astype(dtype)
        array = np.where(rng.random(size) < 0.02, array, calm).astype(dtype)
    return array


def expected(array):
    """What plain NumPy sees in float64."""
    dtype = array.dtype
    with np.errstate(all="ignore"):  # signalling NaNs
        wide = array.astype(dtype.newbyteorder("=")).astype("f8").reshape(-1)
    finite = wide[np.isfinite(wide)]
    integer = dtype.kind in "biu" or "int" in dtype.name
    if dtype.kind == "b":
        low, high, tiny = 0, 1, 0
    elif integer:
        info = ml_dtypes.iinfo(dtype) if dtype.name in EXTENSION else np.iinfo(dtype)
        low, high, tiny = int(info.min), int(info.max), 0
    else:
        info = ml_dtypes.finfo(dtype.newbyteorder("="))
        low, high, tiny = float(info.min), float(info.max), float(info.smallest_normal)
    exact = array.reshape(-1) if integer and dtype.itemsize == 8 else wide
    return {
        "count": array.size,
        "nan": int(np.isnan(wide).sum()),
        "pos_inf": int((wide == np.inf).sum()),
        "neg_inf": int((wide == -np.inf).sum()),
        "zeros": int((wide == 0).sum()),
        "subnormal": int(((np.abs(wide) < tiny) & (wide != 0)).sum()),
        "at_min": int((exact == low).sum()),
        "at_max": int((exact == high).sum()),
    }, finite


def check(array):
    counts, finite = expected(array)
    full, fast, least = scan(array), scan_fast(array), scan_limits(array)
    for key in ("count", "nan", "pos_inf", "neg_inf", "at_min", "at_max"):
        assert getattr(least, key) == counts[key], key
    assert least.min is None
    for key, value in counts.items():
        assert getattr(full, key) == value, key
        if key != "subnormal":
            assert getattr(fast, key) == value, key
    if not finite.size:
        assert full.min is None
        assert fast.max is None
        return
    assert (full.min, full.max) == (finite.min(), finite.max()) == (fast.min, fast.max)
    with np.errstate(over="ignore"):
        mean, std = finite.mean(), finite.std()
    size = np.abs(finite).max()
    if size < 1e150:
        assert full.mean == pytest.approx(mean, rel=1e-9, abs=size * 1e-12)
        assert full.std == pytest.approx(std, rel=1e-9, abs=size * 1e-12)
    if counts["zeros"]:
        assert scan_fast(array, zeros=False).zeros == 0


def check_histogram(array, bins):
    _, finite = expected(array)
    found = histogram(array, bins)
    stats, same = scan_histogram(array, bins)
    assert stats == scan(array)
    assert same == found
    if not finite.size:
        assert found is None
        return
    assert len(found.counts) == bins
    assert sum(found.counts) == finite.size
    assert (found.low, found.high) == (finite.min(), finite.max())
    if found.low == found.high:
        assert max(found.counts) == finite.size
        return
    # Places in longdouble, which holds the width of the whole float64 range.
    place = (finite.astype("g") - finite.min()) / (finite.max().astype("g") - finite.min()) * bins
    below = np.cumsum(found.counts)
    for edge in range(1, bins):
        assert (place < edge - 1e-4).sum() <= below[edge - 1] <= (place < edge + 1e-4).sum()


@pytest.mark.parametrize("name", FLOATS + EXTENSION + INTEGERS)
def test_equals_numpy_in_float64(name):
    for seed, size in enumerate(SIZES):
        check(random_array(dtype_of(name), size, seed))


@pytest.mark.parametrize("name", [*FLOATS, "bfloat16", "float8_e4m3fn", "int4", *INTEGERS])
@pytest.mark.parametrize("bins", [1, 7, 64, 200])
def test_histogram_equals_numpy(name, bins):
    for size in (1, 2, 999, 140_001):
        check_histogram(random_array(dtype_of(name), size, size), bins)


@given(
    st.sampled_from(["f8", "f4", "f2", "bfloat16", "float8_e5m2", "i1", "i4", ">f4", ">f2"]),
    st.lists(
        st.sampled_from(
            [0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 6e-8, -6e-8,
             65504.0, -65504.0, 3.4028234663852886e38, -3.4028234663852886e38, 127.0, -128.0]
        ),
        min_size=1, max_size=12,
    ),
    st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_special_values_in_any_company(name, values, pad):
    dtype = dtype_of(name)
    wide = np.array(values * (1 + pad * 2000))
    if dtype.kind == "i":
        wide = np.clip(np.nan_to_num(wide), -128, 127)
    with np.errstate(all="ignore"):
        array = wide.astype(dtype)
    check(array)
    check_histogram(array, 16)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_stride_and_order(data):
    name = data.draw(st.sampled_from(["f4", ">f4", "f2", ">f2", "bfloat16", "i1", "i8", "f8"]))
    array = random_array(dtype_of(name), 4 * 5 * 6, data.draw(st.integers(0, 99))).reshape(4, 5, 6)
    array = array.transpose(data.draw(st.permutations(range(3))))
    steps = [data.draw(st.sampled_from([1, 2, -1, -2])) for _ in range(3)]
    check(array[tuple(slice(None, None, s) for s in steps)])


def test_large_view_needs_no_copy():
    array = np.ones((2048, 4096), "f4")[:, ::2].T
    for call in (scan, scan_fast, scan_limits, histogram):
        tracemalloc.start()
        call(array)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8e6
    assert scan(array).count == array.size


@pytest.mark.parametrize("name", ["f8", "f4", "f2", "bfloat16", "float8_e4m3fn", "i1", "i4"])
def test_extra_memory_is_under_8_megabytes(name):
    array = np.zeros(1 << 23, dtype_of(name))
    scan(array[:10])  # tables are made once
    tracemalloc.start()
    scan_histogram(array)
    scan_fast(array)
    scan_limits(array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_empty_and_zero_dimensional():
    assert scan(np.empty((0, 3), "f4")).count == 0
    assert scan_fast(np.empty(0, "f2")).min is None
    assert scan_limits(np.empty(0, "f4")).nan == 0
    assert histogram(np.empty(0, "f4")) is None
    assert scan(np.array(3.5, "f4")).mean == 3.5
    assert scan_fast(np.array(-2, "i1")).min == -2
    assert scan(np.array(1 + 2j, "c8")).max == 2


def test_complex_parts_count_as_elements():
    array = np.array([1 + 2j, complex(np.nan, -3), complex(0, np.inf)], "c16")[::-1]
    stats = scan(array)
    assert (stats.count, stats.nan, stats.pos_inf, stats.zeros) == (6, 1, 1, 1)
    assert (stats.min, stats.max) == (-3, 2)


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4")]
)
def test_what_is_no_number_gives_none(array):
    assert scan(array) is None
    assert scan_fast(array) is None
    assert scan_limits(array) is None
    assert histogram(array) is None


def test_deviation_survives_a_large_mean():
    rng = np.random.default_rng(3)
    array = 1e8 + rng.standard_normal(500_000)
    assert scan(array).std == pytest.approx(array.std(), rel=1e-9)


def test_constant_has_no_deviation():
    assert scan(np.full(100_003, 0.1, "f4")).std == 0
    assert scan(np.full(100_003, 0.1, "f2")).std == pytest.approx(0, abs=1e-12)


def test_histogram_of_the_whole_float64_range():
    array = np.array([-1.7e308, 0.0, 1.7e308, np.inf])
    assert histogram(array, 4).counts == (1, 0, 1, 1)
    assert histogram(np.array([0.0, 5e-324, 1e-323]), 2).counts == (1, 2)


@pytest.mark.parametrize("bins", [0, 5000])
def test_number_of_bins_is_bounded(bins):
    with pytest.raises(ValueError, match="1 to 4096"):
        histogram(np.ones(3), bins)


@pytest.mark.parametrize("name", ["f2", "i1"])
def test_counts_are_whole_however_often_the_small_table_is_emptied(name, monkeypatch):
    array = random_array(dtype_of(name), 900_001, 5)
    with np.errstate(all="ignore"):
        once = scan_histogram(array, 64)
        monkeypatch.setattr(scan_narrow, "_DRAIN", 100_000)
        assert scan_histogram(array, 64) == once
    check(array)


@pytest.mark.parametrize("name", ["f4", "f8"])
@pytest.mark.parametrize("at", [0, 8191, 8192, 1 << 17, (1 << 18) - 1, 1 << 18, (1 << 18) + 4])
def test_one_bad_element_is_seen_wherever_it_stands(name, at):
    array = np.ones((1 << 18) + 5, name)
    assert scan_limits(array).nonfinite == 0
    for value, field in (
        (np.nan, "nan"),
        (np.inf, "pos_inf"),
        (-np.inf, "neg_inf"),
        (np.finfo(name).max, "at_max"),
        (np.finfo(name).min, "at_min"),
    ):
        array[at] = value
        seen = scan_limits(array)
        assert {f: getattr(seen, f) for f in (field, "count")} == {field: 1, "count": array.size}
        assert seen.nonfinite == (0 if field.startswith("at") else 1)
    # Squares that overflow are no limit.
    array[at] = np.sqrt(np.finfo(name).max) * 2
    assert scan_limits(array) == scan_limits(np.ones_like(array))


@pytest.mark.parametrize("name", ["f2", "bfloat16", "i2", "i1"])
@pytest.mark.parametrize("part", [0.5, 0.9, 0.99, 1.0])
def test_a_tensor_of_mostly_one_value(name, part):
    array = random_array(dtype_of(name), 300_003, 7)
    array[np.random.default_rng(1).random(array.size) < part] = 3
    check(array)
