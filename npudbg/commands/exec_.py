"""`npudbg exec`: run an unchanged program with the agent inside and judge each call."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.commands.attached.debugger import AttachedDebugger

NAME = "exec"
HELP = "run a program and judge the arrays it gives to ONNX Runtime"

DESCRIPTION = """\
Run an unchanged program with an agent inside that hooks ONNX Runtime's
InferenceSession (run, run_async, run_with_iobinding, run_with_ort_values; any
execution provider). Before each call the very arrays of that process are judged
(layers 1 and 2: real addresses and strides), after it the outputs (layer 4).
On a terminal it stops at the first faulty call and asks.

npudbg's lines go to stderr (or --log); the program's stdin, stdout and stderr are
its own. Child processes that load ONNX Runtime are followed too. The agent comes in
through PYTHONPATH: python -I, -E and -S, frozen programs and C or C++ callers of
ONNX Runtime cannot be followed. If the debugger dies the program goes on.
"""

EPILOG = """\
exit code: 1 if an error was found; else the program's own (128 + N if signal N
ended it); 2 for wrong usage.
"""

WAIT_SECONDS = 300.0

PAUSE_SECONDS = 600.0
"""How long a call waits for a debugger that asks nobody, before it goes on alone."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", default="generic", metavar="NAME|FILE", help="the chip")
    parser.add_argument("--save", metavar="FILE", help="save the session here (.npudbg)")
    parser.add_argument("--log", metavar="FILE", help="npudbg's lines go here, not to stderr")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--break-on-error",
        action="store_true",
        help="hold the first faulty call: ask on the terminal, abort the call where there is none",
    )
    how.add_argument("--batch", action="store_true", help="never stop, report only")
    how.add_argument(
        "--wait",
        nargs="?",
        type=float,
        const=WAIT_SECONDS,
        metavar="SECONDS",
        help="the first call waits for `npudbg attach` from elsewhere "
        f"(at most {WAIT_SECONDS:.0f} s, then the program goes on)",
    )
    how.add_argument(
        "--detached",
        action="store_true",
        help="start it in the background, print its pid and return; join with `npudbg attach`",
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="-- PROGRAM …", help="the command line"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from npudbg.session.errors import UserError

    argv = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not argv:
        raise UserError("no program given; expected e.g. `npudbg exec -- python app.py`")
    if args.wait is not None or args.detached:
        if args.save:
            raise UserError("--save belongs to the debugger: give it to `npudbg attach` instead")
        return _run_listening(argv, args)
    return _run_judged(argv, args)


def _run_listening(argv: list[str], args: argparse.Namespace) -> int:
    from npudbg.agent.start import LISTEN, WAIT
    from npudbg.commands.attached import child as attached_child

    extra = {LISTEN: "1"}
    if args.wait is not None:
        extra[WAIT] = str(args.wait)
    with attached_child.signals_held() as mask:
        env = attached_child.environment(extra)
        pid = attached_child.spawn(argv, env, mask, detached=args.detached)
        print(f"npudbg: started pid {pid}; join with `npudbg attach {pid}`", file=sys.stderr)
        return 0 if args.detached else attached_child.wait(pid)


def _run_judged(argv: list[str], args: argparse.Namespace) -> int:
    from npudbg.commands.attached import run as attached_run
    from npudbg.commands.attached.debugger import Terminal

    terminal = None
    if not args.batch and (args.break_on_error or sys.stdin.isatty()):
        terminal = Terminal.open()
    stop = args.break_on_error or terminal is not None
    with contextlib.ExitStack() as stack:
        out: IO[str] = sys.stderr
        if args.log:
            out = stack.enter_context(attached_run.open_log(args.log))
        debugger, finish = attached_run.prepare(
            args.target,
            args.save,
            out=out,
            stop="faulty" if stop else "never",
            terminal=terminal,
            options={"program": argv},
        )
        try:
            code = supervise(argv, debugger, pause_seconds=None if terminal else PAUSE_SECONDS)
        except BaseException:
            debugger.recorder.discard()
            raise
        if not debugger.programs:
            out.write(
                "npudbg: no call was seen: the program never loaded ONNX Runtime with the agent "
                "(python -I, -E or -S, a PYTHONPATH of its own, or not a Python program)\n"
            )
        if code:
            out.write(f"npudbg: the program ended with exit code {code}\n")
        return finish() or code


def supervise(
    argv: list[str], debugger: AttachedDebugger, *, pause_seconds: float | None = None
) -> int:
    """Run a program under a debugger to its end.

    Args:
        argv: The command line.
        debugger: Told of every event.
        pause_seconds: How long a call waits for an answer before it goes on alone.

    Returns:
        The program's exit code, or 128 + N when signal N ended it.

    Raises:
        UserError: It cannot be started.
    """
    from npudbg.agent.start import SOCKET
    from npudbg.backends.attached import Server, directory
    from npudbg.commands.attached import child as attached_child

    path = _socket_path(directory())
    server = Server(path, debugger, pause_seconds=pause_seconds)
    try:
        with attached_child.signals_held() as mask:
            env = attached_child.environment({SOCKET: str(path)})
            pid = attached_child.spawn(argv, env, mask)
            server.start()
            code = attached_child.wait(pid)
    finally:
        server.close(2.0)
        debugger.close()
    debugger.problems.extend(f"refused a connection: {why}" for why in server.refused)
    debugger.problems.extend(f"{type(e).__name__}: {e}" for e in server.failures)
    return code


def _socket_path(directory: Path) -> Path:
    """Return a name that no other debugger of this user has."""
    return directory / f"exec-{os.getpid()}-{os.urandom(4).hex()}.sock"
