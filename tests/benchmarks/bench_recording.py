"""What recording costs: a run on the simulated device with and without its record.

The same machine runs the same model twice a round: once into a session, once with
a writer and a recorder that keep nothing.  Beside the time stands the session's size
against the bytes of its distinct tensors.

    python tests/benchmarks/bench_recording.py
"""

from __future__ import annotations

import hashlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from public_models import path_of

from npudbg.device.machine import HostBuffer, Machine
from npudbg.graph import loader
from npudbg.graph.feeds import synthesize
from npudbg.graph.specialise import specialise
from npudbg.session.reader import Session
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

MODEL, SHAPE = "ppocr_det", (1, 3, 640, 640)
MOST_TIME, MOST_BYTES = 3.0, 1.2
ROUNDS = 5


class Nothing:
    """A writer that takes everything and keeps nothing."""

    def __getattr__(self, name: str) -> Any:
        """Answer every call with None."""
        return lambda *args, **kwargs: None


def run(graph: Any, arrays: dict[str, np.ndarray], path: Path | None) -> float:
    """Return the seconds of a run, recorded into ``path`` if there is one."""
    start = time.perf_counter()
    writer: Any = SessionWriter(path) if path is not None else Nothing()
    machine = Machine(graph, Target(name="generic", title="generic"), writer)
    if path is None:
        machine.recorder.tensor = machine.recorder.node = Nothing().take
    machine.run({n: HostBuffer(a, 0x10000, a.tobytes()) for n, a in arrays.items()}, {})
    writer.close()
    return time.perf_counter() - start


def distinct(path: Path) -> int:
    """Return the bytes of all tensors of a session whose contents differ."""
    with Session.open(path) as session:
        seen = {}
        for tensor in session.tensors:
            array = session.array(tensor)
            if array is not None:
                digest = hashlib.sha256(np.ascontiguousarray(array).view(np.uint8)).digest()
                seen[digest] = array.nbytes
    return sum(seen.values())


def main() -> int:
    """Print the ratios; 1 if one is above its limit."""
    graph = loader.load(path_of(MODEL))
    arrays = {c.name: synthesize(c, SHAPE, 0) for c in graph.inputs}
    graph, _ = specialise(graph, arrays)
    times: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npudbg"
        for _ in range(ROUNDS):
            path.unlink(missing_ok=True)
            times[True].append(run(graph, arrays, path))
            times[False].append(run(graph, arrays, None))
        size, tensors = path.stat().st_size, distinct(path)
    with_record, without = (statistics.median(times[k]) for k in (True, False))
    cost, room = with_record / without, size / tensors
    print(f"{MODEL} at {SHAPE}: {with_record:.2f} s recorded, {without:.2f} s not")
    print(f"time  ratio {cost:.2f}, at most {MOST_TIME}")
    print(f"bytes {size:,} for {tensors:,} of distinct tensors")
    print(f"size  ratio {room:.2f}, at most {MOST_BYTES}")
    return int(cost > MOST_TIME or room > MOST_BYTES)


if __name__ == "__main__":
    raise SystemExit(main())
