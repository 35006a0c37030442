"""Reverse steps over 1,000,000 commands, each with the state of a 256-byte window.

Ratios within one run: to the same steps over 1,000 commands, and cold (the first step
after opening, from a random place) to warm.  Milliseconds are printed, too, since the
debugger promises an answer within 50 ms.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import ACCESS, COMMAND, Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import MemoryRegion, Meta, NodeRecord, TensorRecord
from npudbg.session.writer import SessionWriter

DDR, TILES, SHAPE = 0x4000_0000, 250, (1, 10, 25, 64)
SLOT = 4096
TENSOR_BYTES = int(np.prod(SHAPE)) * 2
WINDOW = 256
STEPS = 60


def write(path: Path, commands: int) -> Path:
    """Write a chain of nodes of 250 tiles of 4 commands each."""
    per = 4 * TILES
    nodes = max(commands // per, 1)
    rng = np.random.default_rng(1)
    writer = SessionWriter(path)
    arrays = [rng.standard_normal(SHAPE).astype(np.float16) for _ in range(8)]
    blobs = [writer.put_array(array) for array in arrays]
    writer.set_meta(
        Meta(engines=("dma0", "dma1", "mac"), regions=(
            MemoryRegion(space="sram", base=0, nbytes=16 * SLOT),
            MemoryRegion(space="ddr", base=DDR, nbytes=1 << 30),
        ))
    )  # fmt: skip
    tile, quarter = np.divmod(np.arange(per), 4)
    for node in range(nodes):
        base = node * per
        for number, producer in ((node, node - 1),) if node else ((0, -1),):
            writer.add_tensor(
                TensorRecord(
                    id=number, name=f"t{number}", role="activation" if number else "input",
                    shape=SHAPE, dtype="<f2", address=DDR + (number % 64) * TENSOR_BYTES,
                    space="ddr", blob=blobs[number % 8], producer=producer,
                    first_seq=base - per + 3 if producer >= 0 else -1,
                    last_seq=base - 1 if producer >= 0 else -1,
                )
            )  # fmt: skip
        writer.add_node(
            NodeRecord(
                index=node, name=f"n{node}", op_type="Conv", inputs=(node,), outputs=(node + 1,),
                first_seq=base, last_seq=base + per - 1, tiles=TILES,
            )
        )  # fmt: skip
        rows = np.zeros(per, COMMAND)
        rows["seq"] = base + np.arange(per)
        rows["start"], rows["end"] = rows["seq"] * 10, rows["seq"] * 10 + 9
        rows["node"], rows["tile"] = node, tile
        rows["kind"] = np.array([Kind.DMA_LOAD, Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE])[
            quarter
        ]
        rows["engine"] = np.array([0, 0, 2, 1])[quarter]
        rows["tensor"] = np.where(quarter < 2, node, node + 1)
        # Columns of a map: each tile's box is scattered over all of the tensor.
        channel, row = np.divmod(tile, 25)
        rows["box"] = np.stack(
            [
                np.zeros(per), np.ones(per), channel, channel + 1, row, row + 1,
                np.zeros(per), np.full(per, 64), np.zeros(per), np.ones(per), np.zeros(per),
                np.ones(per),
            ], axis=1,
        ).reshape(per, 6, 2)  # fmt: skip
        offset = (channel * 25 + row) * 128
        slot = (tile % 2) * 4 * SLOT + quarter * SLOT
        home = DDR + (node % 64) * TENSOR_BYTES + offset
        goal = DDR + ((node + 1) % 64) * TENSOR_BYTES + offset
        rows["src"] = np.where(quarter < 2, home, slot - SLOT)
        rows["src_space"] = np.where(quarter < 2, Space.DDR, Space.SRAM)
        rows["dst"] = np.where(quarter == 3, goal, slot)
        rows["dst_space"] = np.where(quarter == 3, Space.DDR, Space.SRAM)
        rows["nbytes"] = 128
        writer.append_commands(rows)
        reads = np.zeros(per, ACCESS)
        reads["seq"], reads["addr"], reads["nbytes"] = rows["seq"], rows["src"], 128
        reads["space"], reads["tensor"], reads["by"] = rows["src_space"], rows["tensor"], -1
        writer.append_accesses(reads)
    writer.add_tensor(
        TensorRecord(
            id=nodes, name=f"t{nodes}", role="output", shape=SHAPE, dtype="<f2",
            address=DDR + (nodes % 64) * TENSOR_BYTES, space="ddr", blob=blobs[nodes % 8],
            producer=nodes - 1, first_seq=(nodes - 1) * per + 3, last_seq=nodes * per - 1,
        )
    )  # fmt: skip
    return writer.close()


def step(debugger: Interpreter, verb: str, rng: np.random.Generator) -> float:
    """Return the milliseconds of one verb and the window around what it wrote."""
    began = time.perf_counter()
    debugger.execute(verb)
    row = debugger.context.row()
    debugger.memory(int(row["dst_space"]), int(row["dst"]) & ~63, WINDOW)
    # A place that the command has nothing to do with, as a second pane would show.
    debugger.memory(Space.SRAM, int(rng.integers(0, 8 * SLOT)), WINDOW)
    return 1e3 * (time.perf_counter() - began)


def measure(path: Path, count: int) -> tuple[list[float], list[float]]:
    """Return milliseconds of first steps after opening, and of steps when warm."""
    rng = np.random.default_rng(2)
    cold, warm = [], []
    for _ in range(8):
        with Session.open(path) as session:
            debugger = Interpreter(session)
            debugger.goto(int(rng.integers(1, count)))
            cold.append(step(debugger, "rs", rng))
    with Session.open(path) as session:
        debugger = Interpreter(session)
        debugger.goto(count - 1)
        step(debugger, "rs", rng)
        for number in range(STEPS):
            if number % 3 == 0:
                debugger.goto(int(rng.integers(1, count)))
            warm.append(step(debugger, "rn" if number % 5 == 4 else "rs", rng))
    return cold, warm


def main() -> int:
    """Print the figures; returns 1 where the promise of 50 ms is broken."""
    counts = (1_000, 1_000_000)
    medians, worst = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            path = write(Path(folder) / f"{count}.npudbg", count)
            cold, warm = measure(path, count)
            medians[count] = statistics.median(warm)
            worst = max(worst, *cold, *warm)
            print(
                f"{count:>9,} commands: reverse step + 2 windows of {WINDOW} B: "
                f"median {medians[count]:.2f} ms, worst {max(warm):.2f} ms; "
                f"first after opening: median {statistics.median(cold):.2f} ms, "
                f"worst {max(cold):.2f} ms"
            )
    ratio = medians[counts[1]] / medians[counts[0]]
    print(f"1,000,000 commands against 1,000: {ratio:.2f} times; promise: each below 50 ms")
    return int(worst >= 50)


if __name__ == "__main__":
    sys.exit(main())
