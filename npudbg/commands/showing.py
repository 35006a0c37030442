"""Showing a judged run: the TUI on a terminal, the plain report or JSON elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Judged, Progress
    from npudbg.session.reader import Session

Work = Callable[["Progress | None", "threading.Event | None"], "Judged"]


def interactive() -> bool:
    """Whether a full-screen program can be shown here."""
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return sys.stdin.isatty() and sys.stdout.isatty() and not dumb


def show(
    work: Work,
    *,
    as_json: bool,
    headless: bool,
    saved: str | None,
    plain: bool = False,
    again: Sequence[str] = (),
) -> int:
    """Do the work and show what came of it.

    Args:
        work: Runs and judges; called with progress and cancel (both may be None).
        as_json: Print the report as one JSON document.
        headless: Never open the TUI.
        saved: Where the user wanted the session, if anywhere.
        plain: Print the report in ASCII alone.
        again: The command line, to suggest how to keep the session.

    Returns:
        1 if a finding of severity error was made, else 0.
    """
    if as_json or headless or plain or not interactive():
        return _headless(work, as_json=as_json, saved=saved, plain=plain, again=again)
    from npudbg.commands.forker import Device
    from npudbg.tui.app import open_run

    judged: list[Judged] = []
    device = Device(keep=saved is not None)

    def runner(progress: Any, cancel: threading.Event) -> Any:
        judged.append(work(progress, cancel))
        return judged[-1].path

    try:
        code = open_run(runner, forker=device)
    finally:
        device.forget()
        _forget(judged, saved)
    return exit_code(judged[-1]) if judged else code


def exit_code(judged: Judged) -> int:
    """Return 1 if there is a finding of severity error."""
    return int(any(f.severity == "error" for f in judged.findings))


def _headless(
    work: Work, *, as_json: bool, saved: str | None, plain: bool, again: Sequence[str]
) -> int:
    from npudbg.session.reader import Session

    judged = work(None, None)
    try:
        with Session.open(judged.path) as session:
            print_session(session, saved, as_json=as_json, plain=plain, again=again)
    finally:
        _forget([judged], saved)
    return exit_code(judged)


def print_session(
    session: Session,
    saved: str | None,
    *,
    as_json: bool,
    plain: bool,
    again: Sequence[str] = (),
) -> None:
    """Print the report of a session.

    Args:
        session: A recorded run.
        saved: Where it stays for the user; None if it is temporary.
        as_json: As one JSON document.
        plain: In ASCII alone.
        again: The command line, to suggest how to keep the session.
    """
    if as_json:
        _print_json(session, saved)
    else:
        _print_report(session, saved, plain=plain, again=again)


def _print_json(session: Session, saved: str | None) -> None:
    import json

    from npudbg.render.json_report import report

    print(json.dumps(report(session, path=saved), indent=2, ensure_ascii=True))


def _print_report(
    session: Session, saved: str | None, *, plain: bool, again: Sequence[str]
) -> None:
    import shutil

    from npudbg.render.plain import text_of
    from npudbg.render.report import report_lines

    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 100
    lines = report_lines(session, width=width, path=saved, again=again)
    print(text_of(lines, "ascii" if plain else sys.stdout.encoding), end="")


def _forget(judged: list[Judged], saved: str | None) -> None:
    """Remove temporary sessions."""
    for each in judged:
        if saved is None:
            each.path.unlink(missing_ok=True)
