"""Sessions made of random commands, so that a view can be held against brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from npudbg.session.commands import ACCESS, COMMAND, Kind, Space, Status
from npudbg.session.reader import Session
from npudbg.session.records import MemoryRegion, Meta, NodeRecord, TensorRecord
from npudbg.session.writer import SessionWriter

ENGINES = ("dma0", "dma1", "mac", "vec", "host")
SRAM_BYTES = 4096
HOSTILE = "\x1b[31m[red]\u202e" + "x" * 300
Make = Callable[..., Session]


def random_rows(rng: random.Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return commands and reads that keep the order of a real run and nothing else of it."""
    rows, reads = np.zeros(count, COMMAND), []
    free = dict.fromkeys(range(len(ENGINES)), 0)
    writes: list[int] = []
    for seq in range(count):
        row = rows[seq]
        kind = rng.choice((Kind.DMA_LOAD, Kind.DMA_LOAD, Kind.KERNEL, Kind.KERNEL, Kind.DMA_STORE))
        engine = rng.choice((0, 1)) if kind != Kind.KERNEL else rng.choice((2, 3))
        size = rng.choice((16, 64, 500, 1024, 1500))
        operands = rng.sample(writes[-6:], min(len(writes), 2)) if kind != Kind.DMA_LOAD else []
        ready = max((int(rows["end"][o]) for o in operands), default=0)
        start = max(free[engine], ready) + rng.choice((0, 0, 7))
        row["seq"], row["start"], row["end"] = seq, start, start + rng.randrange(1, 200)
        free[engine] = int(row["end"])
        row["kind"], row["engine"], row["nbytes"] = kind, engine, size
        row["node"], row["tensor"], row["tile"] = 0, rng.randrange(4), 0
        row["box"][:] = (0, 1)
        store = kind == Kind.DMA_STORE
        row["src_space"] = Space.DDR if kind == Kind.DMA_LOAD else Space.SRAM
        row["dst_space"] = Space.DDR if store else Space.SRAM
        row["dst"] = 0x4000_0000 if store else rng.randrange(0, SRAM_BYTES - size, 16)
        row["status"] = rng.choice([Status.OK] * 9 + [Status.FAULT])
        for number, by in enumerate(operands):
            operand = -1 if store else number
            moved = rng.randrange(1, size + 1) if store and number == 0 else 0
            size_read = moved if store else int(rows["nbytes"][by])
            reads.append(
                (seq, int(rows["dst"][by]), size_read, 0, operand, Space.SRAM, 0, by)
            )  # fmt: skip
        if not store:
            writes.append(seq)
    return rows, np.array(reads, ACCESS)


@pytest.fixture
def make_session(tmp_path: Path) -> Iterator[Make]:
    """A function from commands and reads to an open session."""
    opened: list[Session] = []

    def make(rows: np.ndarray, reads: np.ndarray, **more: object) -> Session:
        writer = SessionWriter(tmp_path / f"{len(opened)}.npudbg")
        region = MemoryRegion(space="sram", base=0, nbytes=SRAM_BYTES)
        toml = str(more.get("toml", ""))
        writer.set_meta(Meta(engines=ENGINES, regions=(region,), target_toml=toml))
        for number, name in enumerate((HOSTILE, "b", "c/d", "e")):
            writer.add_tensor(
                TensorRecord(id=number, name=name, role="activation", shape=(4, 4), dtype="<f4",
                             strides=(16, 4))
            )  # fmt: skip
        writer.add_node(NodeRecord(index=0, name=HOSTILE, op_type="Conv"))
        for record in more.get("tensors", ()):  # type: ignore[attr-defined]
            writer.add_tensor(record)
        for record in more.get("nodes", ()):  # type: ignore[attr-defined]
            writer.add_node(record)
        if len(rows):
            # In pieces, so that what a command reads can stand in another chunk.
            for at in range(0, len(rows), 4096):
                writer.append_commands(rows[at : at + 4096])
            writer.append_accesses(reads)
        writer.add_findings(more.get("findings", ()))  # type: ignore[arg-type]
        opened.append(Session.open(writer.close()))
        return opened[-1]

    yield make
    for session in opened:
        session.close()


@pytest.fixture
def random_session(make_session: Make) -> Callable[..., Session]:
    """A function from a seed and a number of commands to a session."""
    return lambda seed, count=60, **more: make_session(
        *random_rows(random.Random(seed), count), **more
    )
