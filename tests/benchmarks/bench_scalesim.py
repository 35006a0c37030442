"""Systolic timing against the scalesim package: cycles per layer, and how much faster.

    NPUDBG_SCALESIM_PYTHON=…/python python tests/benchmarks/bench_scalesim.py [LAYERS] [--json]

Both sides simulate the same distinct layers of ResNet-50 in one run, one after the
other.  npudbg is measured twice: its cycle model, and whole runs of the device
(arithmetic, tiles and the recorded session included).  LAYERS takes the first few
of the distinct layers only: all of them take the package some twenty minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "device")]

import numpy as np  # noqa: E402
from bench_device import helper, model, run  # noqa: E402
from resnet50 import Layer, distinct, layers  # noqa: E402
from test_timing_systolic import TARGET, cycles, interpreter  # noqa: E402


def theirs(chosen: list[Layer]) -> list[dict]:
    """Run the package."""
    python = interpreter()
    if python is None:
        raise SystemExit("bench_scalesim: scalesim is not installed; see NPUDBG_SCALESIM_PYTHON")
    done = subprocess.run(
        [python, str(HERE / "scalesim_run.py"), "32", "32", "os"],
        input=json.dumps([list(layer) for layer in chosen]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def device_seconds(layer: Layer, folder: Path) -> float:
    """Run one layer on the simulated device, recorded."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, layer.channels, layer.size, layer.size)).astype("f4")
    shape = (layer.filters, layer.channels, layer.kernel, layer.kernel)
    weight = rng.standard_normal(shape).astype("f4")
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], strides=[layer.stride] * 2, pads=[layer.pad] * 4
    )
    proto = model([node], {"x": x}, ["y"], {"w": weight})
    began = time.perf_counter()
    outcome, session = run(proto, {"x": x}, folder / f"{layer.name}.npudbg", target=TARGET)
    seconds = time.perf_counter() - began
    session.close()
    assert outcome.status == "complete"
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", nargs="?", type=int, default=24)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    chosen = sorted(distinct(layers()), key=lambda x: x.out**2 * x.channels * x.filters)
    chosen = chosen[: args.layers]
    version, *rows = theirs(chosen)
    began = time.perf_counter()
    ours = [cycles(layer) for layer in chosen]
    model_seconds = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        device = sum(device_seconds(layer, Path(folder)) for layer in chosen)
    package = sum(row["seconds"] for row in rows)
    worst = max(abs(a / row["cycles"] - 1) for a, row in zip(ours, rows, strict=True))
    result = {
        "scalesim": version["version"],
        "layers": len(chosen),
        "worst_cycle_error": worst,
        "scalesim_seconds": package,
        "model_seconds": model_seconds,
        "device_seconds": device,
        "ratio_model": package / model_seconds,
        "ratio_device": package / device,
    }
    if args.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:18} {value:.6g}" if isinstance(value, float) else f"{key:18} {value}")


if __name__ == "__main__":
    main()
