"""The verb ``npudbg graph MODEL|SESSION``: the model drawn in lanes, with what went wrong."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from npudbg.plugins import (
    Case,
    Finding,
    Graph,
    Session,
    Target,
    UserError,
    exit_code,
    finding_dict,
    finding_lines,
    judge_model,
    line,
    load_graph,
    safe,
    write_json,
    write_lines,
)
from npudbg_graph import rules
from npudbg_graph.choose import around, find
from npudbg_graph.render import LEGEND, Look, line_of, rows_of, to_ascii, with_detail
from npudbg_graph.stages import fused
from npudbg_graph.status import judge, origin
from npudbg_graph.view import View, from_graph, from_session

SCHEMA = "npudbg.graph/1"
_STAGES = ("original", "folded", "fused", "mapped")


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.description = (
        "Draw a model as lanes: nodes in execution order, a vertical line for each tensor that "
        "is alive. A session also shows where a NaN began, what it spoiled, what ran on the host."
    )
    parser.add_argument("source", metavar="MODEL|SESSION")
    parser.add_argument(
        "--stage", choices=_STAGES, default="original", help="lowering stage (sessions only)"
    )
    parser.add_argument("--node", metavar="N", help="only around this node, number or tensor")
    parser.add_argument("--origin", action="store_true", help="only around the fault's origin")
    parser.add_argument("--up", type=_steps, default=2, metavar="K", help="steps above (2)")
    parser.add_argument("--down", type=_steps, default=2, metavar="K", help="steps below (2)")
    parser.add_argument("--shapes", action="store_true", help="say shapes and dtypes")
    parser.add_argument("--constants", action="store_true", help="draw Constant nodes too")
    parser.add_argument("--lanes", type=_steps, default=0, metavar="K", help="most lanes")
    parser.add_argument("--ascii", action="store_true", help="plain ASCII")
    parser.add_argument("--target", metavar="NAME|FILE", help="judge the model for this target")
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a symbolic axis (repeatable)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Draw; returns 1 if there is an error finding, else 0.

    Raises:
        UserError: Wrong usage, or a file that cannot be read.
    """
    if _is_session(args.source):
        with Session.open(args.source) as session:
            view = fused(from_session(session, constants=args.constants), session, args.stage)
            found = session.findings
            return _show(args, view, found)
    if args.stage != "original":
        raise UserError(
            f"--stage {args.stage}: {safe(args.source)} is a model; stages stand in a session: "
            f"`npudbg check {safe(args.source)} --save S`, then `npudbg graph S --stage …`"
        )
    if args.origin:
        raise UserError("--origin: a model alone has no fault; give a session")
    dims = _dims(args.dim)
    graph = load_graph(args.source, dims=dims)
    view = from_graph(graph, shapes=args.shapes, constants=args.constants)
    target = None
    if args.target:
        from npudbg.plugins import load_target

        target = load_target(args.target)
    return _show(args, view, _judge(graph, target, dims))


def _judge(graph: Graph, target: Target | None, dims: dict[str, int]) -> list[Finding]:
    """Return what the model alone shows; with a target also what that demands of it."""
    case = Case(
        target=target or Target(name="generic", title="any target"),
        model=graph.record(),
        graph=graph,
        dims=dims,
    )
    found = list(rules.judge_graph(case))
    if target is not None:
        if target.tensor.static_shapes:
            found += rules.open_shapes(graph, set(dims))
        found += judge_model(case)
    return found


def _show(args: argparse.Namespace, view: View, found: list[Finding]) -> int:
    judge(view, found)
    whole = view
    at = None
    if args.node is not None:
        at = find(view, args.node)
    elif args.origin:
        at = origin(view, None)
        if at is None:
            raise UserError("--origin: nothing is at fault in this session")
    if at is not None:
        chosen = view.vertices[at]
        view = around(view, at, args.up, args.down)
        at = view.vertices.index(chosen)
    if args.json:
        write_json(_document(view, whole, found))
        return exit_code(found)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    look = Look(width=width, max_lanes=args.lanes, shapes=args.shapes, ascii=args.ascii)
    head = f"{safe(view.title)}: stage {view.stage}, {len(view.vertices)} rows"
    if len(view.vertices) < len(whole.vertices):
        head += f" of {len(whole.vertices)}"
    if view.hidden:
        head += f", {view.hidden} constant or folded nodes not drawn"
    lines = [line((head, "title")), line((LEGEND, "dim"))]
    rows = rows_of(view, look)
    drawn = [line_of(view, row, look, current=row.item == at) for row in rows]
    lines += drawn if at is None else with_detail(view, rows, drawn, at, look)
    lines += [each for f in found for each in finding_lines(f)]
    write_lines(to_ascii(lines) if args.ascii else lines)
    return exit_code(found)


def _document(view: View, whole: View, found: list[Finding]) -> dict[str, Any]:
    vertices = [
        {
            "kind": v.kind,
            "name": v.name,
            "op": v.op,
            "nodes": list(v.nodes),
            "status": v.status,
            "kernel": v.kernel,
            "engine": v.engine,
            "first_seq": v.first_seq,
            "last_seq": v.last_seq,
            "findings": v.codes,
            "reads": [view.values[n].name for n in v.reads],
            "writes": [view.values[n].name for n in v.writes],
        }
        for v in view.vertices
    ]
    edges = [
        {
            "from": view.producer[value],
            "to": at,
            "tensor": view.values[value].name,
            "type": view.values[value].text,
            "nan": view.values[value].nan,
            "inf": view.values[value].inf,
        }
        for at, vertex in enumerate(view.vertices)
        for value in dict.fromkeys(vertex.reads)
        if value in view.producer
    ]
    return {
        "schema": SCHEMA,
        "model": view.title,
        "stage": view.stage,
        "rows": len(whole.vertices),
        "nodes": vertices,
        "edges": edges,
        "findings": [finding_dict(f) for f in found],
    }


def _is_session(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(16).startswith(b"SQLite format 3")
    except (OSError, ValueError):
        return False


def _dims(texts: list[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, sign, number = text.rpartition("=")
        if not sign or not name or not (number.isascii() and number.isdigit()) or int(number) < 1:
            raise UserError(f"--dim {safe(text)}: expected NAME=N with N of at least 1")
        found[name] = int(number)
    return found


def _steps(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{safe(text)}: expected a number from 0 to 1000000")
    return int(text)
