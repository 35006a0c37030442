"""`npudbg demo [CASE]`: a bundled model and input, run and judged like any other."""

from __future__ import annotations

import argparse
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Judged, Progress

_DEFAULT = "fp16-overflow"


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "case", nargs="?", default=_DEFAULT, metavar="CASE", help=f"default: {_DEFAULT}"
    )
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--save", metavar="FILE", help="keep the session")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--headless", action="store_true", help="print the report, no TUI")


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from npudbg.commands import showing
    from npudbg.commands.teaching import CASES
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    if args.list:
        width = max(len(name) for name in CASES)
        for case in CASES.values():
            print(f"{case.name:{width}}  {case.title}")
        return 0
    if args.case not in CASES:
        raise UserError(f"demo {safe(args.case)}: no such case; there are {', '.join(CASES)}")

    def work(progress: Progress | None, cancel: threading.Event | None) -> Judged:
        return run_case(args.case, save=args.save, progress=progress, cancel=cancel)

    return showing.show(
        work,
        as_json=args.json,
        headless=args.headless,
        saved=args.save,
        again=("npudbg", "demo", args.case),
    )


def run_case(
    name: str,
    *,
    save: str | None = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Judged:
    """Run one teaching case.

    Args:
        name: A key of :data:`~npudbg.commands.teaching.CASES`.
        save: Where the session goes; None makes a temporary file.
        progress: Called with nodes done, nodes in all, label.
        cancel: Set to stop.
    """
    from npudbg.commands.pipeline import Job, judge_run
    from npudbg.commands.teaching import CASES, load
    from npudbg.targets.loader import load_toml_text, toml_text

    case = CASES[name]
    options = {k: v() if callable(v) else v for k, v in case.options.items()}
    job = Job(model=f"demo:{name}", save=save, options={"demo": name}, **options)
    text = toml_text(job.target)
    graph, arrays = load(case)
    return judge_run(
        job,
        graph,
        load_toml_text(text, job.target),
        arrays,
        target_toml=text,
        notes=(f"teaching case: {case.title}",),
        progress=progress,
        cancel=cancel,
    )
