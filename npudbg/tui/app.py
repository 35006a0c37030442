"""The TUI's two entries.  Importing this module does not import Textual."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.session.reader import Session
from npudbg.tui import environment

if TYPE_CHECKING:
    from npudbg.debugger.forks import Forker
    from npudbg.tui.port import Live
    from npudbg.tui.running import Runner
    from npudbg.tui.screen import DebuggerScreen


def open_session(
    session: Session | Path | str,
    *,
    live: Live | None = None,
    files: Sequence[str] = (),
    forker: Forker | None = None,
) -> int:
    """Open a session in the TUI; the plain report where the terminal cannot show one.

    Args:
        session: A session, or its file.
        live: The running program behind it, if there is one.
        files: Further files for plugins' panels.
        forker: Does a session's run again, for the verb ``set``.

    Returns:
        The exit code: 1 if the session holds a finding of severity error, else 0.

    Raises:
        UserError: The session cannot be read.
    """
    opened = session if isinstance(session, Session) else Session.open(session)
    try:
        if not environment.interactive():
            print_report(opened)
        else:
            environment.prepare()
            from npudbg.tui import keymap
            from npudbg.tui.application import NpudbgApp

            screen = make_screen(opened, live=live, files=tuple(files), forker=forker)
            with contextlib.closing(screen.port):
                _run(NpudbgApp(screen=screen, keys=keymap.user_keymap()))
        return exit_code(opened)
    finally:
        if opened is not session:
            opened.close()


def open_run(runner: Runner, *, files: Sequence[str] = (), forker: Forker | None = None) -> int:
    """Run a job on a progress screen, then debug what it recorded.

    Args:
        runner: Called as ``runner(progress, cancel)`` in a thread of its own, with
            ``progress(done, total, label)`` and a :class:`threading.Event`; returns
            the session's path.
        files: Further files for plugins' panels.
        forker: As for :func:`open_session`.

    Returns:
        The exit code, as :func:`open_session`.

    Raises:
        UserError: The run failed for a reason of the user's.
    """
    environment.prepare()
    from npudbg.tui import keymap
    from npudbg.tui.application import NpudbgApp

    recorded: list[Session] = []

    def opened(path: Any) -> DebuggerScreen:
        recorded.append(Session.open(path))
        return make_screen(recorded[0], files=tuple(files), forker=forker)

    app = NpudbgApp(runner=runner, opened=opened, keys=keymap.user_keymap())
    _run(app)
    if app.failure is not None:
        raise app.failure
    if app.debugger is None:
        return 130
    app.debugger.port.close()
    with recorded[0] as session:
        return exit_code(session)


def make_screen(
    session: Session,
    *,
    live: Live | None = None,
    files: tuple[str, ...] = (),
    forker: Forker | None = None,
) -> DebuggerScreen:
    """Return the debugger's screen over an open session."""
    from npudbg.plugins import loading
    from npudbg.tui.interpreter_port import InterpreterPort
    from npudbg.tui.screen import DebuggerScreen

    target = target_of(session)
    port = InterpreterPort(session, target=target, live=live, forker=forker)
    return DebuggerScreen(session, port, target=target, plugins=loading.loaded(), files=files)


def target_of(session: Session) -> Any:
    """Return the profile that the session carries; None if there is none (or it is damaged)."""
    from npudbg.session.errors import UserError

    if not session.meta.target_toml:
        return None
    from npudbg.targets.loader import load_toml_text

    try:
        return load_toml_text(session.meta.target_toml, session.meta.target)
    except UserError:
        return None


def print_report(session: Session) -> None:
    """Print the plain report."""
    from npudbg.render.plain import text_of
    from npudbg.render.report import report_lines

    lines = report_lines(session, path=session.path)
    sys.stdout.write(text_of(lines, sys.stdout.encoding))


def exit_code(session: Session) -> int:
    """Return 1 if a finding is an error, else 0."""
    return int(any(f.severity == "error" for f in session.findings))


def _run(app: Any) -> None:
    # The mouse is of use in lists; everything has a key, too.
    app.run(mouse=True)
    if app.ended_by:
        sys.exit(128 + app.ended_by)
