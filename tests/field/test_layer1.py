"""Layer 1 on the field's own cases, each beside its innocent twin."""

from __future__ import annotations

import numpy as np
import pytest
from cases import aligned, case, codes, host, layer, only, target
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from npudbg.layers.findings import judge

STRIDES = {"H101", "H102", "H103", "H104", "H105", "H106"}


def ramp(*shape, dtype="f4"):
    return np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)


# -- element order ---------------------------------------------------------------------------


def test_b01_fortran_order():
    x = np.swapaxes(np.arange(1, 17, dtype="f4").reshape(1, 4, 4), -1, -2)
    found = only(layer(1, x), "H101")
    assert (found.severity, found.certainty, found.subject.name) == ("error", "proven", "x")
    assert "shape (1,4,4) is F-order (strides 64,4,16; C-order needs 64,16,4)" in found.message
    assert "12 of 16 elements" in found.message
    assert found.evidence["wrong"] == found.evidence["wrong_by_value"] == 12
    assert "ascontiguousarray" in found.fix
    assert layer(1, np.ascontiguousarray(x)) == []


def test_b01_through_a_file(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(ramp(1, 4, 4)))
    only(layer(1, host(np.load(tmp_path / "x.npy"), loaded=True)), "H101")


def test_b03_transposed_view():
    x = np.random.default_rng(0).random((1, 8, 8, 3), np.float32).transpose(0, 3, 1, 2)
    found = only(layer(1, x), "H102")
    assert "perm 0,3,1,2 of a C buffer" in found.message and "channels last" in found.message
    assert found.evidence["transposed_by"] == [0, 3, 1, 2]
    assert found.evidence["c_strides"] == [768, 256, 32, 4]
    assert found.evidence["strides"] == [768, 4, 96, 12]
    assert layer(1, np.ascontiguousarray(x)) == []


@pytest.mark.parametrize(
    ("view", "code", "text"),
    [
        (lambda x: x[:, :, ::2, ::2], "H103", "every 2nd element"),
        (lambda x: x[:, :, :, 1:7], "H103", "steps of axis 2 lie 32 bytes apart and hold 24"),
        (lambda x: x[:, :, 1:7, 1:7].transpose(0, 2, 3, 1), "H103", "slice of a transpose"),
        (lambda x: x[:, ::-1], "H104", "axis 1 runs backwards"),
        (lambda x: np.broadcast_to(x[:, :1], x.shape), "H105", "axis 1 repeats"),
        (lambda x: sliding_window_view(x.ravel(), 5), "H106", "overlap"),
    ],
)
def test_views(view, code, text):
    x = ramp(2, 3, 8, 8)
    found = only(layer(1, view(x)), code)
    assert text in found.message and found.severity == "error"
    assert layer(1, view(x).copy()) == []


@pytest.mark.parametrize(
    "innocent",
    [
        lambda x: x[:, :],
        lambda x: x[1:2],  # a slice of the first axis
        lambda x: x.reshape(2, 1, 3, 64).transpose(1, 0, 2, 3),  # an axis of one is moved
        lambda x: x[:, np.newaxis],
        lambda x: x[:1, :1, :1, ::8],  # one element
        lambda x: x[:, :, :0].transpose(3, 2, 1, 0),  # none
        lambda x: np.zeros((0, 3), ">f4"),
        lambda x: x.ravel()[5:9],
        lambda x: np.float32(3).reshape(()),
    ],
)
def test_views_that_are_contiguous_after_all(innocent):
    assert layer(1, innocent(ramp(2, 3, 8, 8))) == []


def test_view_outside_its_buffer():
    x = as_strided(np.ones(8, "f4"), (4, 4), (16, 4))
    found = layer(1, x)
    assert codes(found) == ["H107"] and found[0].evidence["outside"] == 32


# -- addresses -------------------------------------------------------------------------------


def test_64k_dma_at_0x12345000():
    a57 = target(dma={"base_alignment": 65536, "length_bits": 31})
    x = ramp(4, 3, 8, 8)
    found = only(layer(1, host(x, address=0x12345000, loaded=True), on=a57), "H110")
    assert found.evidence["remainder"] == 0x5000 and found.evidence["alignment"] == 65536
    assert found.severity == "error" and found.origin == "declared"
    assert "0x12345000 mod 65536 = 0x5000" in found.message and "64 KB" in found.message
    assert layer(1, host(x, address=0x12340000, loaded=True), on=a57) == []


def test_own_loading_buffer_is_never_blamed():
    a57 = target(dma={"base_alignment": 65536}, cache={"line_bytes": 64, "coherent": False})
    x = aligned(64, 65536, 16).view("f4")
    x[:] = ramp(16)
    assert layer(1, host(x, loaded=True), on=a57) == []
    assert "H110" in codes(layer(1, host(x), on=a57))  # of a user's process: judged


