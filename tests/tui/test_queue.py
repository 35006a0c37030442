"""The DMA queue in the trace pane: every transfer, its descriptor, and the way back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_real import settle
from test_screen import LARGE, SIZES, SMALL, text_of

from npudbg.debugger.interpreter import Interpreter
from npudbg.render.transfer import alignment_lines, transfer_detail
from npudbg.session.commands import Kind, Space, Status
from npudbg.session.reader import Session
from npudbg.tui.app import make_screen, target_of
from npudbg.tui.application import NpudbgApp
from npudbg.tui.lineview import LineView

SESSIONS = Path(__file__).parents[2] / "sessions"


@pytest.fixture
def session():
    with Session.open(SESSIONS / "misaligned-dma.npudbg") as opened:
        yield opened


def transfers(session: Session) -> list[int]:
    return [
        int(row["seq"])
        for row in session.commands(0, session.n_commands)
        if row["kind"] in (Kind.DMA_LOAD, Kind.DMA_STORE) and row["status"] != Status.NOT_STARTED
    ]


async def to_queue(pilot, size) -> None:
    await settle(pilot)
    await pilot.press("3", *(["t"] if size == LARGE else ["t", "t"]))
    await settle(pilot)


@SIZES
async def test_the_queue_lists_every_transfer_with_its_descriptor(session, size):
    app = NpudbgApp(screen=make_screen(session))
    async with app.run_test(size=size) as pilot:
        await to_queue(pilot, size)
        screen = app.screen
        trace = screen.panes[3]
        view = trace.main
        wanted = transfers(session)
        assert view.has_focus
        assert [view.subject_at(n).seq for n in range(len(view.source))] == wanted
        await pilot.press("g", "down", "down")
        await settle(pilot)
        assert screen.port.seq == wanted[2]
        # What the debugger says of this transfer stands below, word for word.
        said = Interpreter(session, target_of(session)).execute(f"info dma {wanted[2]}")
        detail = trace.query_one("#trace-detail", LineView)
        rows = " ".join(r.text for r in detail.source.lines)
        for line in said[1:]:
            assert " ".join(line.text.split()) in " ".join(rows.split())
        for word in ("channel", "shape", "length", "bursts", "cycles", "align"):
            assert f"\n  {word}" in text_of(app) or f" {word} " in text_of(app), word
        for engine in {session.meta.engines[int(session.command(s)["engine"])] for s in wanted}:
            lines = trace.query_one("#queue-channels", LineView).source.lines
            assert any(row.text.startswith(engine) for row in lines)


async def test_the_descriptor_lies_below_at_80_and_beside_at_160_columns(session):
    for size, zoomed in ((SMALL, False), (LARGE, True)):
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await to_queue(pilot, size)
            if zoomed:
                await pilot.press("z")
                await settle(pilot)
            trace = app.screen.panes[3]
            where, detail = trace.main.region, trace.query_one("#trace-detail").region
            assert detail.width and detail.height
            assert where.right <= detail.x if zoomed else where.bottom <= detail.y
            view = trace.query_one("#trace-detail", LineView)
            room = view.scrollable_content_region.width
            assert max(len(row.text) for row in view.source.lines) <= room


async def test_commands_stand_beside_their_detail_when_zoomed(session):
    app = NpudbgApp(screen=make_screen(session))
    async with app.run_test(size=LARGE) as pilot:
        await settle(pilot)
        await pilot.press("3", "z", "g", "down", "down")
        await settle(pilot)
        assert "command 2 DMA_LOAD" in text_of(app)
        assert "1 descriptor" in text_of(app)
        await pilot.press("z")
        await settle(pilot)
        assert "1 descriptor" not in text_of(app)


@SIZES
async def test_enter_goes_to_the_command_and_its_memory(session, size):
    app = NpudbgApp(screen=make_screen(session))
    async with app.run_test(size=size) as pilot:
        await to_queue(pilot, size)
        await pilot.press("g", "down", "down", "down", "enter")
        await settle(pilot)
        trace = app.screen.panes[3]
        seq = transfers(session)[3]
        assert app.screen.port.seq == seq
        assert trace.main.id == "trace-commands" and trace.main.has_focus
        assert trace.main.index == seq
        assert f"memory sram as after command {seq}" in " ".join(text_of(app).split())


async def test_t_turns_memory_engines_queue_and_back(session):
    app = NpudbgApp(screen=make_screen(session))
    async with app.run_test(size=SMALL) as pilot:
        await settle(pilot)
        await pilot.press("3")
        seen = []
        for _ in range(4):
            await settle(pilot)
            shown = text_of(app)
            seen.append(
                "queue" if "longest" in shown else "memory" if " memory " in shown else "engines"
            )
            await pilot.press("t")
        assert seen == ["memory", "engines", "queue", "memory"]


async def test_stepping_and_searching_in_the_queue(session):
    app = NpudbgApp(screen=make_screen(session))
    async with app.run_test(size=LARGE) as pilot:
        await to_queue(pilot, LARGE)
        screen, view = app.screen, app.screen.panes[3].main
        await pilot.press("g", "s", "s", "s")
        await settle(pilot)
        wanted = transfers(session)
        upto = [s for s in wanted if s <= screen.port.seq]
        assert view.subject_at(view.index).seq == upto[-1]
        store = next(s for s in wanted if session.command(s)["kind"] == Kind.DMA_STORE)
        await pilot.press("g", "slash", *"STORE", "enter")
        await settle(pilot)
        assert screen.port.seq == store


async def test_a_session_without_commands_has_an_empty_queue(tmp_path, open_app):
    from npudbg.session.records import Meta
    from npudbg.session.writer import SessionWriter

    writer = SessionWriter(tmp_path / "empty.npudbg")
    writer.set_meta(Meta())
    writer.close()
    app = open_app(tmp_path / "empty.npudbg")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("3", "t", "t", "down", "enter", "t")
        await settle(pilot)
        assert app.is_running


def test_alignment_is_what_the_remainder_says(session):
    target = target_of(session)
    base, width = target.dma.base_alignment, target.memory.bank_bytes_per_cycle
    assert base == 65536
    seen = set()
    for seq in transfers(session):
        row = session.command(seq)
        text = [line.text for line in alignment_lines(session, row, target)]
        for name, word in (("src", "from"), ("dst", "to")):
            at, space = int(row[name]), int(row[f"{name}_space"])
            if space == Space.SRAM:
                bank = at // width % target.memory.sram_banks
                assert f"begins in bank {bank} of" in text[1]
            else:
                rest = at % base
                said = f"{word} ! {rest:#x} past a multiple" if rest else f"{word} a multiple of"
                assert said in text[0]
                seen.add(bool(rest))
    assert seen == {False}, "the recorded transfers are rounded down by the engine"
    moved = session.command(transfers(session)[1]).copy()
    moved["src"] += 0x5000
    (first, *_) = alignment_lines(session, moved, target)
    assert "from ! 0x5000 past a multiple of 64 KiB" in first.text
    kernel = next(r for r in session.commands(0, 99) if r["kind"] == Kind.KERNEL)
    assert alignment_lines(session, kernel, target) == []


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_a_transfer_in_full_fits_and_loses_nothing(session, width):
    target = target_of(session)
    context = Interpreter(session, target)
    for seq in transfers(session)[:12]:
        row = session.command(seq)
        said = context.execute(f"info dma {seq}")[1:]
        lines = transfer_detail(session, row, target, said, width)
        assert max(len(each.text) for each in lines) <= width
        whole = transfer_detail(session, row, target, said, 1000)
        # Wrapping may cut a word that is longer than a line, and loses none.
        assert "".join("".join(e.text for e in lines).split()) == "".join(
            "".join(e.text for e in whole).split()
        )


def test_reading_a_long_queue_is_quick(tmp_path):
    """A million commands: the queue is read once, and its lines are made when they are seen."""
    import time

    from npudbg.render.dma_channels import queue_of
    from npudbg.session.commands import COMMAND
    from npudbg.session.records import Meta
    from npudbg.session.writer import SessionWriter

    count = 1_000_000
    rows = np.zeros(count, COMMAND)
    rows["seq"] = np.arange(count)
    rows["kind"] = np.where(np.arange(count) % 3 == 2, Kind.KERNEL, Kind.DMA_LOAD)
    rows["start"], rows["end"] = np.arange(count) * 10, np.arange(count) * 10 + 9
    rows["nbytes"], rows["src_space"], rows["dst_space"] = 64, Space.DDR, Space.SRAM
    writer = SessionWriter(tmp_path / "long.npudbg")
    writer.set_meta(Meta(engines=("dma0",)))
    for at in range(0, count, 1 << 16):
        writer.append_commands(rows[at : at + (1 << 16)])
    writer.close()
    with Session.open(tmp_path / "long.npudbg") as session:
        begin = time.perf_counter()
        queue = queue_of(session, 0, count)
        took = time.perf_counter() - begin
    assert len(queue.channels[0].rows) == int((rows["kind"] == Kind.DMA_LOAD).sum())
    assert took < 10, took
