from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from npudbg.tui import environment

environment.prepare()

import fake_session  # noqa: E402

from npudbg.session.reader import Session  # noqa: E402


@pytest.fixture(scope="session")
def session_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tui") / "det.npudbg"
    return fake_session.make(path, nodes=24, tiles=32, nan_node=18)


@pytest.fixture
def session(session_file):
    with Session.open(session_file) as opened:
        yield opened


@pytest.fixture(scope="session")
def hostile_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tui") / "hostile.npudbg"
    return fake_session.make(path, nodes=8, tiles=32, nan_node=6, hostile=True)


@pytest.fixture(scope="session")
def clean_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tui") / "clean.npudbg"
    return fake_session.make(path, nodes=8, tiles=32, nan_node=None)


@pytest.fixture
def open_app():
    """Return a function that opens the program over a session file."""
    from fake_debugger import FakeDebugger

    from npudbg.plugins import loading
    from npudbg.tui.app import target_of
    from npudbg.tui.application import NpudbgApp
    from npudbg.tui.screen import DebuggerScreen

    opened = []

    def make(path: Path, **more):
        session = Session.open(path)
        opened.append(session)
        screen = DebuggerScreen(
            session,
            more.pop("port", None) or FakeDebugger(session),
            target=target_of(session),
            plugins=loading.loaded(),
        )
        return NpudbgApp(screen=screen, **more)

    yield make
    for each in opened:
        each.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine test in a loop of its own (no plugin is needed for that)."""
    import asyncio
    import inspect

    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{n: pyfuncitem.funcargs[n] for n in names}))
    return True
