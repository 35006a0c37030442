"""Forks in the terminal: the panes follow the debugger to a fork and back."""

from __future__ import annotations

import contextlib

import pytest
from test_screen import LARGE, SIZES, SMALL, head, text_of

from npudbg.commands.demo import run_case
from npudbg.commands.forker import Device
from npudbg.session.commands import Kind
from npudbg.session.reader import Session
from npudbg.tui.app import make_screen
from npudbg.tui.application import NpudbgApp


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> bytes:
    path = run_case("clean", save=str(tmp_path_factory.mktemp("forks") / "run.npudbg")).path
    return path.read_bytes()


@pytest.fixture
def session(tmp_path, made):
    path = tmp_path / "run.npudbg"
    path.write_bytes(made)
    with Session.open(path) as opened:
        yield opened


@contextlib.contextmanager
def opened(session, forker=None):
    screen = make_screen(session, forker=forker or Device())
    with contextlib.closing(screen.port):
        yield NpudbgApp(screen=screen), screen


async def settle(pilot) -> None:
    for _ in range(6):
        await pilot.pause()


async def enter(pilot, text) -> None:
    """Type a line at the prompt, wherever one is."""
    await pilot.press("colon", *text, "enter", "escape")
    for _ in range(200):
        await settle(pilot)
        if not pilot.app.screen.changing:
            return
    raise AssertionError("the panes never came")


@SIZES
async def test_the_panes_go_to_the_fork_and_back(session, size):
    with opened(session) as (app, screen):
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await pilot.press("3")
            store = next(r for r in session.commands(0, 54) if r["kind"] == Kind.DMA_STORE)
            seq, place = int(store["seq"]), int(store["dst"])
            await enter(pilot, f"goto {seq}")
            await enter(pilot, "b /pool")
            before = session.path.read_bytes()
            await enter(pilot, f"set ddr:{place:#x} = f32:nan")
            # The same command, the fork's bytes, and its verdict.
            assert screen.port.seq == seq
            assert screen.session is screen.port.session is not session
            assert screen.selection.seq == seq
            assert f"cmd {seq}/53" in head(app) and "FORK 2" in head(app)
            # Nobody but the device itself is told of the poke, the memory pane shows it.
            view = screen.port.memory(int(store["dst_space"]), place, 4)
            assert view.data == b"\0\0\xc0\x7f"
            assert "00 00 C0 7F" in text_of(app).upper() or size == SMALL
            assert [p.session for p in screen.panes] == [screen.session] * len(screen.panes)
            await pilot.press("0")
            await settle(pilot)
            assert "AT FAULT: LAYER 3" in text_of(app)
            # Breakpoints stop in the fork; the prompt keeps its history.
            await pilot.press("3", "c")
            await settle(pilot)
            assert "STOP breakpoint 1" in head(app)
            assert screen.selection.node == session.node("/pool").index
            await pilot.press("colon", "up")
            assert screen.query_one("#prompt-input").value.startswith("set ddr:")
            await pilot.press("escape")
            await enter(pilot, "session 1")
            assert screen.session is session and screen.port.seq == seq
            assert "REPLAY" in head(app) and "FORK" not in head(app)
            await pilot.press("0")
            await settle(pilot)
            assert "NOTHING AT FAULT" in text_of(app)
            assert session.path.read_bytes() == before


async def test_keys_wait_while_the_panes_change(session):
    with opened(session) as (app, screen):
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            # Everything at once: what does not fit the moment is dropped, nothing breaks.
            await pilot.press("3", "colon", *"set fault hang:node=/fc", "enter", "escape")
            await pilot.press(*"snz4SucbtW", "w", "escape")
            await pilot.resize_terminal(*SMALL)
            await settle(pilot)
            await enter(pilot, "session 1")
            await pilot.press("c", "5", "0", "colon", *"session 2", "enter", *"session 1", "enter")
            await pilot.press(*"session 2", "enter", "escape", "g", "G", "enter")
            for _ in range(10):
                await settle(pilot)
            assert screen.session is screen.port.session is not session
            assert "FORK 2" in head(app)
