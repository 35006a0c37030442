"""Records of two sessions laid side by side; everywhere the first value is A's."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from npudbg.session.golden import Closeness
from npudbg.session.records import Finding, Origin, Record

TensorReason = Literal["values", "shape", "dtype", "strides", "only-a", "only-b", "not-kept"]


class Pair(Record, frozen=True):
    """One thing by name, and what it is in either session (None: not there)."""

    name: str
    a: Any = None
    b: Any = None


class CommandDifference(Record, frozen=True):
    """The first command at which two runs part.

    Attributes:
        seq: Its number.
        kind: Its kind in A (in B where A has no such command).
        node: Label of its node, ``""`` for none.
        tensor: Name of the tensor that it moves or makes, ``""`` for none.
        fields: Columns that differ: kind, start, src, status …
        wrote: Bytes that it wrote differently; None where not known.
        foreign: It read bytes that no command had written: in ``a``, ``b`` or both.
    """

    seq: int
    kind: str
    node: str = ""
    tensor: str = ""
    fields: tuple[Pair, ...] = ()
    wrote: int | None = None
    foreign: tuple[str, ...] = ()


class TensorDifference(Record, frozen=True):
    """A tensor that is not the same in both sessions.

    Attributes:
        name: The tensor.
        role: As in its record.
        node: Label of the node that makes it, ``""`` for an input or a weight.
        tensor: Its id in A (in B where A lacks it).
        reason: In what it differs.
        what: Shape, dtype or strides in either session.
        metrics: B's values beside A's, with no tolerance.
    """

    name: str
    role: str
    node: str
    tensor: int
    reason: TensorReason
    what: Pair | None = None
    metrics: Closeness | None = None


class Comparison(Record, frozen=True):
    """What differs between two sessions.

    Attributes:
        a: File of the first.
        b: File of the second.
        equal: Whether both runs did and made the same (options may differ).
        settings: Target, precision, options, faults and pokes that differ.
        command: The first differing command.
        commands: Number of commands.
        cycles: Last cycle.
        status: How the runs ended.
        tensors: Differing tensors in execution order, the first ones.
        differing: Number of differing tensors in all.
        compared: Tensors that are in both.
        outputs: The model's outputs that differ.
        counters: All counters.
        units: Unit of each counter.
        gained: Findings of B that A does not have.
        lost: Findings of A that B does not have.
        verdicts: Code of the finding on top, ``""`` for none.
        origins: Where the cycles of A and of B come from.
    """

    a: str
    b: str
    equal: bool
    settings: tuple[Pair, ...] = ()
    command: CommandDifference | None = None
    commands: Pair = Pair(name="commands")
    cycles: Pair = Pair(name="cycles")
    status: Pair = Pair(name="status")
    tensors: tuple[TensorDifference, ...] = ()
    differing: int = 0
    compared: int = 0
    outputs: tuple[TensorDifference, ...] = ()
    counters: tuple[Pair, ...] = ()
    units: dict[str, str] = msgspec.field(default_factory=dict)
    gained: tuple[Finding, ...] = ()
    lost: tuple[Finding, ...] = ()
    verdicts: Pair = Pair(name="verdict")
    origins: tuple[Origin, Origin] = ("simulated", "simulated")
