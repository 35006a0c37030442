"""`npudbg sweep MODEL DIR`: which of many inputs trigger what."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from npudbg.commands.options import add_job_options

_SUFFIXES = (".npy", ".npz", ".pb")
_MAX_JOBS = 256
_EPILOG = """\
Every .npy, .npz and .pb file in DIR is one input of the model; inputs that stay the same
are given with --input. With --out the sweep can be stopped and goes on when started again,
and keeps a session of each distinct failure: that of the first input that shows it.

exit code: 0 no error found, 1 at least one, 2 wrong usage or an unreadable model.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.usage = "%(prog)s MODEL DIR [options]"
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument("dir", metavar="DIR", help="a folder of inputs")
    parser.add_argument("--out", metavar="DIR", help="keep results and sessions here; resumable")
    parser.add_argument("--jobs", default="", metavar="N", help="processes (default: the CPUs)")
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="use a Dask cluster that you trust; its workers need npudbg and the same paths",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_job_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from npudbg.commands.durable import work_folder
    from npudbg.commands.sweeping import calibration as sweep_calibration
    from npudbg.commands.sweeping import job as sweep_job
    from npudbg.commands.sweeping import show as sweep_show
    from npudbg.commands.sweeping.results import Results

    args.inputs = []
    spec = sweep_job.spec_of(args)
    jobs = _jobs(args.jobs)
    inputs = _inputs(args.dir)
    job, graph = sweep_job.load_model(spec)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(work_folder(Path(args.out))) if args.out else None
        sweep = [spec, graph.sha256]
        if job.calib is not None:
            print("npudbg: int8 scales are chosen from the samples, once", file=sys.stderr)
            place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            spec, samples = sweep_calibration.shared(spec, job, graph, inputs, place)
            sweep.append(samples)
        results = stack.enter_context(Results(folder, _digest(sweep)))
        known = [p for p in inputs if results.known(p)]
        todo = {str(p): p for p in inputs if p.name not in results.rows}
        bad = sum(results.rows[p.name]["layer"] != 0 for p in known)
        tell = sweep_show.Progress(len(inputs), len(known), bad)
        try:
            for task, text in _work(list(todo), spec, jobs, args.dask):
                row = _row(todo[task], text)
                results.add(row)
                tell.done(row)
        except KeyboardInterrupt:
            tell.stopped(kept=folder is not None)
            raise
        tell.end()
        rows = [results.rows[p.name] for p in inputs]
        new = {p.name for p in todo.values()}
        sessions = _sessions(rows, new, Path(args.dir), folder, spec, jobs)
    sweep_show.show(rows, sessions, as_json=args.json, model=args.model)
    return int(any(row["layer"] != 0 for row in rows))


def _work(
    tasks: list[str], spec: str, jobs: int, address: str | None
) -> Iterator[tuple[str, str | None]]:
    from npudbg.commands.sweeping import cluster as sweep_dask
    from npudbg.commands.sweeping import job as sweep_job
    from npudbg.commands.sweeping import pool as sweep_pool

    if not tasks:
        return iter(())
    if address:
        return sweep_dask.run(tasks, sweep_job.run_one, spec, address)
    return sweep_pool.run(tasks, sweep_job.run_one, spec, min(jobs, len(tasks)))


def _row(path: Path, text: str | None) -> dict[str, Any]:
    from npudbg.commands.sweeping.pool import RETRIES
    from npudbg.commands.sweeping.results import identity

    if text is None:
        died: dict[str, Any] = {
            "status": "crashed", "layer": None, "code": "", "subject": "", "kind": "",
            "message": f"the worker died of it {RETRIES + 1} times",
        }  # fmt: skip
        return {"input": path.name, **identity(path), **died}
    return {"input": path.name, **identity(path), **json.loads(text)}


def _sessions(
    rows: Sequence[dict[str, Any]],
    new: Collection[str],
    source: Path,
    folder: Path | None,
    spec: str,
    jobs: int,
) -> dict[tuple[str, str], str]:
    """Keep a session of each distinct failure; returns file names by code and subject."""
    if folder is None:
        return {}
    found: dict[tuple[str, str], str] = {}
    tasks = []
    for row in rows:
        failure = (row["code"], row["subject"])
        if row["layer"] and failure not in found:
            found[failure] = session_name(*failure)
            goal = (folder / found[failure]).absolute()
            if row["input"] in new or not goal.exists():
                tasks.append(f"{(source / row['input']).absolute()}\n{goal}")
    for _ in _work(tasks, spec, jobs, None):
        pass
    return {failure: name for failure, name in found.items() if (folder / name).exists()}


def session_name(code: str, subject: str) -> str:
    """Return a file name for a failure: its code and subject, and what keeps two apart."""
    import hashlib

    mark = hashlib.sha256(f"{code}\0{subject}".encode()).hexdigest()[:8]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", subject).strip("_.")[:60]
    return "-".join(part for part in (code, plain, mark) if part) + ".npudbg"


def _inputs(folder: str) -> list[Path]:
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    path = Path(folder).absolute()
    if not path.is_dir():
        raise UserError(f"{safe(folder)}: no such folder; expected one of .npy, .npz or .pb files")
    found = sorted(
        (p for p in path.iterdir() if p.suffix.lower() in _SUFFIXES and p.is_file()),
        key=lambda p: p.name,
    )
    if not found:
        raise UserError(f"{safe(folder)}: no .npy, .npz or .pb file in it")
    return found


def _jobs(text: str) -> int:
    import os

    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    if not text:
        return min(len(os.sched_getaffinity(0)), _MAX_JOBS)
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= _MAX_JOBS):
        raise UserError(f"--jobs {safe(text)}: expected a whole number from 1 to {_MAX_JOBS}")
    return int(text)


def _digest(parts: Sequence[str]) -> str:
    import hashlib

    from npudbg import __version__

    return hashlib.sha256("\0".join((*parts, __version__)).encode()).hexdigest()
