"""The main job: from a model and its inputs to a judged session.

Host facts, layers 1 and 2, the device, layers 3 and 4, the verdict; all of it
ends in one session file that every view reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.backends.base import HostInput
    from npudbg.device.calibration import Calibration
    from npudbg.graph.ir import Graph
    from npudbg.layers.case import Case, HostTensor, Preprocessing
    from npudbg.session.records import Finding, TensorRecord, Verdict
    from npudbg.session.rerun import Poke
    from npudbg.targets.profile import Target

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Job:
    """What the user asked for, parsed.

    Attributes:
        model: Path of the ONNX file.
        feeds: Input specifications in order (``FILE`` or ``NAME=FILE[:DTYPE:SHAPE]``).
        target: Profile name or file.
        dims: Open axes by symbol or ``input.AXIS``.
        precision: Number format; None for the profile's own.
        accumulate: What sums of fp16 operands run in (``fp16``, ``fp32``); None for the
            profile's own.
        calib: int8: directory of sample inputs that scales are taken from.
        preprocessing: What the model expects of values and layout, by input name
            (``""`` for every input).
        host_addresses: Where buffers are said to lie on the board, by input name.
        seed: Of synthesised inputs.
        save: Where the session goes; None keeps it in a temporary file.
        keep_data: Whether tensor bytes are recorded.
        fused: Whether element-wise nodes are fused.
        faults: Specifications of hardware faults.
        pokes: Bytes written into device memory while it runs.
        manifest: Facts of the runtime on the board (versions …).
        raised: What-if: names or labels of nodes kept in the model's own type.
        replace: What-if: arrays by name that take the place of an input, a weight or
            what a node computes, before anything reads it.
        golden: What the run is compared with (``ort``, a session, dumps, a file); None
            for nothing.
        golden_mode: ``entire``, ``single`` or ``both``.
        atol: Absolute tolerance of the comparison; None for the number format's own.
        rtol: Relative tolerance of the comparison; None for the number format's own.
        options: The command line's options, for the record.
        sanitize: Whether layer 3 checks SRAM byte by byte.
    """

    model: str
    feeds: Sequence[str] = ()
    target: str = "generic"
    dims: Mapping[str, int] = field(default_factory=dict)
    precision: str | None = None
    accumulate: str | None = None
    calib: str | None = None
    preprocessing: Mapping[str, Preprocessing] = field(default_factory=dict)
    host_addresses: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    save: str | None = None
    keep_data: bool = True
    fused: bool = True
    faults: Sequence[str] = ()
    pokes: Sequence[Poke] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    raised: frozenset[str] = frozenset()
    replace: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    golden: str | None = None
    golden_mode: str = "entire"
    atol: float | None = None
    rtol: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sanitize: bool = False


@dataclass(slots=True)
class Judged:
    """A finished job.

    Attributes:
        path: The session file (temporary unless the job named one).
        findings: By layer.
        verdict: The answer on top.
        status: ``complete``, ``failed``, ``cancelled`` or ``not-run``.
        outputs: The model's outputs by name (empty if it did not run).
    """

    path: Path
    findings: list[Finding]
    verdict: Verdict
    status: str
    outputs: Mapping[str, Any]


def run_job(
    job: Job, *, progress: Progress | None = None, cancel: threading.Event | None = None
) -> Judged:
    """Run a job.

    Raises:
        UserError: Anything of the user's is unreadable or unusable.
    """
    from npudbg.graph import loader
    from npudbg.graph.specialise import specialise
    from npudbg.targets.loader import load_toml_text, toml_text

    text = toml_text(job.target)
    target = load_toml_text(text, job.target)
    graph = loader.load(job.model, dims=_symbols(job.dims))
    arrays, notes, made = feed_arrays(graph, job)
    graph, resolved = specialise(graph, arrays)
    notes += resolved
    return judge_run(
        job, graph, target, arrays, target_toml=text, notes=notes, synthesised=made,
        progress=progress, cancel=cancel,
    )  # fmt: skip


def judge_run(
    job: Job,
    graph: Graph,
    target: Target,
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    target_toml: str = "",
    notes: Sequence[str] = (),
    synthesised: frozenset[str] = frozenset(),
    loaded: bool = True,
    recorded: Mapping[str, TensorRecord] | None = None,
    calibration: Calibration | None = None,
    whole: bool = False,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Judged:
    """Judge and run a loaded model on arrays.

    Args:
        job: Options; its model and feeds are not read again.
        graph: The model.
        target: The profile.
        arrays: Inputs by name.
        target_toml: The profile's text.
        notes: What npudbg chose itself.
        synthesised: Inputs that it made up.
        loaded: The arrays are npudbg's own copies of files; their addresses are
            then of no interest.
        recorded: Host tensors of the run that is done again: places and owners are theirs.
        calibration: int8 parameters of every tensor; they go before the job's ``calib``.
        whole: Keep nothing of a run that is stopped.
        progress: See :class:`~npudbg.backends.base.Request`.
        cancel: See there.

    Raises:
        CancelledError: ``whole``, and the run was stopped before its end.
    """
    from dataclasses import replace

    from npudbg.backends.base import Request
    from npudbg.backends.simulated import Simulated, write_meta
    from npudbg.commands.accumulating import accumulating
    from npudbg.commands.calibrating import calibration_of, check, samples_note
    from npudbg.commands.golden.step import GoldenStep
    from npudbg.commands.rerun import injections, keep
    from npudbg.device.faults.spec import parse as parse_fault
    from npudbg.layers.case import Case
    from npudbg.layers.counters import counters
    from npudbg.layers.findings import judge
    from npudbg.layers.verdict import verdict
    from npudbg.session.errors import UserError
    from npudbg.session.reader import Session
    from npudbg.session.writer import SessionWriter

    golden = GoldenStep(job, graph, arrays)  # of the model as it is, before any what-if
    if job.replace or job.raised:
        from npudbg.commands.whatif import applied

        graph, arrays, told = applied(job, graph, arrays)
        notes = (*notes, *told)
    precision = job.precision or target.compute.default_precision
    if precision not in target.compute.precisions:
        raise UserError(
            f"--precision {precision}: {target.name} computes in "
            f"{', '.join(target.compute.precisions)}; choose one of these"
        )
    check(job, precision)
    target = accumulating(job.accumulate, target, precision, graph)
    hosts = host_tensors(arrays, job.host_addresses, target, loaded=loaded, recorded=recorded)
    case = Case(
        target=target,
        precision=precision,
        model=graph.record(),
        graph=graph,
        inputs=tuple(h for h, _ in hosts),
        dims=job.dims,
        preprocessing=_per_input(job.preprocessing, arrays),
        synthesised=synthesised,
        manifest=job.manifest,
        sanitize=job.sanitize,
    )
    extra, failed = plugin_rules()
    findings = judge(case, 1, extra, failed) + judge(case, 2, extra, failed)
    writer = SessionWriter(job.save, keep_data=job.keep_data)
    try:
        golden.open()
        for host, _ in hosts:
            _record_host(writer, host)
        keep(writer, job, synthesised)
        request = Request(
            graph=graph,
            target=target,
            target_toml=target_toml,
            inputs=tuple(i for _, i in hosts),
            precision=precision,
            fused=job.fused,
            injections=injections(job.pokes),
            faults=[parse_fault(spec) for spec in job.faults],
            calibration=calibration,
            raised=job.raised,
            replace=job.replace,
            options=job.options,
            notes=tuple(notes),
            progress=progress,
            cancel=cancel,
        )
        refused = why_not_fed(case)
        outputs: Mapping[str, Any] = {}
        if refused:
            status = "not-run"
            write_meta(writer, request, "simulated")
        else:
            if calibration is None and job.calib is not None:
                found = calibration_of(job, graph, arrays)
                request = replace(
                    request, calibration=found, notes=(*request.notes, samples_note(found))
                )
            result = Simulated().run(request, writer)
            status, outputs = result.status, result.outputs
        _check_whole(whole, cancel)
        if progress is not None:
            progress(len(graph.nodes), len(graph.nodes), "judging the record")
        part = writer.finish(status=status)
        with Session.open(part) as session:
            judged, compared = golden.compared(
                _with_session(case, session), calibration=request.calibration, cancel=cancel
            )
            findings += judge(judged, 3, extra, failed) + judge(judged, 4, extra, failed)
            measured = counters(session, target)
        findings.sort(key=lambda f: f.layer or 9)
        answer = verdict(findings, case=judged, status=status)
        writer.amend(findings, answer, measured, compared)
        _check_whole(whole, cancel)
        return Judged(writer.publish(), findings, answer, status, outputs)
    except BaseException:
        writer.discard()
        raise
    finally:
        golden.close()


def _check_whole(whole: bool, cancel: threading.Event | None) -> None:
    from npudbg.session.errors import CancelledError

    if whole and cancel is not None and cancel.is_set():
        raise CancelledError("stopped before the end; nothing of the run was kept")


def feed_arrays(
    graph: Graph, job: Job
) -> tuple[dict[str, npt.NDArray[Any]], list[str], frozenset[str]]:
    """Read or synthesise the model's inputs.

    Returns:
        Arrays by name in the model's order, notes, and the names that were made up.
    """
    from npudbg.graph.feeds import assign, read_feed, synthesize
    from npudbg.graph.shapes import bind

    names = {c.name for c in (*graph.inputs, *graph.defaults)}
    feeds = [feed for spec in job.feeds for feed in read_feed(spec, names)]
    given = assign(graph, feeds)
    binding = bind(graph, {n: a.shape for n, a in given.items()}, job.dims)
    notes = list(binding.notes)
    made: list[str] = []
    arrays: dict[str, npt.NDArray[Any]] = {}
    for contract in graph.inputs:
        array = given.get(contract.name)
        if array is None:
            array = synthesize(contract, binding.shapes[contract.name], job.seed)
            made.append(contract.name)
        arrays[contract.name] = array
    arrays.update({n: a for n, a in given.items() if n not in arrays})
    if made:
        notes.append(f"inputs made up from the model's contract with --seed {job.seed}")
    return arrays, notes, frozenset(made)


def host_tensors(
    arrays: Mapping[str, npt.NDArray[Any]],
    addresses: Mapping[str, int],
    target: Target,
    *,
    loaded: bool,
    recorded: Mapping[str, TensorRecord] | None = None,
) -> list[tuple[HostTensor, HostInput]]:
    """Describe arrays as host tensors, and as buffers that a driver is handed.

    Args:
        arrays: By name.
        addresses: Where they are said to lie on the board.
        target: The profile.
        loaded: They are npudbg's own copies of files.
        recorded: Host tensors of an earlier run; an array of the same name stands for
            that tensor and lies where it lay.

    Raises:
        UserError: An address is given for an input that the model does not have.
    """
    from msgspec import structs

    from npudbg.agent.describe import describe, dtype_name, raw_copy
    from npudbg.backends.base import HostInput
    from npudbg.device.machine import HostBuffer
    from npudbg.layers.case import HostTensor
    from npudbg.session.errors import UserError
    from npudbg.session.records import TensorRecord
    from npudbg.session.text import safe

    unknown = [n for n in addresses if n not in arrays]
    if unknown:
        raise UserError(
            f"--host-address {safe(unknown[0])}: no such input; the model has "
            f"{', '.join(safe(n) for n in arrays)}"
        )
    alignment = max(target.dma.base_alignment or 1, target.tensor.base_alignment or 1, 64)
    found = []
    for number, (name, array) in enumerate(arrays.items()):
        before = None if recorded is None else recorded.get(name)
        if loaded and before is None:
            array = in_aligned_buffer(array, alignment)
        facts = describe(array, name)
        text = array.dtype.kind in "OSUT"
        address = addresses.get(name, facts["address"])
        if before is not None and before.address is not None:
            address = before.address
        record = TensorRecord(
            id=number,
            name=name,
            role="input",
            shape=tuple(array.shape),
            dtype="string" if text else dtype_name(array.dtype),
            strides=tuple(array.strides),
            address=address,
            space="host",
            address_origin="declared" if name in addresses else "measured",
            offset=0 if loaded else facts["offset"],
            base_nbytes=array.nbytes if loaded else facts["base_nbytes"],
            owner="npudbg" if loaded else facts["owner"],
            origin="measured",
        )
        if before is not None:
            record = structs.replace(
                record,
                address=address,
                address_origin=before.address_origin,
                owner=before.owner,
            )
        raw = b"" if text else raw_copy(array).data
        host = HostTensor(record, facts, array)
        found.append((host, HostInput(record, HostBuffer(array, address, raw))))
    return found


def in_aligned_buffer(array: npt.NDArray[Any], alignment: int) -> npt.NDArray[Any]:
    """Return an array with the same values, strides and byte order in an aligned buffer.

    What a good allocator would have done: npudbg's own loading must not look like
    the user's fault.  Only dense arrays (in C or F order) are moved.
    """
    import numpy as np

    dense = array.flags.c_contiguous or array.flags.f_contiguous
    if array.dtype.hasobject or not dense or array.ctypes.data % alignment == 0:
        return array
    base = np.empty(array.nbytes + alignment, np.uint8)
    start = -base.ctypes.data % alignment
    placed: npt.NDArray[Any] = np.ndarray(array.shape, array.dtype, base, start, array.strides)
    placed[...] = array
    return placed


def why_not_fed(case: Case) -> str:
    """Return why a runtime would refuse the inputs, or ``""``."""
    for host in case.inputs:
        contract = case.contract(host.name)
        if contract is None or contract.kind != "tensor":
            continue
        if host.record.dtype.lstrip("<>|=") != contract.dtype.lstrip("<>|="):
            return f"{host.name}: dtype"
        if contract.shape is None:
            continue
        if len(contract.shape) != len(host.record.shape):
            return f"{host.name}: rank"
        pairs = zip(contract.shape, host.record.shape, strict=True)
        if any(isinstance(n, int) and n >= 0 and n != m for n, m in pairs):
            return f"{host.name}: shape"
    return ""


def plugin_rules() -> tuple[Sequence[Any], Any]:
    """Return the plugins' rules, and what is told of one that fails."""
    from npudbg.plugins import loading

    plugins = loading.loaded()
    return plugins.rules, plugins.rule_failed


def _with_session(case: Case, session: Any) -> Case:
    from dataclasses import replace

    return replace(case, session=session)


def _record_host(writer: Any, host: HostTensor) -> None:
    import msgspec

    from npudbg.session.scan import scan

    record, array = host.record, host.array
    if array.dtype.kind in "OSUT":
        writer.add_tensor(record)
        return
    blob = writer.put_array(array)
    base = None
    if not array.flags.c_contiguous and array.size:
        from npudbg.agent.describe import base_bytes

        held = base_bytes(array)
        base = None if held is None else writer.put_bytes(bytes(held))
    offset = host.facts["offset"] if base is not None else record.offset
    writer.add_tensor(
        msgspec.structs.replace(record, blob=blob, base_blob=base, offset=offset, stats=scan(array))
    )


def _symbols(dims: Mapping[str, int]) -> dict[str, int]:
    return {k: v for k, v in dims.items() if "." not in k}


def _per_input(
    given: Mapping[str, Preprocessing], arrays: Mapping[str, Any]
) -> dict[str, Preprocessing]:
    everywhere = given.get("")
    found = dict.fromkeys(arrays, everywhere) if everywhere is not None else {}
    return {**found, **{n: p for n, p in given.items() if n}}
