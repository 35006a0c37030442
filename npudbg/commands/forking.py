"""Time travel's other half: a recorded run done again with something changed.

Everything up to the change happens as it did: the commands before it have the
same numbers, times and addresses, so that two sessions can be laid side by side.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Job, Judged, Progress
    from npudbg.graph.ir import Graph
    from npudbg.session.reader import Session
    from npudbg.session.rerun import Changes, Poke


def fork(
    session: Session,
    changes: Changes,
    *,
    save: str | None = None,
    model: str | None = None,
    whole: bool = False,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Judged:
    """Do a recorded run again with something changed, into a session of its own.

    Model, inputs (with their strides and addresses), target, precision, fusion, faults
    and what-ifs are those of the record; ``changes`` come on top.

    Args:
        session: The recorded run.
        changes: What to do otherwise.
        save: Where the new session goes; None makes a temporary file.
        model: The model file, where it lies elsewhere by now.
        whole: Keep nothing of a run that is stopped.
        progress: Called with nodes done, nodes in all, label.
        cancel: Set to stop.

    Raises:
        CancelledError: ``whole``, and the run was stopped before its end.
        UserError: The run cannot be done again from this record, its model is not the
            same any more, or a change does not fit it.
    """
    from npudbg.commands.pipeline import judge_run
    from npudbg.commands.rerun import host_arrays, job_of
    from npudbg.device.calibration import from_record
    from npudbg.graph.specialise import specialise
    from npudbg.targets.loader import load_toml_text, toml_text

    meta = session.meta
    if meta.backend != "simulated":
        raise UserError(
            f"{session.path}: recorded from {safe(meta.backend, 40)}; only a run of the "
            "simulated device can be done again"
        )
    job, synthesised = job_of(session)
    arrays, records = host_arrays(session)
    _check_pokes(session, changes.pokes)
    told = notes_of(changes)
    changes = dataclasses.replace(changes, pokes=tuple(_settled(session, changes.pokes)))
    job = _changed(job, changes, save)
    text = meta.target_toml or toml_text(meta.target)
    graph = _model(session, job, model)
    graph, _ = specialise(graph, arrays)
    known = session.extra("calibration")
    return judge_run(
        job,
        graph,
        load_toml_text(text, meta.target),
        arrays,
        target_toml=text,
        notes=(*_kept_notes(meta.notes), *_other_libraries(meta.libraries), *told),
        synthesised=synthesised,
        recorded=records,
        calibration=None if known is None else _converted(session, from_record, known),
        whole=whole,
        progress=progress,
        cancel=cancel,
    )


def notes_of(changes: Changes) -> list[str]:
    """Return one line for each change."""
    found = [
        f"fork: {len(p.data)} bytes {'flipped' if p.flip else 'written'} at "
        f"{p.space}:{p.address:#x} after command {p.after}"
        for p in changes.pokes
    ]
    found += [f"fork: {safe(name)} replaced" for name in changes.replace]
    found += [f"fork: {safe(name)} kept in the model's type" for name in sorted(changes.raised)]
    found += [f"fork: with fault {safe(spec)}" for spec in changes.faults]
    found += [f"fork: without fault {safe(spec)}" for spec in changes.without]
    return found


def _kept_notes(notes: tuple[str, ...]) -> list[str]:
    """Return the notes of the run that still hold; the job makes those of what-ifs anew."""
    return [n for n in notes if not n.startswith("what if: ")]


def _other_libraries(recorded: Mapping[str, str]) -> list[str]:
    """Return a note where other versions compute than those that the record was made with."""
    from npudbg.backends.simulated import libraries

    now = libraries()
    other = [
        f"{safe(name, 20)} {safe(recorded[name], 20)}, now {version}"
        for name, version in now.items()
        if recorded.get(name, version) != version
    ]
    if not other:
        return []
    return [f"fork: recorded with {'; '.join(other)}; results may differ in the last bits"]


def _changed(job: Job, changes: Changes, save: str | None) -> Job:
    faults = list(job.faults)
    for spec in changes.without:
        left = [f for f in faults if spec not in ("all", f, f.partition(":")[0].strip())]
        if len(left) == len(faults) and spec != "all":
            there = ", ".join(safe(f, 60) for f in faults) or "none"
            raise UserError(f"no fault {safe(spec, 60)} to leave out; the recorded run has {there}")
        faults = left
    return dataclasses.replace(
        job,
        save=save,
        faults=(*faults, *changes.faults),
        pokes=(*job.pokes, *changes.pokes),
        raised=job.raised | changes.raised,
        replace={**job.replace, **changes.replace},
    )


def _check_pokes(session: Session, pokes: tuple[Poke, ...]) -> None:
    from npudbg.session.pokes import MOST_BYTES

    regions = {r.space: r for r in session.meta.regions}
    for poke in pokes:
        place = f"{poke.space}:{poke.address:#x}"
        if not 0 <= poke.after < session.n_commands:
            raise UserError(
                f"no command {poke.after} to poke {place} after; the session has commands 0 to "
                f"{session.n_commands - 1}"
            )
        if not 0 < len(poke.data) <= MOST_BYTES:
            raise UserError(f"{place}: {len(poke.data)} bytes; expected 1 to {MOST_BYTES:,}")
        region = regions.get(poke.space)
        if region is None:
            raise UserError(f"{place}: the session's machine has no space {safe(poke.space, 20)}")
        end = region.base + region.nbytes
        if not region.base <= poke.address <= poke.address + len(poke.data) <= end:
            raise UserError(
                f"{place}: {len(poke.data)} bytes do not lie in {poke.space}, which is "
                f"{region.base:#x} to {end - 1:#x}"
            )


def _settled(session: Session, pokes: tuple[Poke, ...]) -> Iterator[Poke]:
    """Yield pokes, each moved back to the last command before it that wrote anything.

    A host operator waits, invalidates and computes in one go: bytes changed during its
    WAIT are bytes changed before it.

    Raises:
        UserError: An input is staged over the bytes, before any node reads them.
    """
    from msgspec import structs

    from npudbg.session.commands import Space

    for poke in pokes:
        after = poke.after
        while after > 0 and int(session.command(after)["dst_space"]) == Space.NONE:
            after -= 1
        if poke.space == "ddr":
            _check_staged(session, poke)
        yield structs.replace(poke, after=after)


def _check_staged(session: Session, poke: Poke) -> None:
    from npudbg.session.commands import Space

    first = next((n.first_seq for n in session.nodes if n.first_seq >= 0), session.n_commands)
    rows = session.commands(poke.after + 1, first)
    end = poke.address + len(poke.data)
    hit = rows[
        (rows["dst_space"] == Space.DDR)
        & (rows["dst"] < end)
        & (rows["dst"] + rows["nbytes"] > poke.address)
    ]
    if len(hit):
        raise UserError(
            f"{poke.space}:{poke.address:#x}: command {int(hit[0]['seq'])} puts an input there "
            f"before any node reads it; poke after that command, not after {poke.after}"
        )


def _model(session: Session, job: Job, path: str | None) -> Graph:
    """Return the very model that was run."""
    from npudbg.graph import loader

    recorded = session.meta.model
    if job.model.startswith("demo:") or "demo" in session.meta.options:
        from npudbg.commands.teaching import CASES, load

        case = CASES.get(str(session.meta.options.get("demo", "")))
        if case is not None:
            return load(case)[0]
    path = path or job.model
    if recorded is None or not path:
        raise UserError(
            f"{session.path}: does not say which file the model came from; name it with --model"
        )
    graph = loader.load(path, dims={k: v for k, v in job.dims.items() if "." not in k})
    if recorded.sha256 and graph.sha256 != recorded.sha256:
        raise UserError(
            f"{safe(path)}: not the model of this session any more (SHA-256 {graph.sha256[:12]}, "
            f"recorded {safe(recorded.sha256[:12])}); give the recorded one with --model"
        )
    return graph


def _converted(session: Session, convert: Any, value: Any) -> Any:
    import msgspec

    try:
        return convert(value)
    except msgspec.ValidationError as error:
        raise UserError(f"{session.path}: its calibration is damaged ({error})") from None