@pytest.mark.parametrize(("offset", "numpy_says"), [(1, False), (4, True), (16, True)])
def test_b06_unaligned_unified_buffer(offset, numpy_says):
    npu = target(tensor={"base_alignment": 32})
    x = aligned(4096, 32, offset).view("f4")
    x[:] = ramp(1024)
    found = [f for f in layer(1, x, on=npu) if f.code == "H110"]
    assert len(found) == 1 and found[0].evidence["remainder"] == offset
    assert found[0].evidence["alignment"] == 32
    assert found[0].evidence["numpy_aligned"] is numpy_says
    assert "into a buffer of" in found[0].message  # the offset that spoils it
    y = aligned(4096, 32).view("f4")
    y[:] = ramp(1024)
    assert layer(1, y, on=npu) == []


def test_b07_arena():
    arena = aligned(2048, 16, 4)
    found = only(layer(1, host(arena, "arena"), on=target(tensor={"base_alignment": 16})), "H110")
    assert found.severity == "warning" and found.subject.name == "arena"
    assert "mod 16 = 4" in found.message and "12 bytes lost" in found.message
    assert found.evidence["lost"] == 12


def test_b09_misaligned_io_array():
    board = target(tensor={"base_alignment": 16})
    bad = layer(1, host(ramp(1000), "data", address=0x2000_0004), on=board)
    assert only(bad, "H110").evidence["remainder"] == 4
    assert layer(1, host(ramp(1000), "data", address=0x2000_0010), on=board) == []


def test_element_misalignment_on_any_target():
    x = aligned(64, 64, 1).view("f4")
    x[:] = ramp(16)
    found = only(layer(1, x), "H111")
    assert "mod 4 = 1" in found.message and found.evidence["numpy_aligned"] is False
    assert layer(1, aligned(64, 64, 1)) == []  # bytes have no alignment


def test_plain_numpy_buffer_is_silent_without_a_demand():
    for n in range(1, 40):
        assert layer(1, np.arange(1, n + 1, dtype="f4")) == []


def test_b42_address_beyond_the_mask():
    board = target(dma={"mask_bits": 32})
    found = only(layer(1, host(ramp(16), address=0x1_2000_0000), on=board), "H117")
    assert "0x120000000 exceeds the 32-bit DMA mask" in found.message
    assert found.evidence["wrapped"] == 0x2000_0000
    across = only(layer(1, host(ramp(16), address=0xFFFF_FFE0), on=board), "H117")
    assert "last byte at 0x10000001f" in across.message
    assert layer(1, host(ramp(16), address=0xFFFF_FFC0), on=board) == []
    assert layer(1, ramp(16), on=board) == []  # a process's own addresses are virtual


def test_dma_length_field():
    board = target(dma={"length_bits": 31})
    huge = np.empty(0x8000_0000, np.uint8)  # never touched: no memory is used
    found = layer(1, host(huge, loaded=True, dtype="opaque"), on=board)
    assert only(found, "H118").evidence["max"] == 0x7FFF_FFFF
    assert found[0].evidence["nbytes"] == 0x8000_0000 and found[0].evidence["truncated"] == 0
    assert layer(1, host(huge[:-1], loaded=True, dtype="opaque"), on=board) == []


def test_torn_cache_line():
    arm = target(cache={"line_bytes": 64, "coherent": False})
    block = aligned(256, 64)
    block[:] = 1 + np.arange(256) % 100
    a, b = host(block[:100], "a"), host(block[100:200], "b", number=1)
    found = only(layer(1, a, b, on=arm), "H113")
    assert found.evidence["bytes_of_first"] == 36 and found.evidence["bytes_between"] == 0
    assert (found.subject.name, found.related[0].name) == ("b", "a")
    # In lines of their own, on a coherent target, or one array fed twice: nothing.
    c = host(block[128:200], "c", number=1)
    assert layer(1, a, c, on=arm) == []
    for coherent in (True, None):
        assert layer(1, a, b, on=target(cache={"line_bytes": 64, "coherent": coherent})) == []
    assert layer(1, a, host(block[:100], "again", number=1), on=arm) == []


def test_buffer_inside_a_cache_line():
    arm = target(cache={"line_bytes": 64, "coherent": False})
    found = only(layer(1, host(ramp(16), address=0x1010), on=arm), "H112")
    assert found.evidence["remainder"] == 16
    assert layer(1, host(ramp(16), address=0x1040), on=arm) == []


def test_padding():
    board = target(tensor={"size_alignment": 64})
    found = only(layer(1, ramp(20), on=board), "H114")
    assert found.evidence["padding"] == 48 and found.evidence["room"] == 0
    assert found.severity == "warning"
    assert layer(1, ramp(64)[:20], on=board) == []  # the buffer has room behind it
    assert layer(1, ramp(16), on=board) == []


def test_bank_word():
    memory = {"sram_banks": 4, "bank_bytes_per_cycle": 16}
    sources = {"memory.sram_banks": "s", "memory.bank_bytes_per_cycle": "s"}
    board = target(memory=memory, sources=sources)
    found = only(layer(1, host(ramp(16), address=0x1008), on=board), "H116")
    assert (found.evidence["words"], found.evidence["words_aligned"]) == (5, 4)
    assert found.severity == "info"
    assert layer(1, host(ramp(16), address=0x1010), on=board) == []
    assert layer(1, host(ramp(16), address=0x1008), on=target(memory=memory)) == []  # not known


