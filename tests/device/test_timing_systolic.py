"""The systolic profile against the scalesim package, on the matrix layers of ResNet-50.

Stored results are the package's own (its version stands in the file).  Where the
package can be run, three layers are run live: in this interpreter, or in the one
that NPUDBG_SCALESIM_PYTHON names (its pins differ from npudbg's).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from npudbg.device.kernels.base import Op, whole
from npudbg.device.kernels.registry import kernel_for
from npudbg.device.timing import kernel_cycles
from npudbg.session.commands import Kind
from npudbg.targets.loader import load
from npudbg.targets.profile import Memory

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "device")]
from bench_device import helper, model, run  # noqa: E402
from resnet50 import Layer, distinct, layers  # noqa: E402

STORED = json.loads((ROOT / "data/systolic/resnet50_os_32x32.json").read_text())
THEIRS = {Layer(*row["layer"])[1:]: row for row in STORED["layers"]}
TARGET = load("systolic-32x32")


def op_of(layer):
    """The layer as ONNX has it: a Conv, or the classifier's Gemm."""
    if layer.size == 1:
        depth, width = layer.channels, layer.filters
        return Op("Gemm", {"transB": 1}, ((1, depth), (width, depth), (width,)), ((1, width),))
    return Op(
        "Conv",
        {"strides": [layer.stride] * 2, "pads": [layer.pad] * 4},
        (
            (1, layer.channels, layer.size, layer.size),
            (layer.filters, layer.channels, layer.kernel, layer.kernel),
            None,
        ),
        ((1, layer.filters, layer.out, layer.out),),
    )


def cycles(layer, target=TARGET):
    op = op_of(layer)
    return kernel_cycles(
        target, kernel_for(op.op_type, ""), op, whole(op.outputs[0]), whole(op.operands[0]), "fp32"
    )


def test_table_of_layers():
    """Totals that the architecture is known by: 53 convolutions and a classifier, 4.1 GMAC."""
    found = layers()
    assert len(found) == 54
    macs = sum(x.out**2 * x.kernel**2 * x.channels * x.filters for x in found)
    assert macs == pytest.approx(4.089e9, rel=1e-3)
    weights = sum(x.kernel**2 * x.channels * x.filters for x in found)
    # 25.557 million parameters less 53,120 of batch normalisation and 1,000 biases.
    assert weights == 25_557_032 - 53_120 - 1_000


def test_every_layer_within_5_percent():
    assert STORED["array"] == [TARGET.compute.mac_rows, TARGET.compute.mac_cols]
    assert {layer[1:] for layer in layers()} == set(THEIRS)
    theirs = np.array([THEIRS[layer[1:]]["cycles"] for layer in layers()], float)
    ours = np.array([cycles(layer) for layer in layers()], float)
    assert np.abs(ours / theirs - 1).max() <= 0.05
    assert np.corrcoef(ours, theirs)[0, 1] >= 0.99
    # Cycles alone would correlate where one layer dwarfs the rest: so in logarithms too.
    assert np.corrcoef(np.log(ours), np.log(theirs))[0, 1] >= 0.99


@pytest.mark.parametrize(
    ("name", "sram_kib"),
    # A block of 32 output channels' weights has to fit: 576 KiB in the last.
    [("conv2_1_b", 192), ("conv2_1_b", 256), ("conv4_2_a", 256), ("conv5_1_b", 700)],
)
def test_a_run_of_the_device_adds_up_to_the_layer(tmp_path, name, sram_kib):
    layer = next(x for x in layers() if x.name == name)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, layer.channels, layer.size, layer.size)).astype("f4")
    shape = (layer.filters, layer.channels, layer.kernel, layer.kernel)
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], strides=[layer.stride] * 2, pads=[layer.pad] * 4
    )
    proto = model([node], {"x": x}, ["y"], {"w": rng.standard_normal(shape).astype("f4")})
    target = msgspec.structs.replace(TARGET, memory=Memory(sram_bytes=sram_kib << 10))
    _, session = run(proto, {"x": x}, tmp_path / "s.npudbg", target=target)
    with session:
        rows = session.commands(0, session.n_commands)
        kernels = rows[rows["kind"] == Kind.KERNEL]
        assert len(kernels) > 1
        total = int((kernels["end"] - kernels["start"]).sum())
    assert total == pytest.approx(THEIRS[layer[1:]]["cycles"], rel=0.05)


def test_stored_results_are_compute_cycles():
    assert all(row["stalls"] == 0 for row in STORED["layers"])


def interpreter():
    """An interpreter with the package, or None."""
    named = os.environ.get("NPUDBG_SCALESIM_PYTHON")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("scalesim") else None


@pytest.mark.slow
@pytest.mark.skipif(
    interpreter() is None,
    reason="scalesim is not installed: put it in a venv of its own (pip install scalesim "
    "'numpy<2.3') and name its python in NPUDBG_SCALESIM_PYTHON",
)
def test_live():
    some = sorted(distinct(layers()), key=lambda x: THEIRS[x[1:]]["seconds"])[:3]
    done = subprocess.run(
        [interpreter(), str(ROOT / "benchmarks/scalesim_run.py"), "32", "32", "os"],
        input=json.dumps([list(layer) for layer in some]),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()][1:]
    began = time.perf_counter()
    ours = [cycles(layer) for layer in some]
    seconds = time.perf_counter() - began
    assert [row["cycles"] for row in rows] == pytest.approx(ours, rel=0.05)
    assert sum(row["seconds"] for row in rows) >= 100 * seconds
