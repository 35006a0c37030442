"""Counters of a recorded run: how busy its engines and memories were."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Counter
from npudbg.targets.profile import Target

_CHUNK = 1 << 16


def counters(session: Session, target: Target) -> list[Counter]:
    """Return the counters that engineers look at first.

    * PE utilisation: multiply-accumulates over what the array could do in the
      cycles in which the run lasted.
    * DMA saturation: busy cycles of the busiest channel over the run's cycles.
    * SRAM bandwidth: bytes read and written in SRAM over what its banks deliver.
    * NoC congestion: cycles in which any channel holds the network between DDR, the
      channels and SRAM, set-up included, over the run's cycles.  Kernels reach SRAM
      through its banks and do not count: their part is SRAM bandwidth.
    * host share: cycles that operators on the CPU took.

    All are simulated (host share: estimated), as fractions of 1, beside totals.
    """
    cycles = session.n_cycles
    if not cycles:
        return []
    meta = session.meta
    busy = [0] * max(len(meta.engines), 1)
    kinds = dict.fromkeys(Kind, 0)
    sram_bytes = moved = 0
    held = np.empty((2, 0), np.int64)
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        length = rows["end"] - rows["start"]
        for engine in range(len(busy)):
            busy[engine] += int(length[rows["engine"] == engine].sum())
        for kind in Kind:
            kinds[kind] += int((rows["kind"] == kind).sum())
        moves = rows[(rows["kind"] == Kind.DMA_LOAD) | (rows["kind"] == Kind.DMA_STORE)]
        held = _union(np.concatenate([held, [moves["start"], moves["end"]]], axis=1))
        # A STORE's row spans its whole range in DDR; what it moves is what it reads in SRAM.
        reads = session.accesses(low, low + _CHUNK)
        reads = reads[reads["space"] == int(Space.SRAM)]
        stored = rows["kind"][reads["seq"] - low] == int(Kind.DMA_STORE)
        written = rows["nbytes"][rows["dst_space"] == int(Space.SRAM)]
        loaded = rows["nbytes"][rows["kind"] == int(Kind.DMA_LOAD)]
        sram_bytes += int(written.sum()) + int(reads["nbytes"].sum())
        moved += int(loaded.sum()) + int(reads["nbytes"][stored].sum())
    compute, memory = target.compute, target.memory
    width = compute.mac_cols_by_dtype.get(meta.precision, compute.mac_cols)
    macs = sum(n.macs for n in session.nodes)
    peak = cycles * compute.mac_rows * width * compute.mac_positions
    dma = [b for name, b in zip(meta.engines, busy, strict=False) if name.startswith("dma")]
    host = sum(b for name, b in zip(meta.engines, busy, strict=False) if name == "host")
    lanes = cycles * memory.sram_banks * memory.bank_bytes_per_cycle
    found = [
        _fraction("pe_utilisation", macs / peak, target),
        _fraction("dma_saturation", max(dma, default=0) / cycles, target),
        _fraction("noc_congestion", int((held[1] - held[0]).sum()) / cycles, target),
        _fraction("sram_bandwidth", sram_bytes / lanes, target),
        Counter(name="host_share", value=host / cycles, unit="fraction", origin="estimated"),
        Counter(name="cycles", value=cycles, unit="cycles"),
        Counter(name="macs", value=macs, unit="MAC"),
        Counter(name="dma_bytes", value=moved, unit="bytes"),
        Counter(name="kernels", value=kinds[Kind.KERNEL], unit="commands"),
        Counter(name="dma_commands", value=kinds[Kind.DMA_LOAD] + kinds[Kind.DMA_STORE],
                unit="commands"),
    ]  # fmt: skip
    return found


def _union(spans: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return starts and ends of the disjoint intervals that cover the same cycles."""
    start, end = spans[:, np.argsort(spans[0], kind="stable")]
    if not len(start):
        return spans
    until = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, start[1:] > until[:-1]))
    return np.array([start[first], until[np.append(first[1:], len(start)) - 1]])


def _fraction(name: str, value: float, target: Target) -> Counter:
    threshold = target.thresholds.get(name)
    if threshold is None:
        return Counter(name=name, value=value, unit="fraction")
    better, worse = (">", "<") if threshold.high_is_good else ("<", ">")
    return Counter(
        name=name,
        value=value,
        unit="fraction",
        healthy=f"{better} {threshold.healthy:.0%}",
        dangerous=f"{worse} {threshold.dangerous:.0%}",
    )
