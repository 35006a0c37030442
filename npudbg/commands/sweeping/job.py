"""One input of a sweep: what a worker does, wherever it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.session.errors import UserError

if TYPE_CHECKING:
    import argparse

    from npudbg.commands.pipeline import Job, Judged
    from npudbg.device.calibration import Calibration
    from npudbg.graph.ir import Graph
    from npudbg.targets.profile import Target

_FILES = ("input", "set")


def spec_of(args: argparse.Namespace) -> str:
    """Return the options of a sweep as JSON text that means the same in every process."""
    options = {k: v for k, v in vars(args).items() if isinstance(v, (str, list, type(None)))}
    options["model"] = str(Path(args.model).resolve())
    for name in _FILES:
        options[name] = [_absolute(spec) for spec in getattr(args, name)]
    if "/" in args.target or args.target.endswith(".toml"):
        options["target"] = str(Path(args.target).resolve())
    for name in ("manifest", "calib"):
        file = getattr(args, name)
        if file is not None:
            options[name] = str(Path(file).resolve())
    for name in ("dir", "out", "dask", "jobs"):
        options.pop(name, None)
    return json.dumps(options, sort_keys=True)


def run_one(spec: str, task: str) -> str:
    """Run and judge one input.

    Args:
        spec: What :func:`spec_of` returned.
        task: The input's path; a second line is the path at which to keep the session.

    Returns:
        JSON: ``status``, ``layer``, ``code``, ``subject``, ``kind``, ``message``.
    """
    path, _, save = task.partition("\n")
    try:
        judged = _judged(spec, path, save or None)
    except UserError as error:
        return json.dumps(_row("unreadable", message=str(error)))
    except MemoryError:
        return json.dumps(_row("failed", message="out of memory"))
    except Exception as error:
        # Of one input; the sweep goes on with the others.
        return json.dumps(_row("failed", message=f"internal error, {type(error).__name__}"))
    if not save:
        judged.path.unlink(missing_ok=True)
    verdict = judged.verdict
    finding = judged.findings[verdict.finding] if verdict.finding is not None else None
    return json.dumps(
        _row(
            judged.status,
            layer=verdict.layer,
            code=verdict.code,
            subject="" if finding is None else finding.subject.name,
            kind="" if finding is None else finding.subject.kind,
            message=verdict.summary,
        )
    )


def load_model(spec: str) -> tuple[Job, Graph]:
    """Return the sweep's job, without an input, and its model.

    Raises:
        UserError: An option or the model is unusable.
    """
    shared = _shared(spec)
    return shared.job, shared.graph


def _row(
    status: str,
    *,
    layer: int | None = None,
    code: str = "",
    subject: str = "",
    kind: str = "",
    message: str = "",
) -> dict[str, Any]:
    return {
        "status": status,
        "layer": layer,
        "code": code,
        "subject": subject,
        "kind": kind,
        "message": message,
    }


def _judged(spec: str, path: str, save: str | None) -> Judged:
    import dataclasses

    from npudbg.commands.pipeline import feed_arrays, judge_run
    from npudbg.graph.specialise import specialise

    shared = _shared(spec)
    job, graph = shared.job, shared.graph
    job = dataclasses.replace(
        job, feeds=[*job.feeds, path], save=save, options={**job.options, "inputs": [path]}
    )
    arrays, notes, made = feed_arrays(graph, job)
    special, resolved = specialise(graph, arrays)
    notes = [*notes, *resolved]
    if shared.calibration is not None:
        notes.append(
            f"int8 scales are from the ranges of {shared.calibration.samples} calibration "
            "samples, the same for all inputs of the sweep"
        )
    return judge_run(
        job, special, shared.target, arrays, target_toml=shared.target_toml, notes=notes,
        synthesised=made, calibration=shared.calibration,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Shared:
    """What every input of a sweep has in common."""

    job: Job
    graph: Graph
    target: Target
    target_toml: str
    calibration: Calibration | None


@lru_cache(1)
def _shared(spec: str) -> _Shared:
    """Return what is the same for every input: read once a process."""
    import argparse

    from npudbg.commands.options import job_from
    from npudbg.commands.sweeping import calibration as sweep_calibration
    from npudbg.graph import loader
    from npudbg.targets.loader import load_toml_text, toml_text

    options = json.loads(spec)
    found = options.pop(sweep_calibration.KEY, None)
    job = job_from(argparse.Namespace(**options))
    text = toml_text(job.target)
    graph = loader.load(job.model, dims={k: v for k, v in job.dims.items() if "." not in k})
    calibration = None if found is None else sweep_calibration.of_worker(found, job, graph)
    return _Shared(job, graph, load_toml_text(text, job.target), text, calibration)


def _absolute(spec: str) -> str:
    name, equals, file = spec.partition("=")
    if not equals or Path(spec).exists():
        return str(Path(spec).resolve())
    return f"{name}={Path(file).absolute()}"
