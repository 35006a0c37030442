"""Forks in the terminal: the panes follow the debugger to a fork and back."""

from __future__ import annotations

import contextlib
import threading

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
    """Type a line at the prompt and see it done."""
    # A run closes the prompt itself: there Esc would stop it.
    await pilot.press("colon", *text, "enter", *([] if text.startswith("set ") else ["escape"]))
    await ended(pilot)


async def until(pilot, holds) -> None:
    for _ in range(400):
        await pilot.pause(0.02)
        if holds():
            return
    raise AssertionError("it never came")


async def ended(pilot) -> None:
    """Wait until no run is under way and the panes are there."""
    screen = pilot.app.screen
    await until(pilot, lambda: screen.running is None and not screen.changing)
    await settle(pilot)


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
            await pilot.press("3", "colon", *"set fault hang:node=/fc", "enter")
            await pilot.press(*"snz4SucbtW", "w", *"zz")
            await pilot.resize_terminal(*SMALL)
            await ended(pilot)
            await enter(pilot, "session 1")
            await pilot.press("c", "5", "0", "colon", *"session 2", "enter", *"session 1", "enter")
            await pilot.press(*"session 2", "enter", "escape", "g", "G", "enter")
            await ended(pilot)
            assert screen.session is screen.port.session is not session
            assert "FORK 2" in head(app)


class Slow(Device):
    """The device, waiting at a node until it is let go."""

    def __init__(self, node: int = 6) -> None:
        super().__init__()
        self.node, self.at, self.go = node, threading.Event(), threading.Event()
        self.ended = threading.Event()

    def fork(self, session, changes, *, progress=None, cancel=None):
        def held(done, total, label):
            progress(done, total, label)
            if done == self.node:
                self.at.set()
                assert self.go.wait(30)

        try:
            return super().fork(session, changes, progress=held, cancel=cancel)
        finally:
            self.ended.set()


def keys(app) -> str:
    return text_of(app).split("\n")[-1]


def files(session) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in session.path.parent.iterdir()}


async def begun(pilot, slow, text="set fault hang:node=/fc") -> None:
    await settle(pilot)
    await pilot.press("3", "g", "colon", *text, "enter")
    await until(pilot, slow.at.is_set)
    await pilot.pause(0.3)


async def test_progress_stands_in_the_status_line_and_the_panes_stay_usable(session):
    slow = Slow()
    with opened(session, slow) as (app, screen):
        async with app.run_test(size=SMALL) as pilot:
            await begun(pilot, slow)
            assert "node 6/15 [" in keys(app) and "Esc stops" in keys(app)
            assert len(keys(app).rstrip()) <= 80
            before = screen.port.seq
            await pilot.press("s", "s", "b")
            await settle(pilot)
            assert screen.port.seq == before + 2 and "REPLAY" in head(app)
            assert "Esc stops" in keys(app) or "breakpoint" in keys(app)
            assert screen.port.break_nodes()
            # One run at a time.
            await pilot.press("colon", *"set sram:0x0 = 00", "enter")
            await settle(pilot)
            assert "a run is under way; Esc stops it" in keys(app)
            await pilot.press("escape")  # leaves the prompt alone
            assert screen.running is not None and not screen.running.cancel.is_set()
            slow.go.set()
            await ended(pilot)
            # Where one stood when it ended, with the breakpoint that was set meanwhile.
            assert "FORK 2" in head(app) and screen.port.seq == before + 2
            assert screen.port.break_nodes()
            assert "HUNG" in text_of(app) or screen.session.status == "hung"
            assert sorted(files(session)) == ["run.fork1.npudbg", "run.npudbg"]
            printed = [row.text for row in screen.printed]
            assert ": set fault hang:node=/fc" in printed
            assert any(text.startswith("session 2  fork of 1  hung") for text in printed)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_run_that_is_stopped_leaves_the_parent_as_it_was(session, key):
    slow = Slow()
    before = files(session)
    with opened(session, slow) as (app, screen):
        async with app.run_test(size=SMALL) as pilot:
            await begun(pilot, slow)
            seq = screen.port.seq
            assert any(name.endswith(".part") for name in files(session))  # it was writing
            await pilot.press(key)
            await settle(pilot)
            assert "stopping after this node" in keys(app)
            slow.go.set()
            await ended(pilot)
            assert slow.ended.is_set() and app.is_running
            assert "nothing of the run was kept" in keys(app)
            assert files(session) == before
            assert screen.session is session and screen.port.session is session
            assert screen.port.seq == seq and "REPLAY" in head(app)
            assert len(screen.port.sessions.all) == 1
            # The next one runs.
            await enter(pilot, "set fault hang:node=/fc")
            assert "FORK 2" in head(app)


async def test_leaving_stops_the_run(session):
    slow = Slow()
    before = files(session)
    with opened(session, slow) as (app, screen):
        async with app.run_test(size=SMALL) as pilot:
            await begun(pilot, slow)
            running = screen.running
            await pilot.press("q")
            await until(pilot, running.cancel.is_set)
            slow.go.set()
        assert slow.ended.wait(30)
    assert files(session) == before


async def test_what_cannot_run_says_why_and_stays(session):
    with opened(session) as (app, screen):
        async with app.run_test(size=SMALL) as pilot:
            await settle(pilot)
            await enter(pilot, "set fault nonsense")
            assert screen.session is session
            assert "nonsense" in keys(app)
            await enter(pilot, "set bogus = 1")
            assert "set what?" in keys(app)


async def test_a_run_may_end_below_the_help(session):
    slow = Slow()
    with opened(session, slow) as (app, screen):
        async with app.run_test(size=SMALL) as pilot:
            await begun(pilot, slow)
            await pilot.press("question_mark")
            await settle(pilot)
            slow.go.set()
            await until(pilot, lambda: screen.running is None)
            await settle(pilot)
            assert app.screen is not screen
            await pilot.press("escape")
            await ended(pilot)
            assert app.screen is screen and "FORK 2" in head(app)
            await pilot.press("n")
            await settle(pilot)
            assert screen.selection.seq == screen.port.seq
