"""Sums in fp16, bit for bit against loops over NumPy's own float16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.commands.forking import fork
from npudbg.commands.pipeline import Job, judge_run, run_job
from npudbg.device.accumulate import Register
from npudbg.device.kernels.base import Op
from npudbg.device.narrowsum import narrow_sum
from npudbg.device.numerics import Numerics
from npudbg.device.rounding import narrowed
from npudbg.graph import loader
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.session.rerun import Changes
from npudbg.targets.loader import load_toml_text
from npudbg.targets.profile import Compute

RNG = np.random.default_rng(11)


def half(*shape):
    return RNG.standard_normal(shape).astype(np.float16)


def dot(a, b):
    """One rounding to float16 a term; float32 holds the product of two float16 exactly."""
    total = np.float16(0)
    for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True):
        total = np.float16(np.float32(total) + np.float32(x) * np.float32(y))
    return total


def add(values):
    total = np.float16(0)
    for x in values.reshape(-1):
        total = np.float16(total + x)
    return total


def emulated(op_type, operands, shape, register=None, opset=17, static=None, **attributes):
    op = Op(op_type, attributes, tuple(o.shape for o in operands), (shape,), opset, static or {})
    sums = narrow_sum(op, operands, register or Register())
    return sums.result.astype(np.float16)


def same(got, want):
    assert got.tobytes() == np.asarray(want, np.float16).tobytes()


def test_ones_stall_at_2048():
    ones = np.ones((1, 4096), np.float16)
    assert emulated("ReduceSum", [ones], (1, 1), opset=11, axes=[1]).item() == 2048
    # Pairs are added first: the sum stalls where 2 is lost, at 4096.
    more = np.ones((1, 16384), np.float16)
    assert emulated("ReduceSum", [more], (1, 1), Register(2), opset=11, axes=[1]).item() == 4096


@pytest.mark.parametrize("trans", [0, 1])
def test_gemm(trans):
    a, b, c = half(5, 70), half(70, 9), half(9)
    given = [a.T if trans else a, b.T if trans else b, c]
    got = emulated("Gemm", given, (5, 9), transA=trans, transB=trans)
    same(got, [[np.float16(dot(a[i], b[:, j]) + c[j]) for j in range(9)] for i in range(5)])


def test_matmul_of_batches():
    a, b = half(2, 3, 4, 33), half(3, 33, 6)
    got = emulated("MatMul", [a, b], (2, 3, 4, 6))
    want = [
        dot(a[n, g, i], b[g, :, j])
        for n in range(2) for g in range(3) for i in range(4) for j in range(6)
    ]  # fmt: skip
    same(got, np.reshape(want, (2, 3, 4, 6)))


@pytest.mark.parametrize("group", [1, 2, 6])
def test_conv(group):
    x, w, b = half(2, 6, 7, 8), half(6, 6 // group, 3, 3), half(6)
    out = (2, 6, 4, 4)
    got = emulated("Conv", [x, w, b], out, pads=[1, 1, 1, 1], strides=[2, 2], group=group)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    per, want = 6 // group, np.empty(out, np.float16)
    for n, c, i, j in np.ndindex(out):
        low = c // per * per
        part = padded[n, low : low + per, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        want[n, c, i, j] = np.float16(dot(part, w[c]) + b[c])
    same(got, want)


def test_dilated_conv():
    x, w = half(1, 3, 9, 9), half(2, 3, 3, 3)
    got = emulated("Conv", [x, w], (1, 2, 5, 5), dilations=[2, 2])
    want = [
        dot(x[0, :, i : i + 5 : 2, j : j + 5 : 2], w[c])
        for c in range(2) for i in range(5) for j in range(5)
    ]  # fmt: skip
    same(got, np.reshape(want, (1, 2, 5, 5)))


def test_sums_and_means():
    x = half(2, 3, 5, 7)
    sums = emulated("ReduceSum", [x, np.array([1, 3])], (2, 5), keepdims=0,
                    static={1: np.array([1, 3])})  # fmt: skip
    same(sums, [[add(x[n, :, i, :]) for i in range(5)] for n in range(2)])
    means = emulated("GlobalAveragePool", [x], (2, 3, 1, 1))
    want = [np.float16(np.float32(add(x[n, c])) / np.float32(35)) for n, c in np.ndindex(2, 3)]
    same(means, np.reshape(want, (2, 3, 1, 1)))
    mean = emulated("ReduceMean", [x], (2, 3, 5, 1), opset=13, axes=[-1])
    same(mean[1, 2, 3, 0], np.float16(np.float32(add(x[1, 2, 3])) / np.float32(7)))


@pytest.mark.parametrize("include", [0, 1])
def test_average_pool(include):
    x = half(1, 2, 5, 5)
    got = emulated("AveragePool", [x], (1, 2, 3, 3), kernel_shape=[3, 3], strides=[2, 2],
                   pads=[1, 1, 1, 1], count_include_pad=include)  # fmt: skip
    want = np.empty((1, 2, 3, 3), np.float16)
    for _, c, i, j in np.ndindex(want.shape):
        part = x[0, c, max(2 * i - 1, 0) : 2 * i + 2, max(2 * j - 1, 0) : 2 * j + 2]
        count = 9 if include else part.size
        want[0, c, i, j] = np.float16(np.float32(add(part)) / np.float32(count))
    same(got, want)


def test_overflow_saturates_or_is_lost():
    up_and_down = np.array([[60000, 60000, -60000, -60000]], np.float16)
    assert np.isnan(
        emulated("ReduceSum", [np.array([[np.inf, -np.inf]], "f2")], (1, 1), opset=11, axes=[1])
    )
    lost = emulated("ReduceSum", [up_and_down], (1, 1), opset=11, axes=[1])
    held = emulated("ReduceSum", [up_and_down], (1, 1), Register(saturate=True), opset=11, axes=[1])
    assert np.isinf(lost).all()
    assert held.item() == np.float16(np.float16(65504 - 60000) - 60000)


def test_flush_in_the_register():
    small = np.full((1, 4), 2.0**-16, np.float16)
    assert emulated("ReduceSum", [small], (1, 1), opset=11, axes=[1]).item() == 2.0**-14
    flushed = emulated("ReduceSum", [small], (1, 1), Register(flush=True), opset=11, axes=[1])
    assert flushed.item() == 0


def test_rounding_modes():
    """The neighbours of 2048 are 2046+1 and 2050; of the largest, infinity."""
    x = np.array([2049, -2049, 2051, 2049.5, 65519, 65520, 1e9, -1e9, np.inf, 0, 2**-25], "f4")
    f16 = np.dtype(np.float16)
    inf = np.inf
    even = [2048, -2048, 2052, 2050, 65504, inf, inf, -inf, inf, 0, 0]
    away = [2050, -2050, 2052, 2050, 65504, inf, inf, -inf, inf, 0, 2**-24]
    zero = [2048, -2048, 2050, 2048, 65504, 65504, 65504, -65504, inf, 0, 0]
    for mode, want in (("half-even", even), ("half-away", away), ("toward-zero", zero)):
        assert narrowed(x, f16, mode).astype("f8").tolist() == want, mode
    bf16 = np.dtype(ml_dtypes.bfloat16)
    cut = narrowed(np.float32([257, 258.9]), bf16, "toward-zero").astype("f4")
    assert cut.tolist() == [256, 258]
    assert np.isnan(narrowed(np.float32([np.nan]), f16, "toward-zero")).all()


def test_profile_decides():
    compute = Compute(accumulator={"fp16": "fp16"}, accumulator_block=4, saturate=True,
                      flush_subnormals=True, rounding="toward-zero")  # fmt: skip
    numerics = Numerics.of(compute, "fp16")
    assert numerics.register == Register(4, saturate=True, flush=True, rounding="toward-zero")
    stored = numerics.store(np.float32([2051, 1e6, 1e-6])).array
    assert stored.tolist() == [2050, 65504, 0]
    assert Numerics.of(Compute(), "fp16").register is None
    assert Numerics.of(Compute(), "fp16").store(np.float32([2051, 1e6])).array.tolist() == [
        2052, np.inf,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            'accumulator = { fp16 = "int8" }',
            "compute.accumulator.fp16: int8; expected fp16 or fp32",
        ),
        ("accumulator_block = 0", "compute.accumulator_block: 0; expected "),
        ('rounding = "up"', "compute.rounding"),
    ],
)
def test_wrong_profiles(line, says):
    with pytest.raises(UserError, match=says):
        load_toml_text(f'name = "mine"\ntitle = "mine"\n[compute]\n{line}\n', "mine.toml")


def saved(tmp_path, node, shape, out, weights=()):
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(w, n) for n, w in weights],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]), path)
    return path


def judged(tmp_path, path, x, **options):
    np.save(tmp_path / "x.npy", x)
    return run_job(
        Job(model=str(path), feeds=(str(tmp_path / "x.npy"),), precision="fp16", **options)
    )


def test_a_stalled_sum_is_found_and_survives_a_fork(tmp_path):
    node = helper.make_node("ReduceSum", ["x"], ["y"], name="total", axes=[1])
    path = saved(tmp_path, node, [1, 4096], [1, 1])
    x, kept = np.ones((1, 4096), np.float32), tmp_path / "a.npudbg"
    first = judged(tmp_path, path, x, accumulate="fp16", golden="ort", save=str(kept))
    assert first.outputs["y"].item() == 2048
    found = next(f for f in first.findings if f.code == "O408")
    assert found.severity == "error"
    assert found.subject.name == "total"
    assert (found.evidence["terms"], found.evidence["reached"], found.evidence["exact"]) == (
        4096, 2048, 4096,
    )  # fmt: skip
    assert "K=4096" in found.message and "stalls at 2048, exact 4096" in found.message
    golden = next(f for f in first.findings if f.code == "O419")
    assert golden.evidence["reason"] == "accumulator"
    with Session.open(first.path) as session:
        again = fork(session, Changes())
    assert again.outputs["y"].item() == 2048
    wide = judged(tmp_path, path, x, accumulate="fp32")
    assert wide.outputs["y"].item() == 4096
    assert not [f for f in wide.findings if f.code in ("O407", "O408")]


def test_what_does_not_fit_the_device_is_summed_by_the_host(tmp_path):
    """4096 halves need 8 KiB; the device's accumulator has no say where it has only 4."""
    node = helper.make_node("ReduceSum", ["x"], ["y"], name="total", axes=[1])
    path = saved(tmp_path, node, [1, 4096], [1, 1])
    small = 'name = "small"\ntitle = "small"\n[memory]\nsram_bytes = 4096\n'
    (tmp_path / "small.toml").write_text(small)
    x, kept = np.ones((1, 4096), np.float32), tmp_path / "s.npudbg"
    found = judged(
        tmp_path, path, x, accumulate="fp16", target=str(tmp_path / "small.toml"), save=str(kept)
    )
    with Session.open(kept) as session:
        assert session.nodes[0].engine == "host" and "does not fit" in session.nodes[0].note
    assert found.outputs["y"].item() == 4096
    assert not [f for f in found.findings if f.code in ("O407", "O408")]


