"""The first four steps of a tensor's life: allocate, fill, wrap, register."""

from __future__ import annotations

from typing import NamedTuple

from npudbg.render import numbers
from npudbg.render.life_facts import Facts, Mark
from npudbg.session.commands import Kind, Rows, Space
from npudbg.session.dtypes import NON_TENSOR, numpy_dtype
from npudbg.session.records import Stats, TensorRecord
from npudbg.session.text import safe


class Step(NamedTuple):
    """One step: what the record shows of it and whether that is in order.

    Attributes:
        name: What is done.
        mark: The judgement by the facts alone; findings may make it worse.
        texts: What the record shows, a line each.
        seq: A command to open, -1 for none.
    """

    name: str
    mark: Mark
    texts: tuple[str, ...]
    seq: int = -1


def allocate(facts: Facts) -> Step:
    """Where each copy lies and how it is aligned."""
    texts, marks = [], []
    for copy in facts.copies:
        if copy.address is None:
            continue
        text = (
            f"{safe(copy.space, 8)} {numbers.address(copy.address)}, "
            f"{numbers.nbytes(copy.base_nbytes)}, {copy.address_origin}"
        )
        rest, wanted = _alignment(facts, copy)
        if wanted and rest:
            text += f", {rest:#x} past a multiple of {numbers.nbytes(wanted)}"
        elif wanted:
            text += f", aligned to {numbers.nbytes(wanted)}"
        texts.append(text)
        marks.append("warn" if rest else "ok")
    if texts:
        return Step("allocate", "warn" if "warn" in marks else "ok", tuple(texts))
    made = facts.rows[(facts.rows["dst_space"] == Space.SRAM)]
    if not len(made):
        return Step("allocate", "not recorded", ("no address is in the record",))
    first = made[0]
    text = (
        f"not in ddr: kept in sram at {numbers.address(int(first['dst']))} "
        f"from command {int(first['seq'])} on"
    )
    return Step("allocate", "ok", (text,), int(first["seq"]))


def fill(facts: Facts) -> Step:
    """What the values are: of the host's array where there is one."""
    record = facts.host or facts.device or facts.asked
    made = facts.producer()
    if made is not None:
        by = f"by node {made.index} {safe(made.op_type, 24)} {safe(made.label, 60)}"
    else:
        by = {
            "weight": "from the model",
            "constant": "from the model",
            "input": "by the caller",
        }.get(record.role, "by nothing that is recorded")  # fmt: skip
    if record.dtype in NON_TENSOR:
        return Step("fill", "ok", (f"{by}: {safe(record.value, 120)}",))
    if record.stats is None:
        return Step("fill", "not recorded", (f"{by}; its values were not scanned",))
    text = f"{by}: {stats(record.stats)} ({record.origin})"
    return Step("fill", "warn" if record.stats.nonfinite else "ok", (text,))


def wrap(facts: Facts) -> Step:
    """What the array says of itself: type, shape, strides, owner."""
    record = facts.host or facts.device or facts.asked
    if record.dtype in NON_TENSOR:
        return Step("wrap", "ok", (f"a {safe(record.dtype, 16)}, no array",))
    text = f"{safe(record.dtype, 16)} {numbers.shape(record.shape)}"
    if record.layout:
        text += f" {safe(record.layout, 16)}"
    packed = _packed(record)
    if packed is None or (not record.strides and record.shape):
        return Step("wrap", "not recorded", (f"{text}; its strides are not in the record",))
    is_packed = _same_walk(record.shape, record.strides, packed)
    how = "contiguous" if is_packed else f"NOT contiguous, packed would be {list(packed)}"
    second = f"offset {record.offset} in its buffer of {numbers.nbytes(record.base_nbytes)}"
    texts = (
        f"{text}, strides {list(record.strides)}: {how}",
        f"{second}, owner {safe(record.owner, 40)}",
    )
    return Step("wrap", "ok" if is_packed else "warn", texts)


