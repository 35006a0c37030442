"""The last three steps of a tensor's life: DMA, bind, execute and synchronise."""

from __future__ import annotations

import numpy as np

from npudbg.render import numbers
from npudbg.render.dma_channels import merged
from npudbg.render.life_facts import Facts, Mark
from npudbg.render.life_host import Step, stats
from npudbg.session.commands import Kind, Rows, Space, Status, space_name
from npudbg.session.dtypes import NON_TENSOR, numpy_dtype
from npudbg.session.text import safe

_MOST_NODES = 6
_MOST_READS = 512
_BAD = (Status.HUNG, Status.FAULT, Status.TOUCHED, Status.NOT_STARTED)
_WORDS = {
    Status.HUNG: "started and never ended",
    Status.FAULT: "was refused by the hardware",
    Status.TOUCHED: "moved or made bytes that an injection had changed",
    Status.NOT_STARTED: "never started",
}


def dma(facts: Facts) -> Step:
    """What moved it, between which memories, at what cost."""
    rows = facts.rows
    kinds = (rows["kind"] == Kind.DMA_LOAD) | (rows["kind"] == Kind.DMA_STORE)
    copied = (rows["kind"] == Kind.HOST) & (rows["node"] < 0)
    moves = rows[kinds | copied]
    if not len(moves):
        if len(rows):
            return Step("DMA", "not needed", ("no transfer: made and read in sram",))
        return Step("DMA", "not recorded", ("no transfer of it is in the record",))
    texts = []
    pairs = np.stack((moves["src_space"], moves["dst_space"]), axis=1)
    for src, dst in np.unique(pairs, axis=0).tolist():
        mine = moves[(moves["src_space"] == src) & (moves["dst_space"] == dst)]
        by = "the CPU" if int(mine["kind"][0]) == Kind.HOST else "DMA"
        texts.append(f"{space_name(src)} → {space_name(dst)} by {by}: {_cost(mine)}")
    if facts.host is not None and facts.device is not None and facts.device.stats is not None:
        seen = facts.device.stats
        if facts.host.stats is None or seen != facts.host.stats:
            texts.append(f"on the device: {stats(seen)} ({facts.device.origin})")
    return _step("DMA", moves, texts)


def bind(facts: Facts) -> Step:
    """Which kernels read it, as which operand, and what they expect."""
    texts: list[str] = []
    mark: Mark = "ok"
    record = facts.host or facts.device or facts.asked
    meta = facts.session.meta
    contracts = (*meta.model.inputs, *meta.model.outputs) if meta.model is not None else ()
    contract = next((c for c in contracts if c.name == facts.name), None)
    if contract is not None:
        texts.append(
            f"the model declares {safe(contract.dtype, 16)} {numbers.shape(contract.shape)}"
        )
        # What the device makes has the device's type: only what is given can disagree.
        if facts.host is not None and not _agrees(
            contract.dtype, contract.shape, record.dtype, record.shape
        ):
            texts[-1] += f", given {safe(record.dtype, 16)} {numbers.shape(record.shape)}"
            mark = "warn"
    readers = facts.consumers()
    numbers_of = {t.id for t in facts.copies}
    for node in readers[:_MOST_NODES]:
        operands = [str(i) for i, t in enumerate(node.inputs) if t in numbers_of]
        bad = node.status in ("failed", "not-run", "hung")
        texts.append(
            f"operand {', '.join(operands) or '?'} of node {node.index} "
            f"{safe(node.op_type, 24)} {safe(node.label, 40)}: {safe(node.kernel, 24) or '-'} on "
            f"{safe(node.engine, 12)}{f', {safe(node.status, 12)}' if bad else ''}"
        )
    if len(readers) > _MOST_NODES:
        texts.append(f"… {len(readers) - _MOST_NODES:,} more nodes")
    if not readers:
        end = "by the host" if record.role == "output" else "by no node"
        texts.append(f"read {end}")
    elif facts.target is not None:
        texts.append(_expected(facts))
    return Step("bind", mark if readers or contract else "not needed", tuple(texts))


def execute(facts: Facts) -> Step:
    """Which commands made and read it, and whether the host waited before reading."""
    rows, reads = facts.rows, facts.reads
    made = rows[(rows["kind"] == Kind.KERNEL) | ((rows["kind"] == Kind.HOST) & (rows["node"] >= 0))]
    texts = [f"made by {_cost(made)}"] if len(made) else []
    used = np.unique(reads["seq"][reads["operand"] >= 0])
    if len(used):
        texts.append(f"read as an operand by {_range(used)}")
    waited, mark, seq = _synchronised(facts)
    if waited:
        texts.append(waited)
    if not texts:
        return Step("execute, synchronise", "not recorded", ("no command made or read it",))
    step = _step("execute, synchronise", made, texts)
    return step._replace(mark=mark, seq=seq) if mark == "broken" else step


