"""`npudbg compare A B`: what differs between two recorded runs, and where they part."""

from __future__ import annotations

import argparse
import sys


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Lay two sessions side by side: settings, the first command and the first tensor that "
        "differ,\noutputs, cycles, counters, and the findings gained and lost."
    )
    parser.epilog = "exit code: 0 equal, 1 different, 2 a session that cannot be read."
    parser.add_argument("a", metavar="A", help="a session (.npudbg)")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns 0 if the runs are equal, else 1.

    Raises:
        UserError: A session cannot be read.
    """
    from npudbg.commands.comparing.sessions import compare
    from npudbg.session.reader import Session

    with Session.open(args.a) as a, Session.open(args.b) as b:
        found = compare(a, b)
    if args.json:
        import json

        from npudbg.session.jsonable import jsonable

        document = {"schema": "npudbg.compare/1", **jsonable(found)}
        print(json.dumps(document, indent=2, ensure_ascii=True))
    else:
        import shutil

        from npudbg.render.comparison import comparison_lines
        from npudbg.render.plain import text_of

        width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 100
        print(text_of(comparison_lines(found, width), sys.stdout.encoding), end="")
    return 0 if found.equal else 1