# -- values ----------------------------------------------------------------------------------


def test_b18_big_endian(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(8, dtype=">f4").reshape(1, 2, 2, 2))
    x = np.load(tmp_path / "x.npy")
    found = only(layer(1, host(x, loaded=True)), "H121")
    assert found.evidence["value"] == "1.0"
    assert float(found.evidence["read_as"]) == pytest.approx(4.6e-41, rel=0.01)
    assert "'>'" in found.message and "4.6e-41" in found.message
    assert layer(1, x.astype("<f4")) == []
    assert layer(1, np.arange(8, dtype=">u1")) == []


def test_bytes_turned_round_without_saying_so():
    x = np.random.default_rng(1).standard_normal(1000).astype("f4")
    found = only(layer(1, x.byteswap()), "H134")
    assert found.certainty == "suspected" and found.evidence["ordinary_swapped"] == 1
    assert layer(1, x) == []
    assert "H134" not in codes(layer(1, (x * 1e-20).astype("f4")))  # small, in either order


def test_nan_and_inf():
    x = ramp(2, 8, 8)
    x[1, 2, 3] = np.nan
    x[1, 4, 4] = -np.inf
    found = only(layer(1, x), "H130")
    assert found.evidence["first"] == [1, 2, 3] and found.severity == "error"
    assert (found.evidence["nan"], found.evidence["neg_inf"]) == (1, 1)
    x[1, 2, 3] = 0
    assert only(layer(1, x), "H130").severity == "warning"  # a mask


def test_subnormals():
    x = ramp(32)
    x[:4] = 1e-40
    assert only(layer(1, x), "H131").severity == "info"
    few = np.random.default_rng(5).standard_normal(100_000).astype("f2")
    assert (np.abs(few) < np.finfo("f2").tiny).any()  # a handful is ordinary in fp16
    assert layer(1, few) == []
    flushing = target(compute={"flush_subnormals": True})
    found = only(layer(1, x, on=flushing), "H131")
    assert found.severity == "warning" and found.evidence["subnormal"] == 4


def test_constant_values():
    image = np.zeros((1, 3, 16, 16), "f4")
    assert only(layer(1, image), "H132").severity == "warning"
    state = np.zeros((2, 1, 128), "f4")
    assert only(layer(1, state), "H132").severity == "info"
    assert layer(1, np.float32(16000).reshape(1)) == []
    assert layer(1, np.zeros((1, 64), "i8")) == []
    assert judge(case(host(image, "x"), synthesised=frozenset({"x"})), 1) == []


# -- properties ------------------------------------------------------------------------------


@st.composite
def views(draw):
    rank = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    size = int(np.prod(shape))
    base = np.arange(1, size + 1, dtype=draw(st.sampled_from(["u2", "i4", "f4", "f8"])))
    x = base.reshape(shape)
    steps = [
        slice(
            draw(st.sampled_from([None, 1])),
            None,
            draw(st.sampled_from([1, 1, 1, 2, 3])),
        )
        if draw(st.booleans())
        else slice(None, None, draw(st.sampled_from([1, 1, -1])))
        for _ in shape
    ]
    return x[tuple(steps)].transpose(draw(st.permutations(range(rank))))


@settings(max_examples=300, deadline=None)
@given(views())
def test_random_views_against_brute_force(x):
    found = [f for f in layer(1, host(x)) if f.code in STRIDES]
    if x.size == 0:
        assert found == []
        return
    itemsize = x.itemsize
    want = 0  # elements whose offset is not the one that C order gives them
    for number, index in enumerate(np.ndindex(*x.shape)):
        offset = sum(i * s for i, s in zip(index, x.strides, strict=True))
        want += offset != number * itemsize
    assert bool(found) == bool(want)
    if found:
        assert found[0].evidence["wrong"] == want
        assert len(found) == 1


@settings(max_examples=200, deadline=None)
@given(views())
def test_copies_are_never_flagged(x):
    copy = np.ascontiguousarray(x)
    assert [f for f in layer(1, host(copy)) if f.severity == "error"] == []


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**40),
    st.sampled_from([2**n for n in range(2, 17)]),
)
def test_alignment_is_arithmetic(address, step):
    found = layer(1, host(ramp(4, dtype="u1"), address=address), on=target(
        dma={"base_alignment": step}))  # fmt: skip
    assert bool(found) == (address % step != 0)
    if found:
        assert only(found, "H110").evidence["remainder"] == address % step


# -- hostile and huge ------------------------------------------------------------------------


def test_a_broadcast_of_any_size_is_judged_without_being_read():
    huge = np.broadcast_to(np.float32(3), (1 << 20, 1 << 20))
    found = only(layer(1, huge), "H105")
    assert found.evidence["elements"] == 1 << 40


def test_names_cannot_move_the_cursor():
    name = "x\x1b[31m\u202e\n" + "y" * 500
    x = np.asfortranarray(ramp(4, 4, dtype=">f4"))
    x[0, 0] = np.nan
    for found in layer(1, host(x, name)):
        for text in (found.message, found.fix, found.subject.name):
            assert text.isprintable() and len(text) < 800
