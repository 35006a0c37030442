"""Watchpoints on records of the device: written, changed and read, forward and in reverse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_debugger_set import said
from test_debugger_stops import stops

from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind, Space, Status, box_slices
from npudbg.session.reader import Session

SAVED = Path(__file__).parents[3] / "sessions"


@pytest.fixture
def poisoned() -> Iterator[Session]:
    """Every tensor is NaN from the first layer on: activations write NaN over NaN, in place."""
    with Session.open(SAVED / "misaligned-dma.npudbg") as session:
        yield session


@pytest.fixture
def clean() -> Iterator[Session]:
    with Session.open(SAVED / "clean.npudbg") as session:
        yield session


def written(session: Session, low: int, high: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield the commands that write into a range of SRAM: new bytes, and old if known.

    By replaying every command from the first one, in a plain array.
    """
    memory = np.zeros(1 << 20, np.uint8)
    known = np.zeros(1 << 20, bool)
    for row in session.commands(0, session.n_commands):
        done = int(row["status"]) in (Status.OK, Status.TOUCHED)
        if int(row["dst_space"]) != Space.SRAM or not done:
            continue
        data = session.payload(int(row["seq"]))
        if data is None:
            array = session.array(session.tensors[int(row["tensor"])])
            data = np.ascontiguousarray(array[box_slices(row, array.ndim)]).tobytes()
        at = int(row["dst"])
        before = memory[low:high].tobytes() if known[low:high].all() else None
        memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
        known[at : at + len(data)] = True
        if at < high and at + len(data) > low:
            yield int(row["seq"]), memory[low:high].tobytes(), before


def both_ways(session: Session, text: str) -> list[int]:
    """Return where a watchpoint stops; the same forward and backward, but for the ends."""
    debugger = Interpreter(session)
    said(debugger, text)
    assert not debugger.failed, text
    forward, backward = stops(debugger, "c", "start"), stops(debugger, "rc", "end")
    last = debugger.context.cursor.last
    assert [s for s in forward if s < last] == [s for s in reversed(backward) if s]
    return forward


PLACES = [2048, 2048 + 25600 - 16, 26496, 896, 51200, 0x100, 0]


@pytest.mark.parametrize("low", PLACES)
def test_a_write_of_the_same_bytes_is_no_change(poisoned: Session, low: int) -> None:
    found = [each for each in written(poisoned, low, low + 16) if each[0] > 0]
    assert both_ways(poisoned, f"watch -w sram:{low:#x}+16") == [seq for seq, _, _ in found]
    changed = [seq for seq, new, old in found if new != old]
    assert both_ways(poisoned, f"watch sram:{low:#x}+16") == changed


def test_the_places_hold_what_the_test_needs(poisoned: Session) -> None:
    same = [seq for low in PLACES for seq, new, old in written(poisoned, low, low + 16)
            if new == old]  # fmt: skip
    assert len(same) >= 4


def test_old_and_new_are_shown_both_ways(poisoned: Session) -> None:
    debugger = Interpreter(poisoned)
    seq, new, old = next(e for e in written(poisoned, 2048, 2052) if e[1] == e[2])
    assert new == old
    text = new.hex(" ")
    for start, verb in ((f"goto {seq - 1}", "c"), (f"goto {seq + 1}", "rc")):
        said(debugger, "delete")
        said(debugger, "watch -w sram:0x800+4")
        said(debugger, start)
        out = said(debugger, verb)
        assert debugger.seq == seq
        assert f"(0x00000800: {text} -> {text} (4 bytes written, the same))" in out
    # The write before it made other bytes: told as such by both kinds.
    first, made, was = next(e for e in written(poisoned, 2048, 2052) if e[2] and e[1] != e[2])
    for word in ("watch", "watch -w"):
        said(debugger, "delete")
        said(debugger, f"{word} sram:0x800+4")
        said(debugger, f"goto {first + 1}")
        out = said(debugger, "rc")
        assert debugger.seq == first
        differ = [i for i in range(4) if made[i] != was[i]]
        at = differ[0]
        assert (
            f"{0x800 + at:#010x}: {was[at:].hex(' ')} -> {made[at:].hex(' ')} "
            f"({len(differ)} of 4 bytes)"
        ) in out


