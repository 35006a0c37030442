"""The two entries, the running screen, and the user's keymap."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.tui import environment, keymap
from npudbg.tui.application import NpudbgApp
from npudbg.tui.running import RunningScreen
from npudbg.tui.screen import DebuggerScreen


def over(path):
    from fake_debugger import FakeDebugger

    session = Session.open(path)
    return DebuggerScreen(session, FakeDebugger(session))


async def test_a_run_shows_progress_and_then_its_session(session_file):
    go = threading.Event()

    def runner(progress, cancel):
        progress(3, 24, "/backbone/[red]blocks.0[/]")
        assert go.wait(10)
        return session_file

    app = NpudbgApp(runner=runner, opened=over)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.2)
        assert isinstance(app.screen, RunningScreen)
        bar = app.screen.query_one("#progress")
        assert bar.line.text.startswith("node 3/24 [")
        assert "/backbone/[red]blocks.0[/]" in bar.line.text
        go.set()
        for _ in range(50):
            await pilot.pause(0.05)
            if isinstance(app.screen, DebuggerScreen):
                break
        await pilot.pause()
        assert app.screen.selection.finding == 2
    app.debugger.session.close()


async def test_a_run_can_be_cancelled(session_file):
    seen = []

    def runner(progress, cancel):
        seen.append(cancel.wait(10))
        return session_file

    for key in ("escape", "ctrl+c"):
        app = NpudbgApp(runner=runner, opened=over)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(key)
            for _ in range(50):
                await pilot.pause(0.05)
                if isinstance(app.screen, DebuggerScreen):
                    break
            assert isinstance(app.screen, DebuggerScreen)
        app.debugger.session.close()
    assert seen == [True, True]


@pytest.mark.parametrize("error", [UserError("m.onnx: no such file"), RuntimeError("oops")])
async def test_a_run_that_fails_ends_the_program_with_its_error(error):
    def runner(progress, cancel):
        raise error

    app = NpudbgApp(runner=runner, opened=over)
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(50):
            await pilot.pause(0.02)
            if not app.is_running:
                break
    assert app.failure is error


async def test_a_session_that_cannot_be_opened_ends_the_program(tmp_path):
    app = NpudbgApp(runner=lambda p, c: tmp_path / "none", opened=over)
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(50):
            await pilot.pause(0.02)
            if not app.is_running:
                break
    assert isinstance(app.failure, UserError)


async def test_progress_is_throttled(session_file):
    sent = []

    class Counting(RunningScreen):
        def post_message(self, message):
            if isinstance(message, RunningScreen.Step):
                sent.append(message.done)
            return super().post_message(message)

    done = threading.Event()

    def runner(progress, cancel):
        for number in range(10_000):
            progress(number, 10_000, "n")
        progress(10_000, 10_000, "n")
        done.set()
        cancel.wait(5)
        return session_file

    app = NpudbgApp(runner=runner, opened=over)
    app.get_default_screen = lambda: Counting(runner)
    async with app.run_test(size=(80, 24)) as pilot:
        await asyncio.to_thread(done.wait, 10)
        await pilot.pause()
        assert len(sent) < 50
        assert sent[-1] == 10_000
        await pilot.press("escape")
        await pilot.pause(0.2)
    app.debugger.session.close()


def test_no_terminal_gets_the_plain_report(session_file):
    code = "import sys, npudbg.tui.app as a; raise SystemExit(a.open_session(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(session_file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "AT FAULT: LAYER 4" in done.stdout
    assert not done.stderr


def test_environment():
    environ: dict[str, str] = {"SSH_CONNECTION": "a", "NO_COLOR": "1", "TEXTUAL_FPS": "7"}
    environment.prepare(environ)
    assert environ["TEXTUAL_ANIMATIONS"] == "none"
    assert environ["TEXTUAL_THEME"] == "ansi-dark"
    assert environ["TEXTUAL_FPS"] == "7"
    assert not environment.interactive({"TERM": "dumb"})
    assert not environment.interactive({})


@pytest.mark.parametrize(
    ("text", "word"),
    [("[keys]\nnonsense = 'x'", "nonsense"), ("[keys]\nstep = 3", "[keys] wants"),
     ("keys = 3", "[keys] wants"), ("=", "not readable"), ("\xff", "not readable"),
     ("x" * 70_000, "larger than")],
)  # fmt: skip
def test_a_bad_keymap_is_one_line(tmp_path, text, word):
    (tmp_path / "keymap.toml").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=word.replace("[", r"\[")) as error:
        keymap.user_keymap(tmp_path)
    assert "\n" not in str(error.value)


def test_a_good_keymap(tmp_path):
    assert keymap.user_keymap(tmp_path) == {}
    (tmp_path / "keymap.toml").write_text('[keys]\nstep = "x,f11"\n')
    assert keymap.user_keymap(tmp_path) == {"step": "x,f11"}


def test_the_footer_fits():
    for width in range(10, 200):
        text = keymap.footer(width).text
        assert len(text) <= max(width, 30)
        assert "?" in text
