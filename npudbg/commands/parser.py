"""The argument parser of a verb: one line for an error, options and files in any order."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """An ``argparse`` parser in npudbg's manner.

    * A mistake is one line on stderr and exit code 2.
    * Options may stand between the files: ``npudbg run M --target T X.npy``.
    * Options are not guessed from their beginnings: a script that leans on a
      prefix would break with the next option.
    """

    def __init__(self, prog: str) -> None:
        """Make a parser.

        Args:
            prog: ``npudbg VERB``.
        """
        super().__init__(prog=prog, allow_abbrev=False)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse a verb's arguments; exits with 2 and one line if they are wrong."""
        if any(a.nargs in (argparse.REMAINDER, argparse.PARSER) for a in self._actions):
            # The rest is a command line of its own and is taken as it stands.
            return self.parse_args(argv)
        return self.parse_intermixed_args(argv)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        from npudbg.session.text import safe

        self.exit(2, f"{self.prog}: {safe(message, 400)}; see {self.prog} --help\n")
