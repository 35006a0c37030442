"""Which nodes must stay in fp32: found by leaving groups out, proven by running with the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudbg.commands.advising.metric import Metric, good, measure
from npudbg.commands.calibrating import calibration_of
from npudbg.commands.reducing.shrink import shrink
from npudbg.session.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.graph.ir import Graph, Node
    from npudbg.session.records import TensorRecord
    from npudbg.targets.profile import Target

    Outputs = Mapping[str, npt.NDArray[Any]]

_LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}


@dataclass(slots=True)
class Advice:
    """What was found.

    Attributes:
        nodes: The nodes to raise, in execution order; none if none need be.
        reached: Whether the demands are met with these.
        smallest: Whether leaving out any one of them was tried and fails.
        runs: Runs of the model.
        before: Worst value by metric, nothing raised.
        after: The same with the nodes raised.
        first: Where the trouble starts, one line; "" where no value is lost.
    """

    nodes: list[Node] = field(default_factory=list)
    reached: bool = True
    smallest: bool = True
    runs: int = 0
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    first: str = ""


class _SpentError(Exception):
    """No more runs are allowed."""


def advise(
    job: Job, metrics: Sequence[Metric], max_runs: int, tell: Callable[[str], None]
) -> Advice:
    """Find the nodes to raise.

    Args:
        job: Model, inputs, target and the narrow precision.
        metrics: What good outputs are.
        max_runs: Runs at most; the list then is good but may not be the shortest.
        tell: Told of progress.

    Raises:
        UserError: The model does not run to its end.
    """
    from npudbg.commands.pipeline import feed_arrays
    from npudbg.commands.whatif import applied
    from npudbg.graph import loader
    from npudbg.graph.specialise import specialise
    from npudbg.targets.loader import load_toml_text, toml_text

    target = load_toml_text(toml_text(job.target), job.target)
    graph = loader.load(job.model, dims={k: v for k, v in job.dims.items() if "." not in k})
    arrays, _, _ = feed_arrays(graph, job)
    graph, _ = specialise(graph, arrays)
    graph, fed, _ = applied(job, graph, arrays)
    return _Search(job, graph, target, fed, metrics, max_runs, tell).advice()


class _Search:
    def __init__(
        self,
        job: Job,
        graph: Graph,
        target: Target,
        arrays: Outputs,
        metrics: Sequence[Metric],
        max_runs: int,
        tell: Callable[[str], None],
    ) -> None:
        self.job, self.graph, self.target, self.arrays = job, graph, target, arrays
        self.metrics, self.max_runs, self.tell = metrics, max_runs, tell
        self.precision = job.precision or target.compute.default_precision
        self.calibration = None if job.calib is None else calibration_of(job, graph, arrays)
        self.golden: Outputs = {}
        self.runs = 0
        self.best: list[str] | None = None
        self.outputs: dict[frozenset[str], dict[str, float]] = {}

    def advice(self) -> Advice:
        narrow, tensors = self._run(self.precision, self.job.raised)
        first = _first_lost(self.graph, tensors)
        golden, wide = self._run("fp32", frozenset())
        self.golden = {n: a for n, a in golden.items() if _numbers(a)}
        before = self._values(narrow)
        if good(self.metrics, narrow, self.golden):
            return Advice(runs=self.runs, before=before, after=before)
        everything = list(
            dict.fromkeys(n.label for n in self.graph.nodes if n.op_type != "Constant")
        )
        start = self._beyond_range(wide)
        smallest = True
        try:
            if not (start and self._holds(start)):
                start = everything
                if not self._holds(start):
                    return Advice(
                        self._nodes(start), False, False, self.runs, before,
                        self.outputs[frozenset(start)], first,
                    )  # fmt: skip
            self.best = shrink(start, self._holds)
        except _SpentError:
            smallest = False
            if self.best is None:
                raise UserError(
                    f"--max-runs {self.max_runs}: too few to try a single list; give more"
                ) from None
        assert self.best is not None
        after = self.outputs[frozenset(self.best)]
        return Advice(self._nodes(self.best), True, smallest, self.runs, before, after, first)

    def _holds(self, labels: Sequence[str]) -> bool:
        key = frozenset(labels)
        if key not in self.outputs:
            if self.runs >= self.max_runs:
                raise _SpentError
            got, _ = self._run(self.precision, key | self.job.raised)
            self.outputs[key] = self._values(got)
            enough = self._good(key)
            if enough and (self.best is None or len(labels) < len(self.best)):
                self.best = list(labels)
            self.tell(
                f"run {self.runs}: {len(labels)} nodes in fp32, outputs "
                f"{'good' if enough else 'not good'}"
            )
        return self._good(key)

    def _good(self, key: frozenset[str]) -> bool:
        return all(m.holds(self.outputs[key][str(m)]) for m in self.metrics)

    def _values(self, got: Outputs) -> dict[str, float]:
        return {str(m): measure(m, got, self.golden) for m in self.metrics}

    def _beyond_range(self, wide: Sequence[TensorRecord]) -> list[str]:
        """Return the nodes whose fp32 results the narrow type cannot hold: they must be raised."""
        largest = _LARGEST.get(self.precision)
        found = set()
        for tensor in wide:
            stats = tensor.stats
            if largest is None or stats is None or tensor.producer < 0 or stats.max is None:
                continue
            if max(abs(stats.max), abs(stats.min or 0.0)) > largest:
                found.add(tensor.producer)
        return [self.graph.nodes[i].label for i in sorted(found)]

    def _nodes(self, labels: Collection[str]) -> list[Node]:
        chosen = set(labels)
        return [n for n in self.graph.nodes if n.label in chosen]

    def _run(
        self, precision: str, raised: Collection[str]
    ) -> tuple[dict[str, Any], list[TensorRecord]]:
        """Run once; returns the outputs and the tensors' records with their statistics."""
        from npudbg.backends.base import Request
        from npudbg.backends.simulated import Simulated
        from npudbg.commands.accumulating import accumulating
        from npudbg.commands.pipeline import host_tensors
        from npudbg.session.reader import Session
        from npudbg.session.writer import SessionWriter

        self.runs += 1
        target = self.target
        if precision != "fp32":
            target = accumulating(self.job.accumulate, target, precision, self.graph)
        hosts = host_tensors(self.arrays, {}, target, loaded=True)
        writer = SessionWriter(None, keep_data=False)
        try:
            request = Request(
                self.graph, target, inputs=tuple(i for _, i in hosts), precision=precision,
                fused=self.job.fused, raised=frozenset(raised), replace=self.job.replace,
                calibration=None if precision == "fp32" else self.calibration,
            )  # fmt: skip
            for host, _ in hosts:
                writer.add_tensor(host.record)
            result = Simulated().run(request, writer)
            if result.status != "complete":
                raise UserError(
                    f"the run in {precision} does not end ({result.status}: {result.message}); "
                    "see what `npudbg check` says first"
                )
            with Session.open(writer.finish(status=result.status)) as session:
                return dict(result.outputs), list(session.tensors)
        finally:
            writer.discard()


def _first_lost(graph: Graph, tensors: Sequence[TensorRecord]) -> str:
    """Return where NaN or Inf starts in the narrow run, in words."""
    from npudbg.session.text import safe

    bad = {t.name: t for t in tensors if t.stats is not None and t.stats.nonfinite}
    for node in graph.nodes:
        hit = next((n for n in node.writes if n in bad), None)
        if hit is not None and not any(n in bad for n in node.reads):
            stats = bad[hit].stats
            assert stats is not None
            return (
                f"NaN or Inf starts at {safe(node.label)} ({safe(node.op_type)}): "
                f"{stats.nonfinite} of {stats.count} elements of {safe(hit)}"
            )
    return ""


def _numbers(array: Any) -> bool:
    return getattr(getattr(array, "dtype", None), "kind", "O") not in "OSUT"
