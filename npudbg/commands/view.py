"""`npudbg view SESSION WHAT`: SRAM over time, DMA queue, engines, a tensor's life; as text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.session.lines import Line
    from npudbg.session.reader import Session

VIEWS = ("sram", "dma", "engines", "life")
_LEAST_WIDTH = 60
_MOST_WIDTH = 400
_WIDTH = 100


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.description = (
        "Print one view of a saved session: sram (a map of addresses over time, lifetimes, what "
        "lies where), dma (each channel's transfers, gaps and small packets), engines (busy "
        "shares over time, who waits for whom), or life TENSOR (the seven steps from host buffer "
        "to synchronised result)."
    )
    parser.add_argument("session", metavar="SESSION", help="a file written by --save")
    parser.add_argument("what", metavar="sram|dma|engines|life", choices=VIEWS, help="the view")
    parser.add_argument("tensor", nargs="?", metavar="TENSOR", help="for life: the tensor's name")
    parser.add_argument("--at", metavar="SEQ", help="the cursor's command")
    parser.add_argument("--from", dest="low", metavar="SEQ", help="first command shown")
    parser.add_argument("--to", dest="high", metavar="SEQ", help="last command shown")
    parser.add_argument(
        "--cycles", action="store_true", help="for sram: columns are cycles, not commands"
    )
    parser.add_argument("--width", metavar="COLUMNS", help="instead of the terminal's")
    parser.add_argument("--rows", metavar="N", help="lines a table or map (sram, dma)")
    parser.add_argument("--plain", action="store_true", help="ASCII alone")


def run(args: argparse.Namespace) -> int:
    """Print the view; returns 0.

    Raises:
        UserError: The session cannot be read, or holds no such tensor or command.
    """
    import sys

    from npudbg.render.plain import text_of
    from npudbg.session.reader import Session

    with Session.open(args.session) as session:
        lines = view_lines(session, args)
    print(text_of(lines, "ascii" if args.plain else sys.stdout.encoding), end="")
    return 0


def view_lines(session: Session, args: argparse.Namespace) -> list[Line]:
    """Return the lines of the view that the arguments ask for.

    Raises:
        UserError: The session holds no such tensor or command.
    """
    from npudbg.session.errors import UserError

    width = _width(args.width)
    if args.what == "life":
        return _life(session, args, width)
    if args.tensor is not None:
        raise UserError(f"view {args.what}: takes no tensor; only life does")
    last = session.n_commands - 1
    low = _number("--from", args.low, 0, max(last, 0), 0)
    high = _number("--to", args.high, low, max(last, 0), max(last, 0)) + 1
    at = _number("--at", args.at, 0, max(last, 0), -1)
    rows = _number("--rows", args.rows, 1, 10_000, -1)
    if args.what == "sram":
        from npudbg.render.sram_map import sram_lines

        return sram_lines(
            session,
            low,
            high,
            width,
            axis="cycle" if args.cycles else "command",
            at=at if at >= 0 else None,
            rows=rows if rows > 0 else 16,
            most=rows if rows > 0 else 24,
        )
    if args.what == "engines":
        from npudbg.render.engines import engine_lines

        return engine_lines(session, low, high, width)
    from npudbg.render.dma_queue import dma_lines
    from npudbg.render.life import target_of

    return dma_lines(
        session,
        low,
        high,
        width,
        target=target_of(session),
        at=at if at >= 0 else None,
        most=rows if rows > 0 else 12,
    )


def _life(session: Session, args: argparse.Namespace, width: int) -> list[Line]:
    import difflib

    from npudbg.render.life import life_lines
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    if args.tensor is None:
        raise UserError("view life: expected a tensor's name after life")
    tensor = session.tensor(args.tensor)
    if tensor is None:
        # Names are shown with control characters replaced; that spelling is taken, too.
        shown = [t for t in session.tensors if safe(t.name) == args.tensor]
        tensor = shown[0] if len(shown) == 1 else None
    if tensor is None:
        names = [t.name for t in session.tensors[:20_000]]
        near = difflib.get_close_matches(args.tensor[:200], names, 1, 0.6)
        hint = f"; did you mean {safe(near[0])}?" if near else ""
        raise UserError(
            f"view life: no tensor {safe(args.tensor)} among {len(session.tensors):,} in the "
            f"session{hint}"
        )
    return life_lines(session, tensor, width)


def _number(option: str, text: str | None, least: int, most: int, default: int) -> int:
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) <= 18 and least <= int(text) <= most:
        return int(text)
    raise UserError(f"{option} {safe(text, 40)}: expected a number from {least} to {most}")


def _width(text: str | None) -> int:
    import shutil
    import sys

    if text is not None:
        return _number("--width", text, _LEAST_WIDTH, _MOST_WIDTH, _WIDTH)
    if not sys.stdout.isatty():
        return _WIDTH
    columns = shutil.get_terminal_size((80, 24)).columns
    return min(max(columns, _LEAST_WIDTH), _MOST_WIDTH)
