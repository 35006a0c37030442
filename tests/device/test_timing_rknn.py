"""Convolution cycles against the layer tables that RKNN-Toolkit2 printed for real models."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.backends.logs.rknn_table import layer_tables
from npudbg.device.array import conv_work, granule, work_cycles
from npudbg.device.kernels.base import Op, whole
from npudbg.device.layer_timing import conv_layer
from npudbg.session.commands import Kind
from npudbg.targets.loader import load
from npudbg.targets.profile import Compute, Dma, Memory, Target

sys.path.insert(0, str(Path(__file__).parent))
from bench_device import helper, model, run

DATA = Path(__file__).parents[1] / "data/rknn"
LOGS = {
    "log_int8_rk3588_verbose.txt": ("rk3588", 7),
    "log_int8_rk3588_verbose_v232.txt": ("rk3588", 7),
    "log_fp16_rk3588_verbose.txt": ("rk3588", 7),
    "log_op_mix.txt": ("rk3588", 1),
    "log_tile_analysis_fp16_rk3588.txt": ("rk3588", 3),
    "log_int8_rk3566.txt": ("rk3566", 7),
    "log_int8_rk3576.txt": ("rk3576", 7),
}


def op_of(layer):
    """The ONNX convolution behind a row: the table turns a depthwise weight round."""
    image, weight, *rest = layer.inputs
    group = 1
    if weight[0] == 1 and weight[1] == image[1] == layer.outputs[0][1]:
        group, weight = weight[1], (weight[1], 1, *weight[2:])
    bias = rest[0] if rest else None
    return Op("Conv", {"group": group}, (image, weight, bias), (layer.outputs[0],))


def rows(log):
    (table,) = layer_tables((DATA / log).read_text().splitlines(keepends=True))
    return [layer for layer in table if layer.op_type.startswith("Conv")]


CASES = [
    pytest.param(chip, layer, id=f"{log.removesuffix('.txt')}-{layer.name}")
    for log, (chip, _) in LOGS.items()
    for layer in rows(log)
]


@pytest.mark.parametrize("log", LOGS)
def test_every_convolution_of_the_logs_is_read(log):
    assert len(rows(log)) == LOGS[log][1]


@pytest.mark.parametrize(("chip", "layer"), CASES)
def test_convolution(chip, layer):
    dtype = {"INT8": "int8", "FLOAT16": "fp16"}[layer.dtype]
    ours = conv_layer(
        load(chip), op_of(layer), dtype, operands=int("Add" in layer.op_type and layer.cut)
    )
    assert ours.npu == layer.npu
    assert ours.ddr == pytest.approx(layer.ddr, rel=0.03)
    if layer.total == layer.npu:  # else the total is memory time, known to 3%
        assert ours.total == layer.total
    assert ours.total == pytest.approx(layer.total, rel=0.03)


def kernel_cycles_of(tmp_path, target, proto, feed):
    outcome, session = run(proto, feed, tmp_path / "s.npudbg", target=target, precision="fp16")
    assert outcome.status == "complete"
    with session:
        commands = session.commands(0, session.n_commands)
        tiles = commands[commands["kind"] == Kind.KERNEL]
        return len(tiles), int((tiles["end"] - tiles["start"]).sum())


@pytest.mark.parametrize("sram_kib", [24, 48, 1024])
def test_tiles_add_up_to_the_layer(tmp_path, sram_kib):
    chip = load("rk3588")
    assert chip.compute.kernel_setup_cycles == 0
    rng = np.random.default_rng(3)
    feed = {"x": rng.standard_normal((1, 40, 30, 26)).astype("f4")}
    weight = rng.standard_normal((72, 40, 3, 3)).astype("f4")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    target = Target(
        name="small",
        title="rk3588 with little SRAM",
        compute=chip.compute,
        dma=chip.dma,
        memory=Memory(sram_bytes=sram_kib << 10),
    )
    tiles, cycles = kernel_cycles_of(
        tmp_path, target, model([node], feed, ["y"], {"w": weight}), feed
    )
    assert (tiles > 1) == (sram_kib < 1024)
    # 30*26 positions, 9 taps, ceil(40/32) blocks of inputs, ceil(72/16) of outputs.
    assert cycles == 30 * 26 * 9 * 2 * 5


@settings(max_examples=200, deadline=None)
@given(
    groups=st.sampled_from([1, 2, 3]),
    per=st.integers(1, 70),
    depth=st.integers(1, 100),
    size=st.integers(1, 12),
    kernel=st.integers(1, 3),
    cut=st.integers(1, 6),
    cols=st.sampled_from([8, 16, 32]),
)
def test_cuts_at_the_granule_lose_nothing(groups, per, depth, size, kernel, cut, cols):
    channels = groups * per
    compute = Compute(mac_rows=32, mac_cols=cols, kernel_setup_cycles=0)
    op = Op(
        "Conv",
        {"group": groups},
        ((1, groups * depth, size, size), (channels, depth, kernel, kernel)),
        ((1, channels, size, size),),
    )
    total = work_cycles(compute, conv_work(op, whole((1, channels, size, size))), "fp16")
    if groups == 1 or depth > 1:
        # Counted block by block, as the array runs.
        blocks = groups * len(range(0, depth, 32)) * len(range(0, per, cols))
        assert total == size * size * kernel * kernel * blocks
    step = granule(compute, op, "fp16")[1] * cut
    if groups > 1:
        step = per  # a group is its own product: cuts between groups
    parts = sum(
        work_cycles(
            compute,
            conv_work(op, ((0, 1), (c, min(c + step, channels)), (r, r + 1), (0, size))),
            "fp16",
        )
        for c in range(0, channels, step)
        for r in range(size)
    )
    if groups > 1 and depth == 1 and per % cols:
        assert parts >= total  # depthwise lanes left empty at each cut
    else:
        assert parts == total


def test_memory_bound_layer_takes_memory_time():
    target = Target(name="t", title="t", dma=Dma(bytes_per_cycle=1.0))
    op = Op("Conv", {}, ((1, 32, 4, 4), (32, 32, 1, 1), None), ((1, 32, 4, 4),))
    cycles = conv_layer(target, op, "int8")
    assert cycles.npu == 16
    assert cycles.ddr == 512 + 1024 + 512
    assert cycles.total == cycles.ddr


@pytest.mark.parametrize(
    ("chip", "cols", "per_cycle"),
    [("rk3588", 32, 23.65), ("rk3576", 32, 7.46), ("rk3566", 16, 6.57), ("rv1106", 16, 6.16)],
)
@pytest.mark.parametrize(("inputs", "outputs", "size"), [(64, 64, 28), (48, 100, 14), (3, 16, 320)])
def test_published_fit(chip, cols, per_cycle, inputs, outputs, size):
    """NPU = OH*OW*KH*KW*ceil(IC/32)*ceil(OC/N), DDR = bytes/B, as fitted by others."""
    target = load(chip)
    op = Op(
        "Conv",
        {"pads": [1] * 4},
        ((1, inputs, size, size), (outputs, inputs, 3, 3), (outputs,)),
        ((1, outputs, size, size),),
    )
    found = conv_layer(target, op, "int8")
    assert found.npu == size * size * 9 * -(-inputs // 32) * -(-outputs // cols)
    moved = (inputs + outputs) * size * size + outputs * inputs * 9 + 8 * outputs
    assert found.ddr == pytest.approx(moved / per_cycle, rel=0.05)  # paddings
