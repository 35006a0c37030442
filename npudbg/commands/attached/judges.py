"""The rules of layers 1, 2 and 4 put to an attached program's calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from npudbg.commands.attached.debugger import Judges

if TYPE_CHECKING:
    from npudbg.backends.attached_events import AttachedCall, AttachedSession
    from npudbg.backends.attached_record import Placed
    from npudbg.graph.ir import Graph
    from npudbg.layers.case import Case, HostTensor
    from npudbg.layers.findings import Rule
    from npudbg.session.records import Finding, Subject
    from npudbg.targets.profile import Target

MAX_WAITING = 256
"""Calls in flight whose inputs are remembered for the judgement of their outputs."""


ALWAYS_JUDGED = 8
"""Calls whose outputs are judged in full, whatever they look like."""


class Bench:
    """Holds what judging needs between the events: the target, models, calls in flight."""

    def __init__(
        self,
        target: Target,
        *,
        precision: str = "fp32",
        rules: Sequence[Rule] = (),
        failed: Callable[[Rule, Exception], None] | None = None,
    ) -> None:
        """Judge by a profile.

        Args:
            target: The profile.
            precision: What the chip would compute in.
            rules: Rules of plugins, beside npudbg's own.
            failed: Told of a plugin's rule that raised.
        """
        self.target = target
        self.precision = precision
        self._rules, self._failed = rules, failed
        self.notes: list[str] = []
        self._graphs: dict[str, Graph | None] = {}
        self._inputs: dict[tuple[int, int], list[Placed]] = {}
        self._known: dict[tuple[Any, ...], list[Finding]] = {}
        self._judged = 0

    def judges(self) -> Judges:
        """Return the two functions that the debugger calls."""
        return Judges(self.inputs, self.outputs)

    def inputs(self, call: AttachedCall, placed: list[Placed]) -> list[Finding]:
        """Judge the arrays of a call before it is made: layers 1 and 2."""
        from npudbg.layers.case import Case

        if len(self._inputs) >= MAX_WAITING:
            self._inputs.pop(next(iter(self._inputs)))
        self._inputs[call.program.pid, call.number] = placed
        graph = self._graph(call.session)
        case = Case(
            target=self.target,
            precision=self.precision,
            model=self._model(call.session, graph),
            graph=graph,
            inputs=tuple(_host_tensors(placed)),
            unread=frozenset(p.record.name for p in placed if p.value.array is None),
        )
        return self._judge(case, 1) + self._judge(case, 2)

    def outputs(self, call: AttachedCall, placed: list[Placed]) -> list[Finding]:
        """Judge the results of a call: layer 4, on a session of that one call.

        In a long loop a session a call would cost more than the calls: beyond the
        first :data:`ALWAYS_JUDGED`, outputs of a kind that was seen before
        (non-finite, at the limits, constant or not) get the findings of then.
        """
        self._judged += 1
        kind = (call.session.model.name if call.session else "", *map(_kind_of, placed))
        if self._judged > ALWAYS_JUDGED and kind in self._known:
            self._inputs.pop((call.program.pid, call.number), None)
            return self._known[kind]
        found = self._judge_outputs(call, placed)
        if len(self._known) < MAX_WAITING:
            self._known[kind] = found
        return found

    def _judge_outputs(self, call: AttachedCall, placed: list[Placed]) -> list[Finding]:
        from npudbg.layers.case import Case
        from npudbg.session.reader import Session
        from npudbg.session.writer import SessionWriter

        before = self._inputs.pop((call.program.pid, call.number), [])
        graph = self._graph(call.session)
        model = self._model(call.session, graph)
        together = [*before, *placed]
        writer = SessionWriter()
        try:
            _write_call(writer, call, before, placed, model)
            writer.close()
            with Session.open(writer.path) as session:
                case = Case(
                    target=self.target,
                    precision=self.precision,
                    model=model,
                    graph=graph,
                    inputs=tuple(_host_tensors(before)),
                    session=session,
                )
                found = self._judge(case, 4)
        finally:
            writer.discard()
        return [_renumbered(f, together) for f in found]

    def _judge(self, case: Case, layer: int) -> list[Finding]:
        from npudbg.layers.findings import judge

        return judge(case, layer, self._rules, self._failed)

    def _graph(self, session: AttachedSession | None) -> Graph | None:
        """Return the session's model, read from its file or bytes; None where it cannot be."""
        from npudbg.session.errors import UserError

        if session is None or (not session.model.path and session.data is None):
            return None
        key = session.model.path or f"{session.program.pid}/{session.number}"
        if key not in self._graphs:
            try:
                self._graphs[key] = _read_model(session)
            except UserError as error:
                self._graphs[key] = None
                self.notes.append(f"model not read, only its contract is known: {error}")
        return self._graphs[key]

    @staticmethod
    def _model(session: AttachedSession | None, graph: Graph | None) -> Any:
        if graph is not None:
            return graph.record()
        return None if session is None else session.model


def _kind_of(placed: Placed) -> tuple[Any, ...]:
    """Return what sets an output apart for the rules, without its values."""
    record, stats = placed.record, placed.record.stats
    if stats is None:
        return record.name, record.dtype, record.shape
    marks = stats.nan, stats.pos_inf, stats.neg_inf, stats.at_min, stats.at_max
    flags = tuple(n > 0 for n in marks)
    return record.name, record.dtype, record.shape, flags, stats.min == stats.max


def _read_model(session: AttachedSession) -> Graph:
    from npudbg.graph.loader import from_proto, load
    from npudbg.session.errors import UserError

    if session.data is None:
        return load(session.model.path)
    import hashlib

    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    data = bytes(session.data)
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise UserError("the bytes passed to InferenceSession are no ONNX model") from None
    digest = hashlib.sha256(data).hexdigest()
    return from_proto(proto, name=session.model.name, sha256=digest, nbytes=len(data))


def _host_tensors(placed: Sequence[Placed]) -> list[HostTensor]:
    from npudbg.layers.case import HostTensor

    return [
        HostTensor(p.record, p.value.facts, p.value.array)
        for p in placed
        if p.value.array is not None
    ]


def _write_call(
    writer: Any, call: AttachedCall, before: Sequence[Placed], after: Sequence[Placed], model: Any
) -> None:
    import msgspec

    from npudbg.session.records import Meta, NodeRecord

    writer.set_meta(Meta(backend="attached", model=model, engines=("host",)))
    ids = []
    for number, each in enumerate([*before, *after]):
        array = each.value.array
        blob = None if array is None else writer.put_array(array)
        made = 0 if number >= len(before) else -1
        writer.add_tensor(
            msgspec.structs.replace(each.record, id=number, blob=blob, producer=made, consumers=())
        )
        ids.append(number)
    writer.add_node(
        NodeRecord(
            index=0,
            name=f"call {call.number}",
            op_type=f"InferenceSession.{call.api}",
            domain="onnxruntime",
            inputs=tuple(ids[: len(before)]),
            outputs=tuple(ids[len(before) :]),
            kernel="host",
            engine="host",
        )
    )


def _renumbered(finding: Finding, placed: Sequence[Placed]) -> Finding:
    """Return a finding on the one call's session as one on the whole run's."""
    import msgspec

    def moved(subject: Subject) -> Subject:
        if subject.tensor is None or not 0 <= subject.tensor < len(placed):
            return subject
        number = placed[subject.tensor].record.id
        return msgspec.structs.replace(subject, tensor=None if number < 0 else number)

    return msgspec.structs.replace(
        finding,
        subject=moved(finding.subject),
        related=tuple(moved(s) for s in finding.related),
    )
