"""Run layers through the scalesim package: one JSON line a layer.

Started with an interpreter that has the package (its pins differ from npudbg's):

    python scalesim_run.py ROWS COLS os|ws < layers.json > results.jsonl

``layers.json`` is a list of [name, size, channels, filters, kernel, stride, pad].
"""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import io
import json
import sys
import tempfile
import time
from pathlib import Path

_CONFIG = """\
[general]
run_name = run
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {cols}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = 10
Dataflow = {dataflow}
MemoryBanks = 1
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def run(layer: list, rows: int, cols: int, dataflow: str) -> dict:
    """Return cycles and seconds of one layer."""
    from scalesim.scale_sim import scalesim

    name, size, channels, filters, kernel, stride, pad = layer
    # The package takes the padded image; trim what the stride leaves over.
    padded = size + 2 * pad
    padded -= (padded - kernel) % stride
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config, topology, layout = place / "c.cfg", place / "t.csv", place / "l.csv"
        config.write_text(_CONFIG.format(rows=rows, cols=cols, dataflow=dataflow))
        topology.write_text(
            "Layer name, h, w, fh, fw, c, n, stride,\n"
            f"{name}, {padded}, {padded}, {kernel}, {kernel}, {channels}, {filters}, {stride},\n"
        )
        layout.write_text("Layer name,\n" + f"{name}," + "1," * 20 + "\n")
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            sim = scalesim(
                save_disk_space=True,
                verbose=False,
                config=str(config),
                topology=str(topology),
                layout=str(layout),
            )
            sim.run_scale(top_path=str(place / "out"))
        seconds = time.perf_counter() - began
        with next(place.rglob("COMPUTE_REPORT.csv")).open() as report:
            row = {k.strip(): v for k, v in next(csv.DictReader(report)).items() if k}
    return {
        "layer": layer,
        "cycles": int(float(row["Total Cycles"])),
        "stalls": int(float(row["Stall Cycles"])),
        "seconds": round(seconds, 4),
    }


def main() -> None:
    """Read layers, print results."""
    rows, cols, dataflow = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    print(json.dumps({"version": importlib.metadata.version("scalesim")}), flush=True)
    for layer in json.load(sys.stdin):
        print(json.dumps(run(layer, rows, cols, dataflow)), flush=True)


if __name__ == "__main__":
    main()
