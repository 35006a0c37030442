"""The layout detector on 200 random mistakes and 200 tensors without one.

What it says is checked by building the buffer that it describes, with NumPy alone.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.layers.compare import explain_layout
from npudbg.layers.compare.candidates import candidates

KINDS = ("transposed", "nhwc", "packed", "padded", "rows", "bytes", "late", "bgr")


def random_values(rng, shape):
    values = rng.standard_normal(shape).astype("f4")
    return [
        values,
        np.maximum(values, 0),
        (values * 40).clip(-128, 127).astype("i1"),
        np.cumsum(values, axis=-1).astype("f4"),
        values.astype("f2"),
        rng.integers(0, 256, shape).astype("u1"),
    ][rng.integers(6)]


def random_shape(rng):
    batch = int(rng.choice([1, 1, 2, 3]))
    return batch, *(int(n) for n in (rng.integers(2, 34), *rng.integers(3, 14, 2)))


def pack(x, block):
    n, c, h, w = x.shape
    out = np.zeros((n, -(-c // block), h, w, block), x.dtype)
    for channel in range(c):
        out[:, channel // block, :, :, channel % block] = x[:, channel]
    return out


def pad(x, pitch):
    out = np.zeros((*x.shape[:-1], pitch), x.dtype)
    out[..., : x.shape[-1]] = x
    return out


def cut(rng, buffer, golden):
    """The whole buffer, or as much of it as the golden shape holds."""
    if rng.random() < 0.5 or buffer.size < golden.size:
        return buffer
    return buffer.reshape(-1)[: golden.size].reshape(golden.shape)


def moved(rng, golden):
    orders = [
        p
        for p in itertools.permutations(range(4))
        if [a for a in p if golden.shape[a] > 1] != [a for a in range(4) if golden.shape[a] > 1]
    ]
    return np.ascontiguousarray(golden.transpose(orders[rng.integers(len(orders))]))


def mistaken(rng, kind):
    """A golden tensor and the buffer in which it was misread."""
    shape = random_shape(rng)
    if kind == "late":
        shape = (int(rng.integers(3, 6)), *shape[1:])
    elif kind == "bgr":
        shape = (1, 3, *shape[2:])
    golden = random_values(rng, shape)
    while kind == "bytes" and golden.itemsize < 2:
        golden = random_values(rng, shape)
    if kind == "transposed":
        return golden, cut(rng, moved(rng, golden), golden)
    if kind == "nhwc":
        return golden, np.ascontiguousarray(golden.transpose(0, 2, 3, 1)).reshape(shape)
    if kind == "packed":
        return golden, cut(rng, pack(golden, int(rng.choice([4, 8, 16, 32]))), golden)
    if kind == "padded":
        to = int(rng.choice([4, 8, 16, 32]))
        return golden, cut(rng, pad(golden, (shape[3] // to + 1) * to), golden)
    if kind == "rows":
        by = shape[3] * int(rng.integers(1, 4)) * int(rng.choice([-1, 1]))
        got = np.roll(golden.reshape(-1), by)
        got[slice(0, by) if by > 0 else slice(by, None)] = 0
        return golden, got.reshape(shape)
    if kind == "bytes":
        return golden, golden.byteswap()
    if kind == "late":
        first = random_values(rng, shape)[:1].astype(golden.dtype)
        return golden, np.concatenate([first, golden[:-1]])
    return golden, np.flip(golden, 1)


def described(found, golden):
    """The buffer that a record describes; NaN-free float64, NaN where it says nothing."""
    g = golden.astype("f8")
    if found.kind in ("transposed", "reinterpreted"):
        return g.transpose(found.permutation)
    if found.kind == "reinterpreted-transposed":
        inner = g.reshape([g.shape[a] for a in found.permutation])
        return inner.transpose(np.argsort(found.permutation))
    if found.kind == "packed-channels":
        if found.permutation:  # NHC1WC2
            return pack(g, found.block).transpose(0, 2, 1, 3, 4)
        return pack(g if found.axis == 1 else np.moveaxis(g, found.axis, 1), found.block)
    if found.kind == "padded":
        order = found.permutation or tuple(range(g.ndim))
        axis = order.index(found.axis)
        return np.moveaxis(pad(np.moveaxis(g.transpose(order), axis, -1), found.pitch), -1, axis)
    if found.kind == "reversed":
        return np.flip(g, found.axis)
    if found.kind == "channel-order":
        return np.take(g, found.permutation, found.axis)
    if found.kind == "byte-swapped":
        with np.errstate(all="ignore"):
            return golden.byteswap().astype("f8")
    assert found.kind in ("shifted", "batch-late"), found
    by, rest = divmod(found.shift_bytes, golden.itemsize)
    assert rest == 0
    late = np.roll(g.reshape(-1), by)
    late[slice(0, by) if by > 0 else slice(by, None)] = np.nan
    return late


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_says_is_the_buffer(kind):
    """25 of each of eight kinds."""
    rng = np.random.default_rng([17, KINDS.index(kind)])
    for number in range(25):
        golden, got = mistaken(rng, kind)
        found = explain_layout(got, golden)
        case = (number, golden.shape, golden.dtype, got.shape, found)
        assert found is not None, case
        claim = described(found, golden).reshape(-1)[: got.size]
        told = ~np.isnan(claim)
        with np.errstate(all="ignore"):
            off = np.abs(got.reshape(-1).astype("f8") - claim)[told]
            wrong = (off > found.tolerance + 1e-9) & np.isfinite(off)
        # One batch late: its first entry belongs to nobody. Else every element is told.
        assert wrong.mean() <= 0.03, case
        assert told.mean() >= 0.25, case


def repeated(values, axis):
    return np.broadcast_to(values.take([0], axis), values.shape).copy()


def clean(rng, number):
    """A golden tensor and one that is wrong in another way than by layout, or not at all."""
    golden = random_values(rng, random_shape(rng))
    real, got = golden.astype("f4"), golden.copy()
    std = float(real.std())
    way = number % 12
    if way == 1:
        golden = np.full_like(golden, 3)
        got = golden.copy()
        got.reshape(-1)[:3] = 0
    elif way == 2:
        got[:, rng.integers(golden.shape[1])] = 0
    elif way == 3:
        golden = repeated(golden, 2)
        got = golden.copy()
        got[:, 0] = 1
    elif way == 4:
        golden, got = (random_values(rng, (1, 2, 2, 3)) for _ in range(2))
    elif way == 5:
        golden = real[:, :, :3, :3] + real[:, :, :3, :3].transpose(0, 1, 3, 2)
        got = golden + rng.normal(0, 0.5 * std, golden.shape).astype("f4")
    elif way == 6:
        step = np.float32(std * rng.choice([0.1, 0.5, 2]))
        got = np.round(real / step) * step
    elif way == 7:
        got = real + rng.normal(0, std * rng.choice([0.05, 0.3, 1]), real.shape).astype("f4")
    elif way == 8:
        got[:, rng.random(golden.shape[1]) < 0.5] = 0
    elif way == 9:
        got = np.clip(real, -std, std / 2)
    elif way == 10:
        got.reshape(-1)[int(golden.size * rng.random()) :] = 0
    elif way == 11:
        golden = repeated(golden, 1)
        got = golden.astype("f4") * 1.1 + 0.5
    return golden, got


def test_no_false_alarm():
    """Right, constant, dead, repeated, tiny, symmetric, quantised, noisy, clipped, cut off."""
    rng = np.random.default_rng(18)
    for number in range(204):
        golden, got = clean(rng, number)
        found = explain_layout(got, golden)
        assert found is None, (number, number % 12, golden.shape, golden.dtype, found)


@pytest.mark.parametrize("channel", range(4))
def test_a_dead_channel_is_no_padding(channel):
    """Channels taken for the padding of an axis 32 apart leave only what is in place anyway."""
    rng = np.random.default_rng(19)
    golden = rng.standard_normal((1, 4, 6, 5)).astype("f4")
    got = golden.copy()
    got[:, channel] = 0
    assert explain_layout(got, golden) is None
    got[:, channel:] = 0
    assert explain_layout(got, golden) is None


def test_filled_gaps_are_told_from_padding():
    """Half of a padded buffer agrees with the batch entries interleaved by rows."""
    golden = np.random.default_rng(20).integers(-128, 128, (2, 31, 3, 4)).astype("i1")
    buffer = pad(golden, 8)
    found = explain_layout(buffer.reshape(-1)[: golden.size].reshape(golden.shape), golden)
    assert (found.kind, found.pitch, found.axis) == ("padded", 8, 3)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.lists(st.integers(1, 9), max_size=4),
       st.integers(1, 60))  # fmt: skip
def test_all_positions_in_pieces_are_those_asked_one_by_one(golden, got, limit):
    size = int(np.prod(golden))
    for candidate in candidates(tuple(golden), tuple(got) or tuple(golden)):
        whole = int(np.prod(candidate.shape))
        # Small against the buffer, and not so small that a padded one takes minutes.
        most = max(limit, whole // 64)
        pieces = list(candidate.pieces(size, most))
        assert all(index.size <= most for _, index, _ in pieces)
        found = np.concatenate([np.where(valid, index, -1) for _, index, valid in pieces])
        assert found.tolist() == candidate.source(np.arange(whole), size).tolist()
        starts = np.cumsum([0, *(index.size for _, index, _ in pieces)])
        assert [first for first, _, _ in pieces] == starts[:-1].tolist()


def test_four_million_elements_take_no_third_of_a_second():
    rng = np.random.default_rng(21)
    golden = rng.standard_normal((1, 64, 256, 256), dtype="f4")
    nhwc = np.ascontiguousarray(golden.transpose(0, 2, 3, 1)).reshape(golden.shape)
    noisy = nhwc + rng.standard_normal(golden.shape, dtype="f4") * np.float32(0.01)
    for got, kind in ((nhwc, "reinterpreted"), (noisy, "reinterpreted"), (golden + 1, None)):
        took = []
        for _ in range(2):
            start = time.thread_time()
            found = explain_layout(got, golden)
            took.append(time.thread_time() - start)
        assert (found and found.kind) == kind
        assert min(took) < 0.3