def _synchronised(facts: Facts) -> tuple[str, Mark, int]:
    """Return how the host's reading of it was held back until the device had ended."""
    session, rows = facts.session, facts.rows
    stores = rows[(rows["kind"] == Kind.DMA_STORE) & (rows["status"] != Status.NOT_STARTED)]
    if not len(stores):
        return "", "ok", -1
    early = _read_early(facts)
    if early >= 0:
        return f"command {early} (the CPU) reads it and no WAIT came between", "broken", early
    if facts.asked.role != "output" and facts.back is None:
        return "", "ok", -1
    end, last = int(stores["end"].max()), int(stores["seq"].max())
    after = facts.waits[facts.waits[:, 1] >= end]
    if len(after):
        text = f"the host waited until cycle {int(after[:, 1].min()):,}"
        return text + _dropped(facts, last), "ok", -1
    if len(facts.lost):
        seq = int(facts.lost[0])
        return f"the host's WAIT (command {seq}) never ended", "broken", seq
    if session.status != "complete":
        return "the record ends before the host's WAIT", "ok", -1
    return "the host reads it, and no WAIT follows its last store", "broken", last


def _dropped(facts: Facts, last: int) -> str:
    """Return what became of the CPU's cache lines over an output."""
    rows = facts.rows
    dropped = rows[(rows["kind"] == Kind.INVALIDATE) & (rows["seq"] > last)]
    if len(dropped):
        return f", INVALIDATE by command {int(dropped['seq'][0])}"
    if facts.target is not None and facts.target.cache.coherent is False:
        return "; NO INVALIDATE followed on a target that is not coherent"
    return ""


def _read_early(facts: Facts) -> int:
    """Return the first CPU operator that read what a DMA stored without a WAIT between, or -1."""
    session, reads = facts.session, facts.reads
    stores = facts.rows[facts.rows["kind"] == Kind.DMA_STORE]
    by_store = reads[(reads["space"] == Space.DDR) & np.isin(reads["by"], stores["seq"])]
    by_store = by_store[by_store["operand"] >= 0]
    ends = np.sort(facts.waits[:, 1])
    for read in by_store[:_MOST_READS]:
        row = session.command(int(read["seq"]))
        if int(row["kind"]) != Kind.HOST:
            continue
        stored = int(stores["end"][stores["seq"] <= int(read["seq"])].max())
        at = int(np.searchsorted(ends, stored))
        if at == len(ends) or ends[at] > int(row["start"]):
            return int(read["seq"])
    return -1


def _step(name: str, rows: Rows, texts: list[str]) -> Step:
    """Return a step that is broken where a command of it did not end well."""
    bad = rows[np.isin(rows["status"], _BAD)]
    if not len(bad):
        return Step(name, "ok", tuple(texts), int(rows["seq"][0]) if len(rows) else -1)
    for row in bad[:3]:
        texts.append(f"command {int(row['seq'])} {_WORDS[Status(int(row['status']))]}")
    if len(bad) > 3:
        texts.append(f"… {len(bad) - 3:,} more of them")
    return Step(name, "broken", tuple(texts), int(bad["seq"][0]))


def _cost(rows: Rows) -> str:
    start, end = merged(rows["start"], rows["end"])
    busy = int((end - start).sum())
    moved = numbers.nbytes(int(rows["nbytes"].sum()))
    return f"{_range(rows['seq'])}, {moved}, {numbers.cycles(busy)}"


def _range(seqs: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    if len(seqs) == 1:
        return f"command {int(seqs[0])}"
    return f"{len(seqs):,} commands {int(seqs[0])}..{int(seqs[-1])}"


def _expected(facts: Facts) -> str:
    assert facts.target is not None
    wanted = facts.target.tensor
    layout = wanted.native_layout or ", ".join(wanted.layouts[:4])
    shown = f"the target expects {safe(layout, 24)}" if layout else "the profile names no layout"
    return f"{shown}; computed in {safe(facts.session.meta.precision, 8)}"


def _agrees(
    declared: str,
    dims: tuple[int | str | None, ...] | None,
    dtype: str,
    shape: tuple[int, ...],
) -> bool:
    if declared not in NON_TENSOR and dtype not in NON_TENSOR:
        try:
            if numpy_dtype(declared) != numpy_dtype(dtype):
                return False
        except (TypeError, ValueError):
            return declared == dtype
    if dims is None:
        return True
    if len(dims) != len(shape):
        return False
    return all(not isinstance(d, int) or d == n for d, n in zip(dims, shape, strict=True))
