"""A run's way to be done again: kept in its session, and read back as a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.device.faults.touch import Injection
    from npudbg.session.reader import Session
    from npudbg.session.records import TensorRecord
    from npudbg.session.rerun import Poke
    from npudbg.session.writer import SessionWriter


def keep(writer: SessionWriter, job: Job, synthesised: Iterable[str]) -> None:
    """Record how a job is done, so that a fork can do it again."""
    import msgspec

    from npudbg.session.dtypes import dtype_name
    from npudbg.session.rerun import KEY, Kept, Rerun

    replaced = {}
    for name, array in job.replace.items():
        blob = None if array.dtype.hasobject else writer.put_array(array)
        if blob is not None:
            replaced[name] = Kept(
                blob=blob, dtype=dtype_name(array.dtype), shape=tuple(array.shape)
            )
    way = Rerun(
        fused=job.fused,
        dims=dict(job.dims),
        preprocessing={n: msgspec.to_builtins(p) for n, p in job.preprocessing.items()},
        manifest=dict(job.manifest),
        synthesised=tuple(sorted(synthesised)),
        faults=tuple(job.faults),
        pokes=tuple(job.pokes),
        raised=tuple(sorted(job.raised)),
        replaced=replaced,
        golden=job.golden,
        golden_mode=job.golden_mode,
        atol=job.atol,
        rtol=job.rtol,
        sanitize=job.sanitize,
        accumulate=job.accumulate,
    )
    writer.set_extra(KEY, way)


def injections(pokes: Iterable[Poke]) -> list[Injection]:
    """Return pokes as the device takes them."""
    from npudbg.device.faults.touch import Injection
    from npudbg.session.commands import Space

    spaces = {"sram": Space.SRAM, "ddr": Space.DDR}
    return [Injection(p.after, spaces[p.space], p.address, p.data, p.flip) for p in pokes]


def job_of(session: Session) -> tuple[Job, frozenset[str]]:
    """Return the job that a session is the record of, and the inputs that were made up.

    Raises:
        UserError: The session does not say how it was made, or says it wrongly.
    """
    import msgspec

    from npudbg.commands.pipeline import Job
    from npudbg.layers.case import Preprocessing
    from npudbg.session.errors import SessionError
    from npudbg.session.rerun import kept_array, read

    meta, way = session.meta, read(session)
    if way is None:
        return _teaching(session), frozenset()
    try:
        preprocessing = msgspec.convert(way.preprocessing, dict[str, Preprocessing])
    except msgspec.ValidationError as error:
        raise SessionError(f"{session.path}: its preprocessing is damaged ({error})") from None
    job = Job(
        model=meta.model.path if meta.model is not None else "",
        target=meta.target,
        dims=way.dims,
        precision=meta.precision,
        preprocessing=preprocessing,
        fused=way.fused,
        faults=way.faults,
        pokes=way.pokes,
        manifest=way.manifest,
        raised=frozenset(way.raised),
        replace={name: kept_array(session, kept) for name, kept in way.replaced.items()},
        golden=way.golden,
        golden_mode=way.golden_mode,
        atol=way.atol,
        rtol=way.rtol,
        sanitize=way.sanitize,
        accumulate=way.accumulate,
        options=meta.options,
    )
    return job, frozenset(way.synthesised)


def _teaching(session: Session) -> Job:
    """Return the job of a saved teaching case."""
    from npudbg.commands.pipeline import Job
    from npudbg.commands.teaching import CASES
    from npudbg.session.errors import UserError

    meta = session.meta
    case = CASES.get(str(meta.options.get("demo", "")))
    if case is None:
        raise UserError(
            f"{session.path}: recorded by an npudbg that did not keep how the run was made; "
            "record it again with --save and fork that"
        )
    options = {k: v() if callable(v) else v for k, v in case.options.items()}
    options.pop("host_addresses", None)  # in the tensors' records
    return Job(
        model=f"demo:{case.name}",
        options=meta.options,
        **{**options, "target": meta.target, "precision": meta.precision},
    )


def host_arrays(
    session: Session,
) -> tuple[dict[str, npt.NDArray[Any]], Mapping[str, TensorRecord]]:
    """Return a session's inputs as they lay in host memory, and their records, by name.

    Raises:
        UserError: One was not kept.
    """
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    records = {t.name: t for t in session.tensors if t.role == "input" and t.space == "host"}
    arrays = {}
    for name, record in records.items():
        array = session.view(record)
        if array is None:
            raise UserError(
                f"{session.path}: the values of input {safe(name)} are not in the session; "
                "only a run whose inputs are plain tensors, recorded with its data, can be forked"
            )
        arrays[name] = array
    return arrays, records