def register(facts: Facts) -> Step:
    """Who sees whose bytes: coherency and cache maintenance."""
    rows = facts.rows
    flushes = rows[(rows["kind"] == Kind.FLUSH) & (rows["dst_space"] != Space.DDR)]
    late = rows[(rows["kind"] == Kind.FLUSH) & (rows["dst_space"] == Space.DDR)]
    texts = [_maintained("FLUSH", flushes)] if len(flushes) else []
    if len(late):
        texts.append(_maintained("dirty lines written back by", late))
    coherent = facts.target.cache.coherent if facts.target is not None else None
    seq = int(flushes["seq"][0]) if len(flushes) else -1
    if coherent:
        return Step("register", "not needed", ("the target is coherent", *texts), seq)
    if coherent is None:
        why = "the profile does not say whether the target is coherent"
        return Step("register", "ok" if texts else "not recorded", (why, *texts), seq)
    texts.insert(0, "the target is not coherent")
    unflushed = _unflushed(facts, flushes)
    if unflushed >= 0:
        texts.append(f"command {unflushed} reads what the host wrote, and no FLUSH came before")
        return Step("register", "broken", tuple(texts), unflushed)
    if texts[1:]:
        return Step("register", "ok", tuple(texts), seq)
    if facts.host is not None or facts.asked.role in ("weight", "constant"):
        return Step("register", "not recorded", (*texts, "no FLUSH of it is in the record"))
    return Step("register", "not needed", (*texts, "written by the device itself: no FLUSH"))


def stats(seen: Stats) -> str:
    """Return what a scan saw in one line."""
    text = f"min {numbers.value(seen.min)} max {numbers.value(seen.max)}"
    text += f" mean {numbers.value(seen.mean)} std {numbers.value(seen.std)}"
    for count, what in (
        (seen.nan, "NaN"), (seen.pos_inf, "+Inf"), (seen.neg_inf, "-Inf"), (seen.zeros, "zeros"),
    ):  # fmt: skip
        if count:
            text += f", {count:,} {what}"
    return f"{text} of {seen.count:,}"


def _unflushed(facts: Facts, flushes: Rows) -> int:
    """Return the first transfer of bytes that the CPU wrote and nobody flushed, or -1."""
    rows = facts.rows
    loads = rows[rows["kind"] == Kind.DMA_LOAD]
    by_cpu = rows["seq"][(rows["kind"] == Kind.HOST) & (rows["node"] >= 0)]
    written = int(by_cpu[-1]) if len(by_cpu) else -1
    needs = loads["src_space"] == Space.HOST
    if written >= 0:
        needs |= (loads["src_space"] == Space.DDR) & (loads["seq"] > written)
    if not needs.any():
        return -1
    first = int(loads["seq"][needs][0])
    flushed = (flushes["seq"] < first) & (flushes["seq"] > written)
    return -1 if flushed.any() else first


def _maintained(what: str, rows: Rows) -> str:
    which = f"command {int(rows['seq'][0])}"
    if len(rows) > 1:
        which = f"{len(rows):,} commands {int(rows['seq'][0])}..{int(rows['seq'][-1])}"
    return f"{what} {which}, {numbers.nbytes(int(rows['nbytes'].sum()))}"


def _alignment(facts: Facts, copy: TensorRecord) -> tuple[int, int]:
    """Return by how much a copy is off, and the alignment that the profile wants of it."""
    if facts.target is None or copy.address is None:
        return 0, 0
    wanted = max(facts.target.dma.base_alignment or 0, facts.target.tensor.base_alignment or 0)
    if facts.target.dma.base_alignment and facts.target.tensor.base_alignment:
        # Both hold: the one that is missed is told.
        for each in (facts.target.dma.base_alignment, facts.target.tensor.base_alignment):
            if copy.address % each:
                return copy.address % each, each
    return (copy.address % wanted if wanted else 0), wanted


def _packed(record: TensorRecord) -> tuple[int, ...] | None:
    try:
        step = numpy_dtype(record.dtype).itemsize
    except (TypeError, ValueError):
        return None
    strides = []
    for size in reversed(record.shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _same_walk(shape: tuple[int, ...], strides: tuple[int, ...], packed: tuple[int, ...]) -> bool:
    """Whether strides lead to the same bytes: those of axes of one element do not count."""
    if len(strides) != len(shape):
        return False
    return 0 in shape or all(
        n == 1 or a == b for n, a, b in zip(shape, strides, packed, strict=True)
    )
