"""The program over real runs of the device, with the real debugger."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_screen import LARGE, SIZES, SMALL, head, text_of

from npudbg.session.reader import Session
from npudbg.tui.app import make_screen
from npudbg.tui.application import NpudbgApp


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    from npudbg.commands.demo import run_case

    folder = tmp_path_factory.mktemp("runs")
    return {
        name: run_case(name, save=str(folder / f"{name}.npudbg")).path
        for name in ("misaligned-dma", "fp16-overflow", "clean")
    }


async def settle(pilot) -> None:
    for _ in range(4):
        await pilot.pause()


@SIZES
async def test_the_misaligned_transfer_in_some_keys(runs, size):
    with Session.open(runs["misaligned-dma"]) as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            screen = app.screen
            assert "AT FAULT: LAYER 1 (HOST)" in text_of(app)
            await pilot.press("1")
            await settle(pilot)
            assert "DMA 64 KiB ! off by 0x5000" in text_of(app)
            # From the host's buffer to the transfer that went wrong, and its bytes.
            for _ in session.findings:
                await pilot.press("right_square_bracket")
                await settle(pilot)
                if session.findings[screen.selection.finding].code == "T302":
                    break
            await pilot.press("3")
            await settle(pilot)
            row = session.command(screen.port.seq)
            assert screen.session.findings[screen.selection.finding].code == "T302"
            assert int(row["src"]) == 0x12340000
            assert "0x12340000" in text_of(app)
            assert "NaN" in text_of(app)


@SIZES
async def test_the_overflow_is_at_the_cursor(runs, size):
    with Session.open(runs["fp16-overflow"]) as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            screen = app.screen
            found = session.findings[screen.selection.finding]
            assert found.code == "O401"
            assert screen.port.seq == found.subject.seq
            await pilot.press("3")
            await settle(pilot)
            assert "Inf" in text_of(app)
            # The bytes shown are those that the kernel wrote, as they lie in its tensor.
            row = session.command(screen.port.seq)
            space, address, size_ = int(row["dst_space"]), int(row["dst"]), int(row["nbytes"])
            view = screen.port.memory(space, address, size_)
            assert all(view.written) and set(view.writers.tolist()) == {screen.port.seq}


async def test_stepping_breaking_and_asking(runs):
    with Session.open(runs["clean"]) as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            screen, port = app.screen, app.screen.port
            await pilot.press("3", "g")
            await pilot.press("slash", *"/pool", "enter", "b", "g")
            await settle(pilot)
            assert port.seq == 0
            pool = session.node("/pool").index
            assert port.break_nodes() == {pool}
            await pilot.press("c")
            await settle(pilot)
            assert int(session.command(port.seq)["node"]) == pool
            assert "STOP breakpoint 1" in head(app)
            assert screen.selection.node == pool
            there = port.seq
            await pilot.press("s", "S")
            assert port.seq == there
            await pilot.press("n", "C")
            await settle(pilot)
            assert int(session.command(port.seq)["node"]) == pool
            await pilot.press("b")
            assert port.break_nodes() == frozenset()
            await pilot.press("colon", *"info fi", "tab", "enter")
            await settle(pilot)
            assert screen.query_one("#console-box").display
            await pilot.press(*"nonsense", "enter")
            await settle(pilot)
            assert any("nonsense" in row.text for row in screen.printed)
            await pilot.press("escape", "escape")


async def test_every_pane_of_every_run(runs):
    for path in runs.values():
        with Session.open(path) as session:
            app = NpudbgApp(screen=make_screen(session))
            async with app.run_test(size=SMALL) as pilot:
                for key in ("0", "1", "2", "3", "t", "plus", "minus", "4", "5", "u", "d", "6",
                            "right_square_bracket", "e", "escape", "w", "z", "z"):  # fmt: skip
                    await pilot.press(key)
                    await pilot.pause()
                assert app.is_running
