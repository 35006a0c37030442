"""`npudbg replay SESSION`: step through a saved run, in the TUI, a script, or at a plain prompt."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npudbg.debugger.interpreter import Interpreter
    from npudbg.session.lines import Line
    from npudbg.session.reader import Session


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.description = (
        "Step through a saved session, forward and backward; neither the model nor its runtime "
        "is needed. On a terminal the TUI opens; with -ex, -x or --batch, or where stdout is no "
        "terminal, the commands are executed and their output printed."
    )
    parser.add_argument("session", metavar="SESSION", help="a file written by --save")
    parser.add_argument(
        "--batch", action="store_true", help="execute the given commands and end, as in a script"
    )
    parser.add_argument(
        "-ex", dest="script", action=_InOrder, metavar="CMD", help="execute a debugger command"
    )
    parser.add_argument(
        "-x", dest="script", action=_InOrder, metavar="FILE", help="execute a file of commands"
    )
    parser.add_argument(
        "--plain", action="store_true", help="a plain line prompt instead of the TUI"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--headless", action="store_true", help="print the report of the run and end")
    how.add_argument("--json", action="store_true", help="print the report as one JSON document")


def run(args: argparse.Namespace) -> int:
    """Open the session; returns 0, or 1 where its verdict was shown and it has an error.

    Raises:
        UserError: The session cannot be read, or a command of a script failed.
    """
    from npudbg.commands.showing import interactive, print_session
    from npudbg.session.errors import UserError
    from npudbg.session.reader import Session

    script: list[tuple[str, str]] = args.script or []
    with Session.open(args.session) as session:
        if args.headless or args.json:
            if args.batch or script:
                raise UserError(
                    "--headless and --json print the report; -ex, -x and --batch do not"
                )
            print_session(session, args.session, as_json=args.json, plain=args.plain)
            return int(any(f.severity == "error" for f in session.findings))
        prompt = args.plain or (sys.stdin.isatty() and sys.stdout.isatty() and not interactive())
        if args.batch or script or prompt or not interactive():
            with contextlib.closing(_interpreter(session)) as interpreter:
                if args.batch or script:
                    return _batch(interpreter, script)
                return _plain(interpreter) if prompt else _piped(interpreter)
        from npudbg.commands.forker import Device
        from npudbg.tui.app import open_session

        return open_session(session, forker=Device())


class _InOrder(argparse.Action):
    """Keep ``-ex`` and ``-x`` in the order in which they were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        found = list(getattr(namespace, self.dest) or [])
        found.append(("file" if option == "-x" else "command", values))
        setattr(namespace, self.dest, found)


def _interpreter(session: Session) -> Interpreter:
    from npudbg.commands.forker import Device
    from npudbg.debugger.interpreter import Interpreter

    return Interpreter(session, _target(session), Device())


def _target(session: Session) -> Any:
    """Return the profile that the session carries; None if there is none or it is damaged."""
    from npudbg.session.errors import UserError

    if not session.meta.target_toml:
        return None
    from npudbg.targets.loader import load_toml_text

    try:
        return load_toml_text(session.meta.target_toml, session.meta.target)
    except UserError:
        return None


def _batch(interpreter: Interpreter, script: Iterable[tuple[str, str]]) -> int:
    from pathlib import Path

    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    for number, (kind, text) in enumerate(script, 1):
        if kind == "file":
            for _, lines in interpreter.run_script(Path(text)):
                _print(lines)
        else:
            lines = interpreter.execute(text)
            if interpreter.failed:
                reason = lines[0].text if lines else "failed"
                raise UserError(f"-ex {number}: {safe(text, 80)}: {reason}")
            _print(lines)
        if interpreter.wants_quit:
            break
    return 0


def _piped(interpreter: Interpreter) -> int:
    """Execute what comes on stdin as a script; where a terminal is there, do not wait for it."""
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    if sys.stdin.isatty():
        _print(interpreter.execute("where"))
        _print(interpreter.execute("info findings"))
        return 0
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    for number, text in enumerate(sys.stdin, 1):
        if not text.strip():
            continue
        lines = interpreter.execute(text.rstrip("\r\n"))
        if interpreter.failed:
            reason = lines[0].text if lines else "failed"
            raise UserError(f"stdin:{number}: {safe(text.strip(), 80)}: {reason}")
        _print(lines)
        if interpreter.wants_quit:
            break
    return 0


def _plain(interpreter: Interpreter) -> int:
    """Read lines at a prompt until quit or the end of input."""
    _complete(interpreter)
    _print(interpreter.execute("where"))
    while not interpreter.wants_quit:
        try:
            text = input(interpreter.prompt.text)
        except EOFError:
            print()
            break
        except KeyboardInterrupt:
            print("\n(quit leaves)")
            continue
        try:
            if interpreter.rerun(text) is not None:
                print("doing the run again; Ctrl+C stops it", flush=True)
            _print(interpreter.execute(text))
        except KeyboardInterrupt:
            print(f"interrupted; still at command {interpreter.seq}")
    return 0


def _complete(interpreter: Interpreter) -> None:
    """Let Tab complete, where the system has readline."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return
    try:
        import readline
    except ImportError:
        return
    found: list[str] = []

    def complete(word: str, state: int) -> str | None:
        nonlocal found
        if state == 0:
            start = readline.get_begidx()
            head = readline.get_line_buffer()[:start]
            found = [each[len(head) :] for each in interpreter.completions(head + word)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t")
    readline.parse_and_bind("tab: complete")


def _print(lines: Iterable[Line]) -> None:
    for each in lines:
        print(each.text)
