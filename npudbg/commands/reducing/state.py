"""What a reduction knows, on disk after every step: an answer given once is never asked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.commands.durable import write_atomically
from npudbg.session.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.graph.ir import Graph

FILE = "reduce.json"
_FORMAT = "npudbg-reduce/2"
_MAX_BYTES = 256 << 20


@dataclass(slots=True)
class State:
    """A reduction under way.

    Attributes:
        path: ``reduce.json``.
        job: Digest of model, inputs and options; another job cannot go on from here.
        code: Of the finding that is kept.
        operators: Of its subject.
        severity: ``error`` must stay one.
        total: Nodes of the model.
        tried: Whether a set of nodes (:func:`key`), or one with other values, still shows
            the finding.
        best: The smallest set so far, as node indices; None before the first.
        done: Nothing more can be left out.
        mark: What the finding looks like in the smallest part, which stays so while its
            values are cut down.
        errors: Codes of all errors of that part.
    """

    path: Path
    job: str
    code: str = ""
    operators: Sequence[str] = ()
    severity: str = ""
    total: int = 0
    tried: dict[str, bool] = field(default_factory=dict)
    best: list[int] | None = None
    done: bool = False
    mark: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def save(self) -> None:
        """Write the state."""
        document = {
            "format": _FORMAT,
            "job": self.job,
            "code": self.code,
            "operators": list(self.operators),
            "severity": self.severity,
            "total": self.total,
            "steps": len(self.tried),
            "best": self.best,
            "done": self.done,
            "mark": self.mark,
            "errors": self.errors,
            "tried": self.tried,
        }
        write_atomically(self.path, json.dumps(document, indent=1).encode())


def key(nodes: Sequence[int]) -> str:
    """Return a set of nodes as a short text."""
    return f"{sum(1 << i for i in set(nodes)):x}"


def load(folder: Path, job: str) -> State:
    """Return the folder's state, or a new one if it has none.

    Raises:
        UserError: The state is another job's, or is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return State(path, job)
    where = f"--out {folder}"
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("too large")
        document = json.loads(path.read_bytes())
        if document["format"] != _FORMAT:
            raise ValueError("format")
        state = State(
            path,
            str(document["job"]),
            str(document["code"]),
            [str(o) for o in document["operators"]],
            str(document["severity"]),
            int(document["total"]),
            {str(k): bool(v) for k, v in document["tried"].items()},
            None if document["best"] is None else [int(i) for i in document["best"]],
            bool(document["done"]),
            [str(m) for m in document["mark"]],
            [str(e) for e in document["errors"]],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{where}: its {FILE} is damaged or of another version; remove the folder"
        ) from None
    if state.job != job:
        raise UserError(
            f"{where}: holds the reduction of another model, input or set of options; "
            "choose an empty folder, or remove it"
        )
    return state


def fingerprint(
    graph: Graph, arrays: Mapping[str, npt.NDArray[Any]], job: Job, more: Sequence[str]
) -> str:
    """Return a digest of all that a run depends on."""
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        for part in parts:
            raw = part if isinstance(part, bytes) else str(part).encode()
            digest.update(len(raw).to_bytes(8, "little") + raw)

    add(graph.sha256 or graph.model.SerializeToString(deterministic=True))
    for given in (arrays, job.replace):
        for name, array in sorted(given.items()):
            text = array.dtype.kind in "OSUT"
            values = repr(array.tolist()) if text else array.tobytes()
            add(name, array.dtype, array.shape, array.strides, values)
    add(
        sorted(job.dims.items()), job.precision, job.accumulate, sorted(job.preprocessing.items()),
        sorted(job.host_addresses.items()), job.fused, list(job.faults),
        sorted(job.manifest.items(), key=str), sorted(job.raised), *more,
    )  # fmt: skip
    return digest.hexdigest()
