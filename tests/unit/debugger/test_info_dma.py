"""info dma: descriptors of a real run against figures computed from its rows."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.teaching import CASES, load
from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory


def board(**dma):
    base = targets.load("generic-a57")
    return msgspec.structs.replace(
        base,
        memory=Memory(sram_bytes=16_384),
        operators=type(base.operators)(),
        dma=msgspec.structs.replace(base.dma, **dma),
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    graph, arrays = load(CASES["clean"])
    path = tmp_path_factory.mktemp("dma") / "s.npudbg"
    judged = judge_run(Job("clean", save=str(path)), graph, board(), arrays)
    with Session.open(judged.path) as opened:
        yield opened


def shown(session, text, target=None):
    return "\n".join(each.text for each in Interpreter(session, target or board()).execute(text))


def transfers(session):
    rows = session.commands(0, session.n_commands)
    return rows[(rows["kind"] == Kind.DMA_LOAD) | (rows["kind"] == Kind.DMA_STORE)]


def test_length_and_run_are_those_of_the_bytes_that_numpy_slices(session):
    seen = set()
    for row in transfers(session):
        if row["src_space"] == Space.HOST:
            continue
        tensor = session.tensors[int(row["tensor"])]
        item = np.dtype(tensor.dtype).itemsize
        index = np.arange(int(np.prod(tensor.shape, dtype=int))).reshape(tensor.shape)
        box = row["box"][: len(tensor.shape)]
        flat = index[tuple(slice(int(a), int(b)) for a, b in box)].ravel()
        breaks = np.flatnonzero(np.diff(flat) != 1)
        run = int(breaks[0]) + 1 if len(breaks) else flat.size
        text = shown(session, f"info dma {int(row['seq'])}")
        assert f"{flat.size * item:,} B, field {flat.size * item:#x} of 31 bits" in text
        bursts = flat.size // run * -(-run * item // 64)
        assert f"{bursts:,} of up to 64 B" in text
        seen.add(len(breaks) > 0)
    assert seen == {True, False}  # strided ones as well as contiguous ones


def test_the_parts_of_the_cycles_are_the_cycles_of_the_record(session):
    for row in transfers(session):
        text = shown(session, f"info dma {int(row['seq'])}")
        parts = [
            int(n.replace(",", ""))
            for n in re.findall(
                r"([\d,]+) = set-up ([\d,]+) \+ bursts ([\d,]+) \+ page splits ([\d,]+)", text
            )[0]
        ]
        assert parts[0] == sum(parts[1:]) == row["end"] - row["start"]
        assert "other" not in text
        assert "simulated" in text
        assert text.splitlines()[-1] in shown(session, f"info command {int(row['seq'])}")


def test_a_length_that_does_not_fit_is_shown_as_the_register_holds_it(session):
    row = next(r for r in transfers(session) if r["nbytes"] > 256)
    text = shown(session, f"info dma {int(row['seq'])}", board(length_bits=8))
    length, field = re.findall(r"length\s+([\d,]+) B, field (0x[0-9a-f]+)", text)[0]
    assert int(field, 16) == int(length.replace(",", "")) % 256
    assert "does not fit" in text


def test_other_commands_have_none(session):
    rows = session.commands(0, session.n_commands)
    kernel = int(rows["seq"][rows["kind"] == Kind.KERNEL][0])
    assert "has no DMA descriptor" in shown(session, f"info dma {kernel}")
    assert "set-up" not in shown(session, f"info command {kernel}")
    assert f"no command {len(rows)}" in shown(session, f"info dma {len(rows)}")
