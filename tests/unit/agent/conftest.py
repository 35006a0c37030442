"""A folder with a model and programs, and a runtime directory of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import agent_programs as programs
import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder, made the current one; sockets lie in a directory with a short path."""
    runtime = Path("/tmp") / f"npudbg-test-{os.getpid()}-{time.monotonic_ns()}"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.chdir(tmp_path)
    programs.write(tmp_path, app=programs.APP, nan=programs.NAN_APP)
    yield tmp_path
    for left in sorted(runtime.rglob("*"), reverse=True):
        left.unlink() if not left.is_dir() else left.rmdir()
    runtime.rmdir()
