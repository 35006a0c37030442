"""One small session for all tests of the debugger."""

from __future__ import annotations

import pytest
from fake_device import build

from npudbg.debugger.interpreter import Interpreter
from npudbg.session.reader import Session


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return build(tmp_path_factory.mktemp("debugger") / "small.npudbg", seed=3)


@pytest.fixture
def session(made):
    with Session.open(made.path) as opened:
        yield opened


@pytest.fixture
def debugger(session):
    return Interpreter(session)


@pytest.fixture
def run(debugger):
    """Execute lines; return the text that the last one printed."""

    def execute(*texts):
        lines = []
        for text in texts:
            lines = debugger.execute(text)
            assert not debugger.failed, [each.text for each in lines]
        return "\n".join(each.text for each in lines)

    return execute


@pytest.fixture
def failed(debugger):
    """Execute a line that is a mistake; return what it printed."""

    def execute(text):
        lines = debugger.execute(text)
        assert debugger.failed, text
        return "\n".join(each.text for each in lines)

    return execute
