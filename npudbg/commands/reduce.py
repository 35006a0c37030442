"""`npudbg reduce MODEL [INPUT…] --out DIR`: the smallest model that still shows the finding."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from npudbg.commands.options import add_job_options, job_from, options_record

if TYPE_CHECKING:
    from npudbg.commands.reducing.search import Setting
    from npudbg.commands.reducing.state import State
    from npudbg.graph.cut import Cut

_SHOWN = 8
_EPILOG = """\
Runs the model once, then cuts it down around the finding that decided the verdict and
runs the parts: nodes are left out, then axes are halved and weights zeroed. Killed and
started again with the same arguments it goes on where it was.
The folder gets minimal.onnx, its inputs, the session, and README.txt with the command
that shows the finding again.

exit code: 1 a finding was reduced, 0 nothing is at fault, 2 wrong usage.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.usage = "%(prog)s MODEL [INPUT ...] --out DIR [options]"
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="as for `npudbg check`")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the result goes")
    parser.add_argument(
        "--finding", default="", metavar="CODE", help="default: the one that decides the verdict"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_job_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from npudbg.commands.durable import work_folder
    from npudbg.commands.reducing import search as reducing
    from npudbg.commands.reducing import state as reduce_state
    from npudbg.session.errors import UserError

    job = job_from(args)
    if job.calib is not None:
        raise UserError(
            "--calib: its samples are inputs of the whole model, and a part takes others; "
            "reduce without it (each tensor's own range is then its scale)"
        )
    with work_folder(Path(args.out)) as folder:
        given = reducing.setting(job, folder)
        more = (args.finding, given.target_toml)
        job_id = reduce_state.fingerprint(given.graph, given.arrays, given.job, more)
        state = reduce_state.load(folder, job_id)
        session = reducing.record(given, state, args.finding, _tell)
        if session is None:
            (folder / reducing.RECORDING).unlink(missing_ok=True)
            print("nothing at fault: nothing to reduce")
            return 0
        with session:
            part, zero = reducing.reduce(given, state, session, _tell)
        proven, summary = _finish(given, state, part, zero, options_record(args))
    _show(state, part, zero, folder, summary, proven=proven, as_json=args.json)
    return 1


def _finish(
    given: Setting, state: State, part: Cut, zero: list[str], options: dict[str, object]
) -> tuple[bool, str]:
    """Write the bundle, and replay it from its files.

    Returns:
        Whether the files show the finding, and its message.
    """
    import dataclasses

    from npudbg.commands.durable import write_atomically
    from npudbg.commands.pipeline import judge_run, run_job
    from npudbg.commands.reducing import bundle
    from npudbg.commands.reducing import search as reducing
    from npudbg.commands.reducing.trials import TRIAL, job_of
    from npudbg.graph.loader import from_proto
    from npudbg.session.reader import Session

    folder = given.folder
    files = bundle.write_model(folder, part)
    job = bundle.job_files(folder, given, job_of(given.job, part))
    saved = dataclasses.replace(job, save=str(folder / bundle.SESSION), options=options)
    graph = from_proto(part.model, path=folder / bundle.MODEL, name=bundle.MODEL)
    judged = judge_run(
        saved, graph, given.target, part.feeds, target_toml=given.target_toml,
        notes=(f"{len(part.nodes)} of {state.total} nodes of {given.graph.name}",),
    )  # fmt: skip
    again = dataclasses.replace(
        job,
        model=str(folder / bundle.MODEL),
        feeds=[str(folder / f) for f in files],
        target=str(folder / job.target) if job.target == "target.toml" else job.target,
        save=str(folder / TRIAL),
    )
    replayed = run_job(again)
    with Session.open(replayed.path) as session:
        proven = any(f.code == state.code for f in session.findings)
    replayed.path.unlink(missing_ok=True)
    summary = next((f.message for f in judged.findings if f.code == state.code), "")
    text = bundle.readme(
        bundle.command(job, files), code=state.code, summary=summary,
        nodes=len(part.nodes), total=state.total, proven=proven,
        shapes={n: a.shape for n, a in part.feeds.items()}, zero=zero,
    )  # fmt: skip
    write_atomically(folder / "README.txt", text.encode())
    (folder / reducing.RECORDING).unlink(missing_ok=True)
    return proven, summary


def _show(
    state: State,
    part: Cut,
    zero: list[str],
    folder: Path,
    summary: str,
    *,
    proven: bool,
    as_json: bool,
) -> None:
    from npudbg.session.text import safe

    nodes = [safe(n.name) for n in part.model.graph.node]
    size = sum(f.stat().st_size for f in folder.iterdir() if f.suffix in (".onnx", ".npz", ".pb"))
    if as_json:
        import json

        document = {
            "format": "npudbg-reduced/1",
            "code": state.code,
            "message": summary,
            "nodes": nodes,
            "of": state.total,
            "steps": len(state.tried),
            "inputs": {n: list(a.shape) for n, a in part.feeds.items()},
            "zeroed": zero,
            "bytes": size,
            "replays_from_files": proven,
            "folder": str(folder),
        }
        print(json.dumps(document, indent=2))
        return
    print(f"{state.code}: {summary}")
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    print(
        f"{len(nodes)} of {state.total} nodes, {len(state.tried)} steps: "
        f"{', '.join(nodes[:_SHOWN])}{more}"
    )
    inputs = ", ".join(f"{safe(n)} {list(a.shape)}" for n, a in part.feeds.items())
    zeros = f"; {len(zero)} weights and inputs are zero" if zero else ""
    print(f"inputs: {inputs or 'none'}{zeros}; model and inputs take {size:,} bytes")
    if not proven:
        print("read from files it does not come back: see README.txt")
    print(f"replay: see {safe(folder / 'README.txt')}")


def _tell(text: str) -> None:
    from npudbg.session.text import safe

    print(f"npudbg: {safe(text, 200)}", file=sys.stderr)