def test_a_mean_whose_sum_overflows_is_found(tmp_path):
    node = helper.make_node("GlobalAveragePool", ["x"], ["y"], name="pool")
    path = saved(tmp_path, node, [1, 2, 32, 32], [1, 2, 1, 1])
    x = np.full((1, 2, 32, 32), 100, np.float32)
    found = judged(tmp_path, path, x, accumulate="fp16")
    assert found.verdict.code == "O407"
    told = next(f for f in found.findings if f.code == "O407")
    assert told.evidence["exact"] == 102400
    assert told.evidence["reached"] is None
    # 655 times 100 is 65500, rounded on the way; the sum is past the range near there.
    assert 600 <= told.evidence["term"] <= 720
    assert not [f for f in judged(tmp_path, path, x).findings if f.severity == "error"]


def test_bytes_touched_are_computed_the_same_way(tmp_path):
    """A tile computed from SRAM sums as the clean run does."""
    w = half(8, 4, 3, 3).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    path = saved(tmp_path, node, [1, 4, 12, 12], [1, 8, 10, 10], [("w", w)])
    x = half(1, 4, 12, 12).astype(np.float32)
    clean = judged(tmp_path, path, x, accumulate="fp16").outputs["y"]
    hit = judged(
        tmp_path, path, x, accumulate="fp16", faults=("nan-weight:tensor=w,index=0",)
    ).outputs["y"]
    finite = np.isfinite(hit)
    assert not finite.all()
    assert finite.any()
    assert hit[finite].tobytes() == clean[finite].tobytes()


def test_without_fp16_it_is_refused(tmp_path):
    node = helper.make_node("ReduceSum", ["x"], ["y"], axes=[1])
    path = saved(tmp_path, node, [1, 4], [1, 1])
    with pytest.raises(UserError, match="--accumulate: has no effect in fp32"):
        judge_run(
            Job(model=str(path), precision="fp32", accumulate="fp16"),
            loader.load(str(path)),
            load_toml_text('name = "mine"\ntitle = "mine"\n', "mine.toml"),
            {"x": np.ones((1, 4), np.float32)},
        )
