"""Opens a session with the fake debugger on this terminal; for the pseudo-terminal tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from npudbg.tui import environment

environment.prepare()

from fake_debugger import FakeDebugger  # noqa: E402

from npudbg.session.reader import Session  # noqa: E402
from npudbg.tui.application import NpudbgApp  # noqa: E402
from npudbg.tui.screen import DebuggerScreen  # noqa: E402

session = Session.open(sys.argv[1])
NpudbgApp(screen=DebuggerScreen(session, FakeDebugger(session))).run()
