"""`npudbg explain CODE`: what a finding means, why hardware cares, how to confirm and mend it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npudbg.layers.catalogue import Entry
    from npudbg.session.lines import Line

SCHEMA = "npudbg.explain/1"
_PARTS = (
    ("seen", "meaning"),
    ("why it matters", "why"),
    ("confirm on the board", "confirm"),
    ("mend", "mend"),
)
_MAX_WIDTH = 88


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.description = (
        "Explain findings by their codes or names: what was seen, why hardware cares, how to "
        "confirm it on the board, how to mend it. The first letter of a code: H host, I input, "
        "T trace, O output, E ELF, G graph, D board."
    )
    parser.add_argument("codes", nargs="*", metavar="CODE", help="such as H101, or a name")
    parser.add_argument("--list", action="store_true", help="list all codes")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Explain the codes; returns 0.

    Raises:
        UserError: No code is given, or one that nobody knows.
    """
    from npudbg.session.errors import UserError

    if args.list:
        _load_plugins()
        found = _all()
    elif args.codes:
        found = [_find(code) for code in args.codes]
    else:
        raise UserError("explain: give a code such as H101, or --list")
    if args.json:
        _print_json(found)
        return 0
    width = _width()
    if args.list:
        _print([_listed(entry, width) for entry in found])
        return 0
    lines: list[Line] = []
    for entry in found:
        lines += [*([_blank()] if lines else []), *explain_lines(entry, width)]
    _print(lines)
    return 0


def explain_lines(entry: Entry, width: int) -> list[Line]:
    """Return a code's texts as lines of at most ``width`` columns."""
    from npudbg.render.fit import wrapped
    from npudbg.session.lines import line
    from npudbg.session.records import LAYER_NAMES
    from npudbg.session.text import safe

    layer = "outside the layers"
    if entry.layer:
        layer = f"layer {entry.layer} ({LAYER_NAMES[entry.layer]})"
    lines = [
        line((f"{safe(entry.code)} {safe(entry.name)}", "title"), f"  {entry.severity}, {layer}"),
        *wrapped(safe(entry.title, 400), width),
    ]
    for title, field in _PARTS:
        lines += [_blank(), line((title, "key"))]
        lines += wrapped(safe(getattr(entry, field), 4000), width, lead="  ")
    return lines


def _find(code: str) -> Entry:
    """Return a code's entry; plugins are loaded only for a code that is not npudbg's own."""
    import difflib

    from npudbg.layers import catalogue
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    entry = catalogue.entry(code.upper())
    if entry is not None:
        return entry
    _load_plugins()
    known = _all()
    for each in known:
        if code.lower() in (each.code.lower(), each.name):
            return each
    names = [word for each in known for word in (each.code.lower(), each.name)]
    close = difflib.get_close_matches(code.lower(), names, 3)
    hint = f"did you mean {', '.join(_shown(c) for c in close)}?" if close else "see --list"
    raise UserError(f"explain {safe(code)}: no such code; {hint}")


def _shown(word: str) -> str:
    return word if "-" in word else word.upper()


def _all() -> list[Entry]:
    from npudbg.layers import catalogue

    return catalogue.entries()


def _load_plugins() -> None:
    from npudbg.plugins.loading import loaded

    loaded()


def _listed(entry: Entry, width: int) -> Line:
    from npudbg.render.fit import fit, left
    from npudbg.session.lines import line
    from npudbg.session.text import safe

    return fit(
        line(
            (left(safe(entry.code), 6), "key"),
            (left(entry.severity, 9), "dim"),
            safe(entry.title, 400),
        ),
        width,
    )


def _blank() -> Line:
    from npudbg.session.lines import line

    return line("")


def _width() -> int:
    import shutil
    import sys

    if not sys.stdout.isatty():
        return _MAX_WIDTH
    return max(min(shutil.get_terminal_size((80, 24)).columns, _MAX_WIDTH), 40)


def _print(lines: list[Line]) -> None:
    import sys

    from npudbg.render.plain import text_of

    sys.stdout.write(text_of(lines, sys.stdout.encoding))


def _print_json(entries: list[Entry]) -> None:
    import json

    import msgspec

    document: dict[str, Any] = {"schema": SCHEMA, "codes": msgspec.to_builtins(entries)}
    print(json.dumps(document, indent=2))
