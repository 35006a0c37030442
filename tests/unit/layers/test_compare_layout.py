"""The layout detector: the right rearrangement in hundreds of cases, silence in hundreds more."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from npudbg.layers.compare import explain_layout


def random_values(rng, shape):
    """Values as outputs have them: normal, rectified, integer levels, or a smooth image."""
    kind = rng.integers(0, 5)
    values = rng.standard_normal(shape).astype("f4")
    if kind == 1:
        return np.maximum(values, 0)
    if kind == 2:
        return (values * 40).clip(-128, 127).astype("i1")
    if kind == 3:
        return np.cumsum(values, axis=-1).astype("f4")
    if kind == 4:
        return values.astype("f2")
    return values


def random_shape(rng, rank=None):
    rank = rank or int(rng.integers(2, 6))
    shape = rng.integers(2, 12 if rank < 5 else 6, rank)
    if rank > 2 and rng.random() < 0.5:
        shape[0] = 1
    return tuple(int(n) for n in shape)


def order_of(rng, shape):
    """A permutation that moves something."""
    own = [p for p in itertools.permutations(range(len(shape))) if moves(p, shape)]
    return own[rng.integers(0, len(own))] if own else None


def moves(order, shape):
    kept = [a for a in order if shape[a] != 1]
    return kept != sorted(kept)


def same_order(found, order, shape):
    """Two permutations are one where they differ in axes of one element only."""
    return [a for a in found if shape[a] != 1] == [a for a in order if shape[a] != 1]


def noisy(rng, values):
    """As a device with a rounder arithmetic returns it."""
    if values.dtype.kind != "f":
        return values
    return (values + rng.standard_normal(values.shape) * 0.003 * values.std()).astype(values.dtype)


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("reshaped", [True, False])
def test_permuted_axes_are_found(noise, reshaped):
    """50 cases each, 200 in all: as declared, and read in the golden shape."""
    rng = np.random.default_rng(7 + noise + 2 * reshaped)
    done = 0
    while done < 50:
        shape = random_shape(rng)
        order = order_of(rng, shape)
        if order is None or np.prod(shape) < 64:
            continue
        golden = random_values(rng, shape)
        turned = np.ascontiguousarray(golden.transpose(order))
        got = turned.reshape(shape) if reshaped else turned
        got = noisy(rng, got) if noise else got
        found = explain_layout(got, golden)
        assert found is not None, (shape, order, golden.dtype)
        # A buffer may be two things at once (a square); whatever is said must be true.
        if found.kind in ("transposed", "reinterpreted"):
            assert same_order(found.permutation, order, shape), (shape, order, found)
            assert found.buffer_shape == tuple(shape[a] for a in found.permutation)
        else:
            assert restored(got, golden, found), (shape, order, found)
        assert found.kind in ("transposed", "reinterpreted", "reversed", "channel-order",
                              "reinterpreted-transposed"), found  # fmt: skip
        assert found.after >= 0.97 > 0.9 > found.before or found.informative >= 0.95
        done += 1


def restored(got, golden, found):
    if found.kind == "reversed":
        return np.allclose(np.flip(got, found.axis), golden, atol=0.1 * golden.std())
    if found.kind == "reinterpreted-transposed":
        inner = golden.reshape([golden.shape[a] for a in found.permutation])
        return np.allclose(got, inner.transpose(np.argsort(found.permutation)), atol=0.1)
    return False


def test_no_false_alarm_on_clean_and_noisy_tensors():
    rng = np.random.default_rng(11)
    for number in range(200):
        shape = random_shape(rng)
        golden = random_values(rng, shape)
        got = golden
        if number % 2 and golden.dtype.kind == "f":
            level = [1e-6, 1e-3, 0.02, 0.1, 0.5, 2.0][number // 2 % 6]
            got = golden + (rng.standard_normal(shape) * level * golden.std()).astype("f4")
        elif number % 4 == 0:
            got = (golden.astype("f4") * 1.5 + 0.3).astype("f4")
        assert explain_layout(got, golden) is None, (number, shape)


def test_no_false_alarm_on_unrelated_or_repetitive_tensors():
    rng = np.random.default_rng(12)
    for _ in range(60):
        shape = random_shape(rng)
        assert explain_layout(random_values(rng, shape), random_values(rng, shape)) is None
    masks = [rng.integers(0, 2, (4, 4)).astype("f4") for _ in range(80)]
    assert all(explain_layout(a, b) is None for a, b in itertools.pairwise(masks))
    assert explain_layout(np.zeros((4, 4)), np.ones((4, 4))) is None


def pack(x, block, fill=0):
    """NC1HWC2 by its definition: element (n, c, h, w) at (n, c // C2, h, w, c % C2)."""
    n, c, h, w = x.shape
    out = np.full((n, -(-c // block), h, w, block), fill, x.dtype)
    for channel in range(c):
        out[:, channel // block, :, :, channel % block] = x[:, channel]
    return out


@pytest.mark.parametrize("block", [4, 8, 16, 32])
@pytest.mark.parametrize("cut", [False, True])
def test_packed_channels_are_found(block, cut):
    rng = np.random.default_rng(block)
    for channels in (block + 1, 2 * block, 3 * block - 1, 85):
        golden = rng.standard_normal((2, channels, 5, 6)).astype("f4")
        native = pack(golden, block)
        got = native.reshape(-1)[: golden.size].reshape(golden.shape) if cut else native
        found = explain_layout(got, golden)
        assert found is not None
        assert (found.kind, found.block, found.axis) == ("packed-channels", block, 1)
        assert found.buffer_shape == native.shape
        assert found.after == found.exact == 1
        assert found.before < 0.1


def test_packed_channels_of_a_channels_last_model():
    golden = np.random.default_rng(0).standard_normal((1, 6, 5, 20)).astype("f4")
    found = explain_layout(pack(golden.transpose(0, 3, 1, 2), 8), golden)
    assert (found.kind, found.block, found.axis) == ("packed-channels", 8, 3)


def test_b12_native_output_read_as_nchw():
    """airockchip/rknn_model_zoo#156: (1,255,4,4) int8 lies as (1,32,4,4,8)."""
    y = np.random.default_rng(0).integers(-128, 128, (1, 255, 4, 4)).astype("i1")
    native = pack(y, 8)
    assert native.shape == (1, 32, 4, 4, 8)
    read = native.reshape(-1)[: y.size].reshape(y.shape)
    found = explain_layout(read, y)
    assert found.kind == "packed-channels"
    assert found.buffer_shape == (1, 32, 4, 4, 8)
    assert found.block == 8
    assert "C2=8, 1 pad channel" in found.message
    # What anyone counts who reads it so.
    assert found.before == pytest.approx((read == y).mean())
    assert found.before < 0.03
    assert found.after == 1
    assert explain_layout(y, y) is None


@pytest.mark.parametrize("shape", [(1, 3, 6, 10), (4, 30), (2, 5, 7)])
@pytest.mark.parametrize("cut", [False, True])
def test_padded_rows_are_found(shape, cut):
    rng = np.random.default_rng(2)
    golden = rng.standard_normal(shape).astype("f4")
    pitch = -(-shape[-1] // 16) * 16
    buffer = np.zeros((*shape[:-1], pitch), "f4")
    buffer[..., : shape[-1]] = golden
    got = buffer.reshape(-1)[: golden.size].reshape(shape) if cut else buffer
    found = explain_layout(got, golden)
    assert (found.kind, found.pitch, found.axis) == ("padded", pitch, len(shape) - 1)
    assert found.after == 1


@pytest.mark.parametrize("pixel", [4, 8])
def test_padded_channels_of_a_channels_last_buffer(pixel):
    golden = np.random.default_rng(3).standard_normal((1, 3, 12, 14)).astype("f4")
    buffer = np.zeros((1, 12, 14, pixel), "f4")
    buffer[..., :3] = golden.transpose(0, 2, 3, 1)
    found = explain_layout(buffer, golden)
    # With one group of channels NC1HWC2 is the same buffer.
    assert found.kind in ("padded", "packed-channels")
    assert found.axis == 1
    assert pixel in (found.pitch, found.block)


@pytest.mark.parametrize("shift", [1, -3, 17, -40])
def test_shifted_by_elements(shift):
    rng = np.random.default_rng(4)
    golden = rng.standard_normal((1, 4, 8, 9)).astype("f4")
    flat = golden.reshape(-1)
    got = np.zeros_like(flat)
    if shift > 0:
        got[shift:] = flat[:-shift]
    else:
        got[:shift] = flat[-shift:]
    for noise in (0, 0.005):
        seen = (got + noise * rng.standard_normal(got.shape)).astype("f4").reshape(golden.shape)
        found = explain_layout(seen, golden)
        assert (found.kind, found.shift_bytes) == ("shifted", 4 * shift)


@pytest.mark.parametrize("shift", [1, 2, -1, -6, 63])
def test_shifted_by_bytes_within_an_element(shift):
    golden = np.random.default_rng(5).standard_normal((2, 200)).astype("f4")
    raw = golden.tobytes()
    moved = b"\0" * shift + raw[: len(raw) - shift] if shift > 0 else raw[-shift:] + b"\0" * -shift
    found = explain_layout(np.frombuffer(moved, "f4").reshape(golden.shape), golden)
    assert (found.kind, found.shift_bytes) == ("shifted", shift)
    assert found.after > 0.99


@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "f8", ml_dtypes.bfloat16])
def test_byte_swapped(dtype):
    golden = (np.random.default_rng(6).standard_normal((3, 40)) * 90).astype(dtype)
    width = golden.dtype.itemsize
    got = golden.view(f"u{width}").byteswap().view(golden.dtype)
    found = explain_layout(got, golden)
    assert found.kind == "byte-swapped"
    assert found.exact == 1


def test_big_endian_array_of_the_same_values_is_no_mistake():
    golden = np.random.default_rng(6).standard_normal((3, 40)).astype("f4")
    assert explain_layout(golden.astype(">f4"), golden) is None


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 8, 9, 3)])
def test_bgr_for_rgb(shape):
    axis = shape.index(3)
    golden = np.random.default_rng(8).integers(0, 256, shape).astype("u1")
    found = explain_layout(np.flip(golden, axis), golden)
    assert (found.kind, found.axis) == ("reversed", axis)
    assert "BGR for RGB" in found.message


def test_bgra_for_rgba():
    golden = np.random.default_rng(8).integers(0, 256, (1, 4, 8, 8)).astype("u1")
    found = explain_layout(golden[:, [2, 1, 0, 3]], golden)
    assert (found.kind, found.permutation) == ("channel-order", (2, 1, 0, 3))


def test_upside_down():
    golden = np.random.default_rng(8).standard_normal((1, 2, 8, 8)).astype("f4")
    found = explain_layout(golden[:, :, ::-1], golden)
    assert (found.kind, found.axis) == ("reversed", 2)


def test_one_batch_late():
    rng = np.random.default_rng(9)
    golden = rng.standard_normal((4, 3, 8, 8)).astype("f4")
    got = np.concatenate([rng.standard_normal((1, 3, 8, 8)).astype("f4"), golden[:-1]])
    found = explain_layout(got, golden)
    assert (found.kind, found.axis) == ("batch-late", 0)
    before = rng.standard_normal((1, 10)).astype("f4")
    now = rng.standard_normal((1, 10)).astype("f4")
    assert explain_layout(before, now, previous=before).kind == "batch-late"
    assert explain_layout(now, now, previous=before) is None


def test_mostly_zero_heatmap_is_judged_by_its_peaks():
    golden = np.zeros((1, 8, 20, 30), "f4")
    rng = np.random.default_rng(10)
    golden.reshape(-1)[rng.choice(golden.size, 60, replace=False)] = rng.uniform(0.1, 1, 60)
    got = np.ascontiguousarray(golden.transpose(0, 2, 3, 1)).reshape(golden.shape)
    assert (got == golden).mean() > 0.95
    found = explain_layout(got, golden)
    assert (found.kind, found.permutation) == ("reinterpreted", (0, 2, 3, 1))


def test_cost_is_bounded():
    import time

    rng = np.random.default_rng(13)
    golden = rng.standard_normal((1, 64, 256, 256), dtype="f4")
    start = time.process_time()
    assert explain_layout(golden + np.float32(1), golden) is None
    clean = time.process_time() - start
    assert clean < 5
