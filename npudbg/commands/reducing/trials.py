"""Trials of a reduction: nodes cut out of a recorded run, run again and judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudbg.commands.fault_site import operators
from npudbg.commands.reducing import bundle
from npudbg.commands.reducing import state as reduce_state
from npudbg.session.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.commands.reducing.search import Setting
    from npudbg.commands.reducing.state import State
    from npudbg.graph.cut import Cut
    from npudbg.graph.ir import Graph
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding

TRIAL = ".trial.npudbg"


class Trials:
    """Answers whether a set of nodes still shows the finding, each set once.

    Args:
        given: What stays the same.
        state: Answers so far; kept up on disk.
        session: The recorded run of the whole model.
        tell: Told of each step once its state is on disk.
    """

    def __init__(
        self, given: Setting, state: State, session: Session, tell: Callable[[str], None]
    ) -> None:
        """Read from the session what cuts need."""
        self._given, self._state, self._session, self._tell = given, state, session, tell
        self._constants = {
            n.outputs[0]: n for n in given.graph.nodes
            if n.op_type == "Constant" and "value" in n.attributes
        }  # fmt: skip
        self._static = {t.name for t in session.tensors if t.role == "constant"}
        self._static |= set(self._constants)
        # Through a tensor that is not finite a cut would feed the fault in, not show it made.
        self._faulty = {
            t.name for t in session.tensors
            if t.producer >= 0 and t.role != "constant" and t.stats and t.stats.nonfinite
        }  # fmt: skip
        types = given.graph.value_types
        self._types = {n: c.dtype for n, c in types.items() if c.kind == "tensor"}
        self._narrow = {"fp16": "<f2", "bf16": "bfloat16", "int8": "|i1"}.get(
            session.meta.precision, ""
        )

    def holds(self, nodes: Sequence[int]) -> bool:
        """Whether the nodes alone show the finding."""
        state = self._state
        name = reduce_state.key(nodes)
        if name not in state.tried:
            answer = self._try(nodes)
            state.tried[name] = answer
            if answer and (state.best is None or len(nodes) < len(state.best)):
                bundle.write_model(self._given.folder, self.cut(nodes))
                state.best = sorted(nodes)
            state.save()
            self._tell(
                f"step {len(state.tried)}: {len(nodes)} of {state.total} nodes "
                f"{'still show' if answer else 'do not show'} {state.code}; "
                f"best {len(state.best) if state.best else state.total}"
            )
        return state.tried[name]

    def cut(self, nodes: Collection[int]) -> Cut:
        """Return the nodes as a model."""
        from npudbg.graph.cut import cut

        return cut(
            self._given.graph,
            nodes,
            self._given.arrays,
            self._value,
            constants=self._static,
            blocked=self._faulty,
            weights=self._given.weights,
        )

    def _value(self, name: str) -> npt.NDArray[Any] | None:
        import numpy as np

        from npudbg.device.numerics import Numerics, Stored
        from npudbg.session.dtypes import NON_TENSOR, numpy_dtype

        if name in self._constants:
            return np.asarray(self._constants[name].attributes["value"], order="C")
        record = self._session.tensor(name)
        if record is None or record.blob is None or record.dtype in NON_TENSOR:
            return None
        array = self._session.array(record)
        if array is None:
            return None
        # The device's type widened: stored again it gives the same bytes.
        wide = self._types.get(name)
        if not wide or wide in NON_TENSOR:
            narrow = record.dtype == self._narrow and (
                record.dtype != "|i1" or record.quantization is not None
            )
            wide = "<f4" if narrow else record.dtype
        return Numerics().load(Stored(array, record.quantization), numpy_dtype(wide))

    def _try(self, nodes: Sequence[int]) -> bool:
        from npudbg.graph.cut import UncuttableError

        try:
            return shows(self._given, self.cut(nodes), self._state)
        except (UserError, UncuttableError):
            # A part that cannot be cut out or run shows nothing.
            return False


def shows(given: Setting, part: Cut, state: State) -> bool:
    """Whether a part of the model, run and judged, shows the finding."""
    return shown(given, part, state) is not None


@dataclass(frozen=True, slots=True)
class Shown:
    """What a part of the model shows.

    Attributes:
        finding: The one that is looked for.
        status: How the run ended.
        errors: Codes of all findings that are errors.
    """

    finding: Finding
    status: str
    errors: frozenset[str]


def shown(given: Setting, part: Cut, state: State) -> Shown | None:
    """Run and judge a part of the model; None if it does not show the state's finding."""
    from npudbg.commands.pipeline import judge_run
    from npudbg.graph.loader import from_proto
    from npudbg.session.reader import Session

    path = given.folder / TRIAL
    graph = from_proto(part.model, name="minimal.onnx")
    job = dataclasses.replace(job_of(given.job, part), save=str(path))
    try:
        judge_run(job, graph, given.target, part.feeds, target_toml=given.target_toml)
        with Session.open(path) as session:
            found = next((f for f in session.findings if _is(f, graph, session, state)), None)
            if found is None:
                return None
            errors = frozenset(f.code for f in session.findings if f.severity == "error")
            return Shown(found, session.status, errors)
    finally:
        path.unlink(missing_ok=True)


def _is(found: Finding, graph: Graph, session: Session, state: State) -> bool:
    """Whether a finding is of the state's code, as severe, and about the same operator."""
    if found.code != state.code or (state.severity == "error" != found.severity):
        return False
    wanted = set(state.operators)
    return not wanted or bool(wanted & set(operators(graph, session, found)))


def job_of(job: Job, part: Cut) -> Job:
    """Return a job with those of its options that a part of the model can take."""
    inputs = {v.name for v in part.model.graph.input}
    sizes = {f"{n}.{axis}": k for n, a in part.feeds.items() for axis, k in enumerate(a.shape)}
    for value in part.model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                sizes[dim.dim_param] = sizes.get(f"{value.name}.{axis}", 1)
    labels = {n.name for n in part.model.graph.node}
    made = {o for n in part.model.graph.node for o in n.output}
    return dataclasses.replace(
        job,
        dims={k: sizes[k] for k in job.dims if k in sizes},
        preprocessing={k: p for k, p in job.preprocessing.items() if not k or k in inputs},
        host_addresses={k: a for k, a in job.host_addresses.items() if k in inputs},
        raised=job.raised & labels,
        replace={k: a for k, a in job.replace.items() if k in made},
    )
