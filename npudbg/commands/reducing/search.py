"""The smallest model that still shows a finding: recorded once, then cut and tried.

One run of the whole model records every tensor, so any set of nodes is a model of
its own: what it reads from outside becomes an input with the recorded values.
First the nodes around the finding are tried, in growing rings; then delta
debugging leaves nodes out; at last axes are halved and weights zeroed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.commands.fault_site import operators, sites
from npudbg.commands.reducing.shrink import shrink
from npudbg.commands.reducing.trials import Trials
from npudbg.commands.reducing.values import reduce_values
from npudbg.session.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.commands.reducing.state import State
    from npudbg.graph.cut import Cut
    from npudbg.graph.ir import Graph
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding
    from npudbg.targets.profile import Target

Told = Callable[[str], None]

RECORDING = "recording.npudbg"


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same in every trial.

    Attributes:
        job: Options; its what-ifs on weights and inputs are already part of the next two.
        graph: The model.
        arrays: Its inputs by name.
        weights: Values that take the place of the model's own.
        target: The profile.
        target_toml: Its text.
        folder: Where state and trials lie.
    """

    job: Job
    graph: Graph
    arrays: Mapping[str, npt.NDArray[Any]]
    weights: Mapping[str, npt.NDArray[Any]]
    target: Target
    target_toml: str
    folder: Path


def setting(job: Job, folder: Path) -> Setting:
    """Read a job's model, inputs and target.

    Raises:
        UserError: One is unreadable.
    """
    from npudbg.commands.pipeline import feed_arrays
    from npudbg.commands.whatif import applied
    from npudbg.graph import loader
    from npudbg.graph.specialise import specialise
    from npudbg.targets.loader import load_toml_text, toml_text

    text = toml_text(job.target)
    target = load_toml_text(text, job.target)
    graph = loader.load(job.model, dims={k: v for k, v in job.dims.items() if "." not in k})
    arrays, _, _ = feed_arrays(graph, job)
    graph, _ = specialise(graph, arrays)
    graph, fed, _ = applied(job, graph, arrays)
    weights = {n: graph.initializers[n].array() for n in job.replace if n in graph.initializers}
    inside = {n: a for n, a in job.replace.items() if graph.producer(n) is not None}
    job = dataclasses.replace(job, replace=inside, save=None)
    return Setting(job, graph, fed, weights, target, text, folder)


def record(given: Setting, state: State, wanted: str, tell: Told) -> Session | None:
    """Run the whole model once, or open the run that an earlier start recorded.

    Args:
        given: The setting.
        state: Told of the finding that is to be kept.
        wanted: Code of the finding to keep; ``""`` for the one that decides the verdict.
        tell: Told of progress.

    Returns:
        The session, or None if there is nothing at fault.

    Raises:
        UserError: There is no finding of that code.
    """
    from npudbg.commands.pipeline import judge_run
    from npudbg.session.reader import Session

    path = given.folder / RECORDING
    if not (state.code and path.exists()):
        tell(f"recording a run of the {len(given.graph.nodes)} nodes")
        job = dataclasses.replace(given.job, save=str(path))
        judge_run(job, given.graph, given.target, given.arrays, target_toml=given.target_toml)
    session = Session.open(path)
    if state.code:
        return session
    finding = _choose(session, wanted)
    if finding is None:
        session.close()
        return None
    state.code, state.severity = finding.code, finding.severity
    state.operators = operators(given.graph, session, finding)[:1]
    state.total = len(given.graph.nodes)
    state.save()
    return session


def reduce(given: Setting, state: State, session: Session, tell: Told) -> tuple[Cut, list[str]]:
    """Cut the model down, then its inputs and weights, going on from the state.

    Returns:
        The smallest part that shows the finding, and which of its weights and inputs are zero now.

    Raises:
        UserError: Not even the whole model shows it when it is run again.
    """
    finding = _choose(session, state.code)
    focus = [] if finding is None else sites(given.graph, session, finding)
    trials = Trials(given, state, session, tell)
    everything = [n.index for n in given.graph.nodes]
    start = next((r for r in _rings(given.graph, focus) if trials.holds(r)), None)
    if start is None:
        if not trials.holds(everything):
            raise UserError(
                f"{state.code} does not come back when the recorded run is repeated; "
                "it depends on something outside model, inputs and options"
            )
        start = everything
    for fewer in _without(given.graph, start, focus):
        if len(fewer) < len(start) and trials.holds(fewer):
            start = fewer
    best = shrink(start, trials.holds)
    state.best, state.done = sorted(best), True
    state.save()
    return reduce_values(given, state, trials.cut(best), tell)


def _choose(session: Session, code: str) -> Finding | None:
    verdict, findings = session.verdict, session.findings
    if code:
        found = next((f for f in findings if f.code == code), None)
        if found is None:
            seen = ", ".join(dict.fromkeys(f.code for f in findings)) or "none"
            raise UserError(f"--finding {code}: the run shows no such finding; it shows {seen}")
        return found
    if verdict is None or verdict.finding is None or not verdict.layer:
        return None
    return findings[verdict.finding]


def _without(graph: Graph, nodes: Sequence[int], focus: Sequence[int]) -> list[list[int]]:
    """Return the nodes without constants, and without what the focus does not hang on.

    One trial each, where delta debugging would come upon them one by one.
    """
    inside = set(nodes)
    plain = [i for i in nodes if graph.nodes[i].op_type != "Constant"]
    before = set(focus) & inside
    edge = list(before)
    while edge:
        node = graph.nodes[edge.pop()]
        found = {p.index for n in node.reads if (p := graph.producer(n)) is not None}
        edge += (found & inside) - before
        before |= found & inside
    chosen = [plain, [i for i in plain if i in before]] if before else [plain]
    return [each for each in chosen if each]


def _rings(graph: Graph, focus: Sequence[int]) -> list[list[int]]:
    """Return sets of nodes around the focus, each twice as far out as the one before."""
    rings: list[list[int]] = []
    if not focus:
        return rings
    rings += [[i] for i in focus] if len(focus) > 1 else []
    reached = set(focus)
    edge, radius = set(focus), 0
    goal = 0
    while len(reached) < len(graph.nodes):
        if radius >= goal:
            rings.append(sorted(reached))
            goal = max(1, goal * 2)
        near: set[int] = set()
        for index in edge:
            node = graph.nodes[index]
            near.update(p.index for n in node.reads if (p := graph.producer(n)) is not None)
            near.update(c.index for n in node.writes for c in graph.consumers(n))
        edge = near - reached
        if not edge:
            break
        reached |= edge
        radius += 1
    return rings
