"""`npudbg targets [NAME]`: the target profiles, each figure with its source."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.session.lines import Line
    from npudbg.targets.profile import Target

SCHEMA = "npudbg.targets/1"


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.description = (
        "List the target profiles, or show one: what the chip demands and offers, each figure "
        "with its source. A profile of your own (a TOML file) works wherever a name does; "
        "--toml prints a profile to start from."
    )
    parser.add_argument("name", nargs="?", metavar="NAME|FILE", help="the profile to show")
    parser.add_argument("--toml", action="store_true", help="print the profile's own text")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """List profiles or show one; returns 0.

    Raises:
        UserError: There is no such profile, or a file that is none.
    """
    import sys

    from npudbg.session.errors import UserError
    from npudbg.targets import loader

    if args.toml:
        if args.name is None:
            raise UserError("targets --toml: say which, for example npudbg targets rk3588 --toml")
        sys.stdout.write(loader.toml_text(args.name))
        return 0
    if args.name is None:
        found = [loader.load(name) for name in loader.names()]
        if args.json:
            _print_json([_short(t) for t in found])
        else:
            _print(_list_lines(found))
        return 0
    target = loader.load(args.name)
    if args.json:
        _print_json([{**_short(target), "figures": _figures(target)}])
    else:
        _print(target_lines(target))
    return 0


def target_lines(target: Target) -> list[Line]:
    """Return a profile as lines: sections, figures, where each comes from."""
    from npudbg.render.fit import wrapped
    from npudbg.session.lines import line
    from npudbg.session.text import safe
    from npudbg.targets.describe import rows

    lines = [line((safe(target.name), "title"), f"  {safe(target.title, 200)}")]
    if target.notes:
        lines += wrapped(safe(target.notes, 2000), 88, "dim", lead="  ")
    figures = [tuple(safe(part, 300) for part in row) for row in rows(target)]
    name_width = min(max((len(row[1]) for row in figures), default=0), 30)
    value_width = min(max((len(row[2]) for row in figures), default=0), 32)
    section = None
    for where, name, value, source in figures:
        if where != section:
            lines += [line(""), line((where, "key"))]
            section = where
        lines.append(
            line(
                f"  {name:{name_width}}  ",
                (f"{value:{value_width}}", "number"),
                (f"  {source}", "dim"),
            )
        )
    return lines


def _list_lines(targets: Sequence[Target]) -> list[Line]:
    from npudbg.session.lines import line
    from npudbg.session.text import safe

    width = max(len(t.name) for t in targets)
    return [line((f"{t.name:{width}}", "key"), f"  {safe(t.title, 200)}") for t in targets]


def _short(target: Target) -> dict[str, object]:
    return {"name": target.name, "title": target.title, "vendor": target.vendor}


def _figures(target: Target) -> list[dict[str, str]]:
    from npudbg.targets.describe import rows

    keys = ("section", "field", "value", "source")
    return [dict(zip(keys, row, strict=True)) for row in rows(target)]


def _print(lines: list[Line]) -> None:
    import sys

    from npudbg.render.plain import text_of

    sys.stdout.write(text_of(lines, sys.stdout.encoding))


def _print_json(targets: list[dict[str, object]]) -> None:
    import json

    print(json.dumps({"schema": SCHEMA, "targets": targets}, indent=2))
