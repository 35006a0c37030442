"""`npudbg check MODEL [INPUT…]`: the same as `run`, always headless."""

from __future__ import annotations

import argparse

from npudbg.commands.options import prepare_run_parser
from npudbg.commands.run import run_and_show


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    prepare_run_parser(parser, headless=True)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    return run_and_show(args, headless=True)
