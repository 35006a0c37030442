"""Opening a session of 1,000,000 commands against one of 1,000, in one run.

python tests/benchmarks/bench_open.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from npudbg.session.commands import COMMAND, Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Meta
from npudbg.session.writer import SessionWriter

LIMIT = 1.3
ROUNDS = 201


def make(path: Path, count: int) -> None:
    """Write a session of ``count`` commands."""
    writer = SessionWriter(path)
    writer.set_meta(Meta(engines=("dma0", "mac")))
    for low in range(0, count, 50_000):
        rows = np.zeros(min(50_000, count - low), COMMAND)
        rows["seq"] = np.arange(low, low + len(rows))
        rows["start"] = rows["seq"] * 10
        rows["end"] = rows["start"] + 8
        rows["kind"] = int(Kind.DMA_LOAD)
        rows["dst_space"] = int(Space.SRAM)
        rows["dst"] = (rows["seq"] % 64) * 64
        rows["nbytes"] = 64
        writer.append_commands(rows)
    writer.close()


def seconds(path: Path) -> float:
    """Return the time to open a session and know what it is and how long."""
    start = time.perf_counter()
    with Session.open(path) as session:
        _ = session.meta, session.verdict, session.n_commands, session.n_cycles
    return time.perf_counter() - start


def main() -> int:
    """Print the ratio; 1 if it is above its limit."""
    with tempfile.TemporaryDirectory() as folder:
        files = {n: Path(folder) / f"{n}.npudbg" for n in (1_000, 1_000_000)}
        for count, path in files.items():
            make(path, count)
        times: dict[int, list[float]] = {count: [] for count in files}
        for _ in range(ROUNDS):
            for count, path in files.items():
                times[count].append(seconds(path))
    small, large = (statistics.median(t) for t in times.values())
    print(f"1,000 commands {small * 1e3:.2f} ms, 1,000,000 commands {large * 1e3:.2f} ms")
    print(f"ratio {large / small:.2f} (at most {LIMIT})")
    return int(large / small > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
