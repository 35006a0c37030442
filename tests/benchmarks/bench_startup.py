"""Start-up of `npudbg --help` as a ratio to an empty Python process, in one run.

Medians of whole processes, taken in turn so that both see the same machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 31
LIMIT = 8.0


def seconds(command: list[str]) -> float:
    """Return the wall time of one process."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    """Print the ratios; 1 if `--help` is above its budget."""
    script = Path(sys.executable).with_name("npudbg")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "npudbg --help": [str(script), "--help"],
        "npudbg --version": [str(script), "--version"],
        "npudbg run --help": [str(script), "run", "--help"],
        "npudbg explain T301": [str(script), "explain", "T301"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        seconds(command)  # compiled files and the page cache are warm from here on
    for _ in range(RUNS):
        for name, command in commands.items():
            times[name].append(seconds(command))
    medians = {name: statistics.median(each) for name, each in times.items()}
    base = medians["python -c pass"]
    for name, median in medians.items():
        print(f"{name:22} {median * 1000:7.1f} ms  {median / base:5.2f} x python -c pass")
    over = medians["npudbg --help"] / base > LIMIT
    print(f"budget of npudbg --help: {LIMIT:.0f} x  {'EXCEEDED' if over else 'kept'}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
