"""Scans of 64 Mi elements as ratios to reading the same bytes (`view(int64).sum()`).

One thread; processor time of this thread, best of several, taken in turn so that
both see the same machine.  Peak extra memory by tracemalloc, which NumPy reports to.

Run: python tests/benchmarks/bench_scan.py [dtype ...]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from npudbg.session.scan import scan, scan_fast, scan_histogram, scan_limits

ELEMENTS = 1 << 26
ROUNDS = 5
DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float64": np.float64,
    "int8": np.int8,
    "int32": np.int32,
}


def tensor(dtype: Any) -> np.ndarray[Any, Any]:
    """Return normally distributed elements (integers: of deviation 30)."""
    rng = np.random.default_rng(0)
    out = np.empty(ELEMENTS, dtype)
    step = 1 << 20
    factor = 30 if np.dtype(dtype).kind in "iu" else 1
    for at in range(0, ELEMENTS, step):
        out[at : at + step] = (rng.standard_normal(step, dtype=np.float32) * factor).astype(dtype)
    return out


def seconds(call: Callable[[], object]) -> float:
    """Return this thread's processor time of one call."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def main(names: list[str]) -> int:
    """Print a line a dtype."""
    print(
        f"{'dtype':15} {'limits':>7} {'+range':>7} {'+zeros':>7} {'full':>7} {'+hist':>7} "
        f"{'extra MB':>9}"
    )
    for name in names or DTYPES:
        array = tensor(DTYPES[name])
        words = array.view(np.int64)
        calls: list[Callable[[], object]] = [
            lambda words=words: words.sum(),
            lambda array=array: scan_limits(array),
            lambda array=array: scan_fast(array, zeros=False),
            lambda array=array: scan_fast(array),
            lambda array=array: scan(array),
            lambda array=array: scan_histogram(array),
        ]
        best = [float("inf")] * len(calls)
        for _ in range(ROUNDS):
            for n, call in enumerate(calls):
                best[n] = min(best[n], seconds(call))
        tracemalloc.start()
        scan_histogram(array)
        extra = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        ratios = " ".join(f"{t / best[0]:7.2f}" for t in best[1:])
        print(f"{name:15} {ratios} {extra:9.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
