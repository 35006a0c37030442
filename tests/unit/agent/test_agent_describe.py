"""What an array is, held against brute force over every element."""

from __future__ import annotations

import array as array_module
import gc
import itertools
import json
import mmap

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from npudbg.agent import layout
from npudbg.agent.describe import (
    base_bytes,
    describe,
    dtype_name,
    raw_copy,
    wrong_elements,
    wrong_values,
)
from npudbg.session.dtypes import EXTENSION
from npudbg.session.dtypes import dtype_name as session_name


def offsets(shape, strides):
    """Byte offset of every element from element 0, in C order of the indices."""
    return [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    ]


@st.composite
def geometries(draw):
    rank = draw(st.integers(0, 4))
    shape = tuple(draw(st.integers(0, 5)) for _ in range(rank))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    strides = tuple(draw(st.integers(-40, 40)) for _ in range(rank))
    return shape, strides, itemsize


@st.composite
def views(draw):
    """A view that NumPy itself makes: slices, transposes, flips, broadcasts."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    dtype = draw(st.sampled_from(["<f4", ">f4", "|u1", "<i8", "<f2"]))
    made = np.arange(int(np.prod(shape)), dtype=dtype).reshape(
        shape, order=draw(st.sampled_from("CF"))
    )
    for _ in range(draw(st.integers(0, 3))):
        what = draw(st.sampled_from(["transpose", "slice", "newaxis"]))
        if what == "transpose":
            made = made.transpose(draw(st.permutations(range(made.ndim))))
        elif what == "slice" and made.ndim:
            axis = draw(st.integers(0, made.ndim - 1))
            step = draw(st.sampled_from([1, 2, -1, -3]))
            start = draw(st.integers(0, 2))
            index = [slice(None)] * made.ndim
            index[axis] = slice(start, None, step) if step > 0 else slice(None, None, step)
            made = made[tuple(index)]
        elif made.ndim < 5:
            made = made[None]
    return made


@given(geometries())
@settings(max_examples=400, deadline=None)
def test_geometry_against_brute_force(geometry):
    shape, strides, itemsize = geometry
    where = offsets(shape, strides)
    touched = [byte for at in where for byte in range(at, at + itemsize)]
    low, high = layout.byte_range(shape, strides, itemsize)
    if not where:
        assert (low, high) == (0, 0)
    else:
        assert (low, high) == (min(touched), max(touched) + 1)
    assert layout.overlaps(shape, strides, itemsize) == (len(set(touched)) < len(touched))
    packed = offsets(shape, layout.c_strides(shape, itemsize))
    wrong = sum(a != b for a, b in zip(where, packed, strict=True))
    assert layout.misplaced(shape, strides, itemsize) == (wrong, len(where))
    assert layout.is_c_order(shape, strides, itemsize) == (wrong == 0)
    order = layout.permutation(shape, strides, itemsize)
    fits = [
        p
        for p in itertools.permutations(range(len(shape)))
        if offsets([shape[a] for a in p], [strides[a] for a in p]) == packed_of(shape, p, itemsize)
    ]
    assert (order is None) == (not fits)
    assert order is None or order in fits


def packed_of(shape, order, itemsize):
    moved = [shape[a] for a in order]
    return offsets(moved, layout.c_strides(moved, itemsize))


@given(views())
@settings(max_examples=300, deadline=None)
def test_views_against_numpy(view):
    facts = describe(view, "v")
    assert json.loads(json.dumps(facts)) == facts
    assert facts["c_contiguous"] == (facts["wrong"] == 0)
    assert facts["address"] == view.ctypes.data
    assert facts["outside"] == 0
    assert facts["base_address"] <= facts["low"] <= facts["high"]
    assert facts["high"] <= facts["base_address"] + facts["base_nbytes"]
    order = facts["permutation"]
    if order is not None:
        assert view.transpose(order).flags.c_contiguous
        back = np.ascontiguousarray(view.transpose(order)).transpose(facts["transposed_by"])
        assert back.shape == view.shape
        assert (back == view).all()
    # The base bytes with shape, strides and offset are the view again.
    again = np.ndarray(
        view.shape, view.dtype, bytes(base_bytes(view)), facts["offset"], view.strides
    )
    assert again.tobytes() == view.tobytes()


@given(views())
@settings(max_examples=300, deadline=None)
def test_raw_copy_and_wrong_values(view):
    copy = raw_copy(view)
    facts = describe(view)
    base = bytes(base_bytes(view))
    known = {}
    for i in range(view.nbytes):
        if 0 <= facts["offset"] + i < len(base):
            known[i] = base[facts["offset"] + i]
    assert copy.unknown == view.nbytes - len(known)
    assert len(copy.data) == view.nbytes
    assert all(copy.data[i] == b for i, b in known.items())
    assert list(known) == list(range(copy.start, copy.stop))
    logical = view.tobytes()
    size = view.itemsize
    wrong = sum(
        any(known.get(i) != logical[i] for i in range(e * size, (e + 1) * size))
        for e in range(view.size)
    )
    assert wrong_values(view) == (wrong, view.size)
    assert wrong_values(view)[0] <= wrong_elements(view)[0] or copy.unknown


def test_field_case_f_order():
    x = np.swapaxes(np.arange(16, dtype="f4").reshape(1, 4, 4), -1, -2)
    facts = describe(x, "x")
    assert facts["strides"] == [64, 4, 16]
    assert not facts["c_contiguous"] and facts["f_contiguous"]
    assert wrong_elements(x) == (12, 16)
    assert wrong_values(x) == (12, 16)
    assert wrong_elements(np.ascontiguousarray(x)) == (0, 16)


def test_field_case_transposed_view():
    x = np.random.default_rng(0).random((1, 8, 8, 3), "f4").transpose(0, 3, 1, 2)
    assert describe(x)["transposed_by"] == [0, 3, 1, 2]
    assert describe(x)["permutation"] == [0, 2, 3, 1]
    # The batch axis of one element has no say, whatever its stride (0 after [None]).
    y = np.zeros((8, 8, 3), "f4").transpose(2, 0, 1)[None]
    assert describe(y)["strides"][0] == 0
    assert describe(y)["transposed_by"] == [0, 3, 1, 2]


def test_innocent_arrays():
    for innocent in (
        np.zeros((0, 3)).T,
        np.ones((1, 5, 1)).transpose(2, 1, 0),
        np.float32(3) + np.zeros(()),
        np.arange(12.0).reshape(3, 4)[1:],
    ):
        facts = describe(innocent)
        assert facts["c_contiguous"] and facts["wrong"] == 0 and facts["overlap"] is False


def test_large_image_is_counted_fast_and_exactly():
    hwc = np.zeros((640, 640, 3), "f4")
    view = hwc.transpose(2, 0, 1)[None]
    where = np.zeros(view.shape, np.int64)
    for axis, stride in enumerate(
        np.array(view.strides) - np.array(np.zeros(view.shape, "f4").strides)
    ):
        index = np.arange(view.shape[axis]).reshape([-1 if a == axis else 1 for a in range(4)])
        where += index * stride
    assert wrong_elements(view) == (int((where != 0).sum()), view.size)


def test_owners(tmp_path):
    assert describe(np.zeros(3))["owner"] == "self"
    assert describe(np.zeros(6)[1:])["owner"] == "numpy.ndarray"
    assert describe(np.frombuffer(b"\0" * 16, "<f4")[1:])["owner"] == "bytes"
    assert describe(np.frombuffer(bytearray(16), "<f4"))["owner"] == "bytearray"
    assert describe(np.frombuffer(array_module.array("f", [1, 2]), "<f4"))["owner"] == "array.array"
    path = tmp_path / "m.bin"
    path.write_bytes(bytes(range(64)) * 128)
    mapped = np.memmap(path, "u1", "r", offset=16, shape=(4, 8))
    facts = describe(mapped.T)
    assert facts["owner"] == "mmap.mmap"
    assert bytes(base_bytes(mapped.T))[facts["offset"]] == mapped[0, 0] == 16
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        facts = describe(np.frombuffer(raw, "u1")[5:])
        assert (facts["owner"], facts["offset"], facts["base_nbytes"]) == ("mmap.mmap", 5, 8192)
        gc.collect()  # the map can be closed: nothing keeps its buffer


def test_storage_of_a_tensor_library():
    memory = np.arange(32, dtype="f4")

    class Storage:
        data_ptr = staticmethod(lambda: memory.ctypes.data)
        nbytes = staticmethod(lambda: memory.nbytes)

    class Tensor:
        def __init__(self, view):
            self.__array_interface__ = view.__array_interface__

        def untyped_storage(self):
            return Storage()

    view = np.asarray(Tensor(memory[8:16]))
    facts = describe(view)
    assert facts["owner"].endswith("Tensor")
    assert (facts["offset"], facts["base_nbytes"]) == (32, 128)
    assert bytes(base_bytes(view)) == memory.tobytes()


def test_base_bytes_stay_alive():
    view = base_bytes(np.arange(1000, dtype="<i4")[::2])
    gc.collect()
    assert np.frombuffer(view, "<i4").tolist() == list(range(1000))
    assert view.readonly
    assert base_bytes(np.zeros(100), limit=100) is None
    assert base_bytes(np.array(["a"], object)) is None
    with pytest.raises(TypeError):
        raw_copy(np.array(["a"], object))


def test_beyond_its_buffer():
    owner = np.arange(4.0)
    wild = as_strided(owner, (9,), (8,))
    facts = describe(wild)
    assert facts["outside"] == 40 and facts["base_nbytes"] == 32
    assert raw_copy(wild).unknown == 40
    with pytest.raises(ValueError, match="outside"):
        wrong_values(wild)


def test_overlap_kinds():
    assert describe(np.broadcast_to(np.float32(1), (3, 4)))["overlap"] is True
    assert describe(sliding_window_view(np.arange(10), 3))["overlap"] is True
    assert describe(sliding_window_view(np.arange(10), 3)[::3])["overlap"] is False
    # Two large axes with coprime strides: undecided within the bound, and said so.
    assert layout.overlaps((3000, 3000), (7919, 7927), 1) is None


def test_dtype_names_agree_with_the_session():
    for name in sorted(EXTENSION):
        dtype = np.dtype(getattr(ml_dtypes, name))
        assert dtype_name(dtype) == session_name(dtype) == name
    for code in ("<f4", ">f4", "|u1", "<i8", "|b1", "<c16", "<U3", "|O"):
        assert dtype_name(np.dtype(code)) == code
