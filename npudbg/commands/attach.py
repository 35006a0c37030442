"""`npudbg attach`: join a running program at its next call."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import IO

NAME = "attach"
HELP = "join a program that was started with the agent"

DESCRIPTION = """\
Join a running program of this user and hold its next call of ONNX Runtime: look at
its arrays, go on, abort the call, or leave (the program then runs on).

What can be attached: a Python program that was started with the agent inside, by
`npudbg exec --wait -- …` or `npudbg exec --detached -- …`, or in an environment set
by `eval "$(npudbg attach --env)"`. What cannot: a program started without it (nothing
is injected into a running process), another user's program, and callers of
ONNX Runtime's C or C++ interface.
"""

EPILOG = """\
exit code: 0 no error found, 1 an error was found, 2 wrong usage or nothing to join.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "program",
        nargs="?",
        metavar="PID|SOCKET",
        help="the program; may be left out where only one is listening",
    )
    parser.add_argument("--target", default="generic", metavar="NAME|FILE", help="the chip")
    parser.add_argument("--save", metavar="FILE", help="save the session here (.npudbg)")
    parser.add_argument("--batch", action="store_true", help="never hold a call, report only")
    parser.add_argument(
        "--calls", type=int, default=0, metavar="N", help="leave the program after N calls"
    )
    parser.add_argument("--list", action="store_true", help="list the programs that listen")
    parser.add_argument(
        "--env", action="store_true", help="print the environment that lets a program listen"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from npudbg.session.errors import UserError

    if args.env:
        return _print_environment()
    if args.list:
        return _print_list()
    if args.calls < 0:
        raise UserError(f"--calls {args.calls}: expected a number of calls, 1 or more")
    return _join(args)


def _join(args: argparse.Namespace) -> int:
    from npudbg.backends import attached
    from npudbg.commands.attached import run as attached_run
    from npudbg.commands.attached.debugger import Terminal

    path = find(args.program)
    terminal = None
    if not args.batch and sys.stdin.isatty():
        terminal = Terminal.open()
    out: IO[str] = sys.stdout
    debugger, finish = attached_run.prepare(
        args.target,
        args.save,
        out=out,
        stop="always" if terminal else "never",
        terminal=terminal,
        options={"program": str(path)},
        limit=args.calls,
    )
    try:
        # Ctrl-C leaves the program: it sees the end of the talk and goes on.
        with contextlib.suppress(KeyboardInterrupt):
            attached.join(path, debugger)
    except BaseException:
        debugger.recorder.discard()
        raise
    finally:
        debugger.close()
    return finish()


def find(program: str | None) -> Path:
    """Return the socket of the program that was meant.

    Args:
        program: A pid, a socket's path, or None where only one program listens.

    Raises:
        UserError: None such, or several to choose from.
    """
    from npudbg.backends.attached import listening
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    how = "start it with `npudbg exec --wait -- python app.py`"
    if program is not None and not program.isdigit():
        path = Path(program)
        if not path.is_socket():
            raise UserError(f"{safe(program)}: expected a pid or an agent's socket; {how}")
        return path
    found = listening()
    if program is not None:
        for pid, path in found:
            if pid == int(program):
                return path
        raise UserError(f"process {safe(program, 20)} does not listen for a debugger; {how}")
    if not found:
        raise UserError(f"no program listens for a debugger; {how}")
    if len(found) > 1:
        pids = ", ".join(str(pid) for pid, _ in found[:20])
        raise UserError(f"{len(found)} programs listen ({pids}); say which: npudbg attach PID")
    return found[0][1]


def _print_environment() -> int:
    import shlex

    from npudbg.agent.start import LISTEN
    from npudbg.commands.attached.child import bootstrap

    print(f"export PYTHONPATH={shlex.quote(str(bootstrap()))}${{PYTHONPATH:+:$PYTHONPATH}}")
    print(f"export {LISTEN}=1")
    return 0


def _print_list() -> int:
    from npudbg.backends.attached import listening
    from npudbg.session.text import safe

    for pid, path in listening():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()[:400].replace(b"\0", b" ")
        except OSError:
            continue
        print(f"{pid:>8}  {safe(command.decode(errors='replace').strip(), 100)}  {path}")
    return 0
