"""`npudbg fork SESSION`: do a recorded run again with something changed."""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Judged, Progress
    from npudbg.session.rerun import Changes, Poke

_POKE = re.compile(
    r"(?P<after>[0-9]{1,12}):(?P<space>sram|ddr):(?P<address>0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,19})"
    r"=(?P<data>.*)",
    re.DOTALL,
)
_BYTES = "9:sram:0x100=01 02, …=f32:nan, or …=^80 to flip bits"
_EPILOG = """\
examples:
  npudbg fork run.npudbg --poke 182:sram:0x1400=f32:nan --save nan.npudbg
  npudbg fork run.npudbg --set conv1_out=good.npy --headless
  npudbg fork run.npudbg --no-fault all --save clean.npudbg
  npudbg compare run.npudbg nan.npudbg

exit code: 0 no error found, 1 at least one error found, 2 wrong usage, or a session or model
that cannot be run again.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Do a recorded run again, from its own model, inputs, target and options, with something "
        "changed;\nwithout a change it is the same run. See npudbg compare."
    )
    parser.epilog = _EPILOG
    parser.add_argument("session", metavar="SESSION", help="a session of the simulated device")
    what = parser.add_argument_group("changes (repeatable)")
    for option, metavar, text in (
        ("--poke", "N:SPACE:ADDR=BYTES", f"write bytes after command N: {_BYTES}"),
        ("--set", "TENSOR=FILE", "put a file's values in the place of a tensor or weight"),
        ("--cast", "NODE=fp32", "keep a node's results in the model's own type"),
        ("--fault", "SPEC", "inject a fault of the hardware; `npudbg run --fault list`"),
        ("--no-fault", "SPEC|KIND|all", "leave out a fault that the recorded run had"),
    ):
        what.add_argument(option, action="append", default=[], metavar=metavar, help=text)
    parser.add_argument(
        "--model", metavar="FILE", help="the recorded model, where it lies elsewhere by now"
    )
    parser.add_argument("--save", metavar="FILE", help="keep the new session (.npudbg)")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON document")
    parser.add_argument("--headless", action="store_true", help="print the report, no TUI")
    parser.add_argument("--plain", action="store_true", help="print the report in ASCII")


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code.

    Raises:
        UserError: The run cannot be done again, or a change does not fit it.
    """
    from pathlib import Path

    from npudbg.commands import showing
    from npudbg.commands.forking import fork
    from npudbg.session.errors import UserError
    from npudbg.session.reader import Session

    changes = changes_of(args)
    if args.save and Path(args.save).exists() and Path(args.save).samefile(args.session):
        raise UserError("--save: would replace the session that is forked; choose another name")

    def work(progress: Progress | None, cancel: threading.Event | None) -> Judged:
        with Session.open(args.session) as session:
            return fork(
                session,
                changes,
                save=args.save,
                model=args.model,
                progress=progress,
                cancel=cancel,
            )

    return showing.show(
        work,
        as_json=args.json,
        headless=args.headless,
        saved=args.save,
        plain=args.plain,
        again=("npudbg", *sys.argv[1:]),
    )


def changes_of(args: argparse.Namespace) -> Changes:
    """Return the changes of a command line.

    Raises:
        UserError: One cannot be read.
    """
    from npudbg.commands.options import parse_casts, read_replacements
    from npudbg.session.rerun import Changes

    return Changes(
        pokes=parse_pokes(args.poke),
        replace=read_replacements(args.set),
        raised=parse_casts(args.cast),
        faults=tuple(args.fault),
        without=tuple(args.no_fault),
    )


def parse_pokes(specs: Iterable[str]) -> tuple[Poke, ...]:
    """Return pokes from ``N:SPACE:ADDRESS=BYTES`` texts.

    Raises:
        UserError: Not of that form.
    """
    from npudbg.session.errors import UserError
    from npudbg.session.pokes import parse_data
    from npudbg.session.rerun import Poke
    from npudbg.session.text import safe

    found = []
    for spec in specs:
        match = _POKE.fullmatch(spec)
        if match is None:
            raise UserError(
                f"--poke {safe(spec, 60)}: expected N:SPACE:ADDRESS=BYTES, "
                "for example 182:sram:0x1400=00 00 c0 7f"
            )
        try:
            data, flip = parse_data(match["data"])
        except UserError as error:
            raise UserError(f"--poke {safe(spec, 60)}: {error}") from None
        found.append(
            Poke(
                after=int(match["after"]),
                space="ddr" if match["space"] == "ddr" else "sram",
                address=int(match["address"], 0 if "x" in match["address"].lower() else 10),
                data=data,
                flip=flip,
            )
        )
    return tuple(found)
