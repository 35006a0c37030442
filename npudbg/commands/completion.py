"""Completion scripts for shells, made by shtab from the verbs' own parsers."""

from __future__ import annotations

import argparse
from importlib import import_module

from npudbg.commands.table import VERBS


def script(shell: str) -> str:
    """Return the completion script.

    Args:
        shell: ``bash``, ``zsh`` or ``tcsh``.
    """
    import shtab

    return str(shtab.complete(whole_parser(), shell=shell))


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser with every verb, those of plugins included."""
    from npudbg.plugins.loading import loaded

    parser = argparse.ArgumentParser(prog="npudbg")
    parser.add_argument("--version", action="store_true", help="show the version")
    verbs = parser.add_subparsers()
    for name, (module, text) in VERBS.items():
        import_module(module).prepare_parser(verbs.add_parser(name, help=text))
    for verb in loaded().verbs:
        if verb.name not in VERBS:
            verb.prepare_parser(verbs.add_parser(verb.name, help=verb.help.replace("%", "%%")))
    for each in verbs.choices.values():
        _complete_files(each)
    return parser


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete file names where an argument names a file."""
    import shtab

    for action in parser._actions:
        shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if any(word in shown for word in ("FILE", "SESSION", "MODEL", "INPUT")):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
