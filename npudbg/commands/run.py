"""`npudbg run MODEL [INPUT…]`: run, judge, and show on the terminal what there is to see."""

from __future__ import annotations

import argparse
import sys
import threading
from typing import TYPE_CHECKING

from npudbg.commands.options import job_from, prepare_run_parser

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Judged, Progress


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    prepare_run_parser(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    return run_and_show(args, headless=args.headless)


def run_and_show(args: argparse.Namespace, *, headless: bool) -> int:
    """Do what `run` and `check` have in common."""
    from npudbg.commands import showing
    from npudbg.commands.pipeline import run_job

    if "list" in args.fault:
        from npudbg.commands.fault_list import print_faults

        print_faults()
        return 0
    job = job_from(args)

    def work(progress: Progress | None, cancel: threading.Event | None) -> Judged:
        return run_job(job, progress=progress, cancel=cancel)

    return showing.show(
        work,
        as_json=args.json,
        headless=headless,
        saved=args.save,
        plain=args.plain,
        again=("npudbg", *sys.argv[1:]),
    )
