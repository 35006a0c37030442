"""The command line: finds the verb, parses its arguments, prints errors; nothing else.

Whatever happens, the user sees one line and an exit code, never a traceback
(unless ``NPUDBG_DEBUG`` is set).  A verb's module is imported when it is chosen.
"""

from __future__ import annotations

import os
import sys

from npudbg.commands.table import VERBS
from npudbg.session.errors import UserError

# `typing` and `argparse` take longer to import than all that help needs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from npudbg.commands.parser import Parser

    Prepare = Callable[[Parser], None]
    Run = Callable[[argparse.Namespace], int]

EXIT_USER = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
"""As a shell reports them: 70 is EX_SOFTWARE, 130 and 141 are 128 + the signal."""

SHELLS = ("bash", "zsh", "tcsh")


def main(argv: Sequence[str] | None = None) -> int:
    """Run npudbg; returns the exit code.

    Args:
        argv: Arguments after the program's name; ``sys.argv`` by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it (`>&-`)
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # What the terminal's encoding lacks is shown as `?`.
            stream.reconfigure(errors="replace")
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except SystemExit as stop:
        return _code_of(stop)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()
        return EXIT_PIPE
    except Exception as error:
        return _failed(error)
    return code


def _dispatch(argv: list[str]) -> int:
    first = argv[0] if argv else "--help"
    if first in ("-h", "--help", "help"):
        if len(argv) > 1 and first == "help":
            return _run_verb(argv[1], ["--help"])
        from npudbg.commands.table import help_text, plugin_verbs

        sys.stdout.write(help_text(plugin_verbs()))
        return 0 if argv else EXIT_USER
    if first in ("-V", "--version"):
        from npudbg import __version__

        sys.stdout.write(f"npudbg {__version__}\n")
        return 0
    if first.partition("=")[0] == "--print-completion":
        return _print_completion(first.partition("=")[2] or "".join(argv[1:2]))
    return _run_verb(first, argv[1:])


def _run_verb(name: str, argv: list[str]) -> int:
    from npudbg.commands.parser import Parser
    from npudbg.commands.signals import ending_cleanly

    if not (sys.warnoptions or os.environ.get("NPUDBG_DEBUG")):
        import warnings

        # Meant for programmers: a user's stderr has npudbg's own lines alone.
        warnings.simplefilter("ignore")
    prepare, run = _find(name)
    parser = Parser(f"npudbg {name}")
    prepare(parser)
    try:
        with ending_cleanly():
            return run(parser.parse(argv))
    finally:
        _warn_of_plugins()


def _find(name: str) -> tuple[Prepare, Run]:
    if name in VERBS:
        from importlib import import_module

        module = import_module(VERBS[name][0])
        return module.prepare_parser, module.run
    from npudbg.commands.table import plugin_verbs

    announced = plugin_verbs()
    # Plugins take time to load, so a name that nobody announces is a mistake
    # first; packages that keep their metadata in a zip cannot announce.
    if name in announced or name.replace("-", "").isalnum():
        from npudbg.plugins.loading import loaded

        verb = loaded().verb(name)
        if verb is not None:
            return verb.prepare_parser, verb.run
    raise _unknown(name, [*VERBS, *announced])


def _unknown(name: str, known: list[str]) -> UserError:
    import difflib

    from npudbg.session.text import safe

    shown = safe(name)
    if name.startswith("-"):
        return UserError(f"{shown}: no such option; a verb comes first, see npudbg --help")
    close = difflib.get_close_matches(name, known, 1)
    if not close and os.path.exists(name):  # noqa: PTH110 (start-up time)
        verb = "replay" if name.endswith(".npudbg") else "run"
        return UserError(f"{shown}: a file, not a verb; did you mean `npudbg {verb} {shown}`?")
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return UserError(f"{shown}: no such verb; {hint}")


def _print_completion(shell: str) -> int:
    from npudbg.session.text import safe

    if shell not in SHELLS:
        raise UserError(f"--print-completion {safe(shell)}: expected one of {', '.join(SHELLS)}")
    from npudbg.commands.completion import script

    sys.stdout.write(script(shell))
    return 0


def _warn_of_plugins() -> None:
    """Say which plugins were left out, if this run loaded plugins."""
    loading = sys.modules.get("npudbg.plugins.loading")
    if loading is None or not loading.loaded.cache_info().currsize:
        return
    for problem in loading.loaded().problems:
        print(f"npudbg: {problem}", file=sys.stderr)


def _failed(error: Exception) -> int:
    """Print one line about an error; returns the exit code."""
    from npudbg.session.text import safe

    if os.environ.get("NPUDBG_DEBUG"):
        import traceback

        traceback.print_exception(error)
    kind = type(error).__name__
    code = EXIT_INTERNAL
    if isinstance(error, UserError):
        text, code = safe(error, 2000), EXIT_USER
    elif isinstance(error, ModuleNotFoundError) and not _is_ours(error.name):
        text = f"the Python package {safe(error.name)} is not installed here; install npudbg again"
        code = EXIT_USER
    elif isinstance(error, OSError) and error.strerror:
        # A full disk, a directory without permission: of the machine, not of npudbg.
        where = f"{safe(error.filename)}: " if error.filename is not None else ""
        text, code = f"{where}{error.strerror}", EXIT_USER
    elif isinstance(error, MemoryError):
        text = "out of memory"
    else:
        text = (
            f"internal error, {kind}: {safe(error, 300)} (set NPUDBG_DEBUG=1 to see where; "
            "please report it)"
        )
    try:
        print(f"npudbg: {text}", file=sys.stderr)
    except OSError:
        return code
    return code


def _is_ours(module: str | None) -> bool:
    return (module or "npudbg").partition(".")[0].startswith("npudbg")


def _code_of(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(f"npudbg: {stop.code}", file=sys.stderr)
    return EXIT_USER


def _drop_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return