def test_reads_show_what_was_read(clean: Session) -> None:
    low = 0x800
    want = []
    for read in clean.accesses(0, clean.n_commands):
        inside = int(read["addr"]) < low + 4 and int(read["addr"]) + int(read["nbytes"]) > low
        if int(read["space"]) == Space.SRAM and inside:
            want.append(int(read["seq"]))
    assert both_ways(clean, "rwatch sram:0x800+4") == sorted(set(want))
    # What a reader saw is what the newest writer before it had left.
    debugger = Interpreter(clean)
    said(debugger, "rwatch sram:0x800+4")
    said(debugger, "start")
    for seq in sorted(set(want)):
        out = said(debugger, "c")
        assert debugger.seq == seq
        held = [new for at, new, _ in written(clean, low, low + 4) if at < seq][-1]
        assert f"(read {held.hex(' ')})" in out


def of(session: Session, name: str, kind: Kind) -> list[Any]:
    rows = session.commands(0, session.n_commands)
    number = session.tensor(name).id
    return list(rows[(rows["tensor"] == number) & (rows["kind"] == kind)])


def test_a_tensor_is_written_again_by_the_transfer_that_carries_it(clean: Session) -> None:
    name = "scores"
    kernel, store = of(clean, name, Kind.KERNEL)[0], of(clean, name, Kind.DMA_STORE)[0]
    makes, carries = int(kernel["seq"]), int(store["seq"])
    assert both_ways(clean, f"watch {name}") == [makes]
    assert both_ways(clean, f"watch -w {name}") == [makes, carries]
    value = clean.array(clean.tensor(name)).reshape(-1)
    debugger = Interpreter(clean)
    said(debugger, f"watch -w {name}")
    said(debugger, "end")
    out = said(debugger, "rc")
    first, size = f"{float(value[0]):.9g}", value.size
    assert debugger.seq == carries
    assert f"[0,0]: {first} -> {first} ({size} of {size} written, the same)" in out
    out = said(debugger, "rc")
    assert debugger.seq == makes
    assert f"[0,0]: not written -> {first} ({size} of {size} elements)" in out
    # A single element, and a slice that begins elsewhere.
    said(debugger, "delete")
    said(debugger, f"watch -w {name}[0,3]")
    said(debugger, f"watch -w {name}[0,2:9:3]")
    said(debugger, "end")
    out = said(debugger, "rc")
    third, second = f"{float(value[3]):.9g}", f"{float(value[2]):.9g}"
    assert f"{name}[0,3] ({third} -> {third} (written, the same))" in out
    assert f"([0,2]: {second} -> {second} (3 of 3 written, the same))" in out


def test_a_tensors_reader_shows_the_values(clean: Session) -> None:
    value = clean.array(clean.tensor("logits")).reshape(-1)
    debugger = Interpreter(clean)
    said(debugger, "rwatch logits[0,1:3]")
    said(debugger, "end")
    out = said(debugger, "rc")
    assert f"(read {float(value[1]):.9g}, {float(value[2]):.9g})" in out
    said(debugger, "delete")
    said(debugger, "rwatch logits")
    said(debugger, "end")
    shown = ", ".join(f"{float(v):.9g}" for v in value[:4])
    assert f"(read {shown}, … ({value.size} elements))" in said(debugger, "rc")


def test_its_words(clean: Session) -> None:
    debugger = Interpreter(clean)
    assert said(debugger, "watch -w -l sram:0x100+8") == "watch -w 1: sram:0x00000100+8"
    assert (
        said(debugger, "watch -location -write scores")
        == "watch -w 2: ddr:"
        + said(debugger, "info tensor scores").partition("ddr:")[2].split()[0]
        + f"+{clean.tensor('scores').base_nbytes}"
    )
    assert "rwatch takes no -w" in said(debugger, "rwatch -w scores")
    assert debugger.failed
    assert "watch -w what?" in said(debugger, "watch -w")
    assert "use watch -w" in said(debugger, "watch sram:0x0+100000")
    assert said(debugger, "watch -w sram:0x0+100000") == "watch -w 3: sram:0x00000000+100000"
    assert debugger.completions("watch -w -l sco") == ["watch -w -l scores"]
    assert "of the same bytes too" in said(debugger, "help watch")
    assert "  1 watch -w   sram" in said(debugger, "info watchpoints")
