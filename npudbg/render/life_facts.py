"""What a session holds of one tensor: its copies, commands, reads, waits and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from npudbg.render.life_findings import BIND, step_of
from npudbg.session.commands import ACCESS, COMMAND, Kind, Rows, Status
from npudbg.session.reader import Session
from npudbg.session.records import Finding, NodeRecord, TensorRecord
from npudbg.session.text import safe
from npudbg.targets.profile import Target

Mark = Literal["ok", "warn", "broken", "not recorded", "not needed"]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the steps of a tensor's life are told from.

    Attributes:
        session: The record.
        target: The profile, or None if the session carries none.
        asked: The tensor that was asked for.
        host: The host's array, where the tensor is an input of the model.
        device: The tensor in device memory.
        back: What the host saw of an output, where that was recorded.
        rows: Commands that move or make any of these, in order.
        reads: What commands read of them.
        waits: Shape (n, 2): start and end cycle of each WAIT that ended.
        lost: Number of each WAIT that never ended.
    """

    session: Session
    target: Target | None
    asked: TensorRecord
    host: TensorRecord | None
    device: TensorRecord | None
    back: TensorRecord | None
    rows: Rows
    reads: Rows
    waits: npt.NDArray[np.int64]
    lost: npt.NDArray[np.int64]

    @property
    def copies(self) -> tuple[TensorRecord, ...]:
        """The tensor's records: the host's first."""
        return tuple(t for t in (self.host, self.device, self.back) if t is not None)

    @property
    def name(self) -> str:
        """The tensor's name in the model."""
        return (self.host or self.device or self.asked).name

    def consumers(self) -> list[NodeRecord]:
        """Return the nodes that read it."""
        numbers = {t.id for t in self.copies}
        return [n for n in self.session.nodes if not numbers.isdisjoint(n.inputs)]

    def producer(self) -> NodeRecord | None:
        """Return the node that made it."""
        number = max((t.producer for t in self.copies), default=-1)
        return self.session.nodes[number] if 0 <= number < len(self.session.nodes) else None

    def findings(self) -> list[Finding]:
        """Return the findings on the tensor, on its commands, or on its nodes.

        Of its readers those count that concern what they are bound to; of its producer
        all others.
        """
        numbers = {t.id for t in self.copies}
        names = {safe(t.name) for t in self.copies}
        seqs = {*self.rows["seq"].tolist()}
        readers = {n.index for n in self.consumers()}
        made = self.producer()
        found = []
        for each in self.session.findings:
            subject = each.subject
            if subject.tensor is not None and subject.tensor >= 0:
                of = subject.tensor in numbers
            elif subject.kind == "tensor":
                of = subject.name in names
            elif subject.seq is not None:
                of = subject.seq in seqs
            elif step_of(each) == BIND:
                of = subject.kind in ("node", "operator") and subject.node in readers
            else:
                of = made is not None and subject.kind == "node" and subject.node == made.index
            if of:
                found.append(each)
        return found


def facts_of(session: Session, tensor: TensorRecord, target: Target | None) -> Facts:
    """Return what a session holds of a tensor and its copies."""
    host, device, back = _copies(session, tensor)
    numbers = [t.id for t in (host, device, back) if t is not None]
    rows, reads, waits = [np.empty(0, COMMAND)], [np.empty(0, ACCESS)], [np.empty(0, COMMAND)]
    for at, first in enumerate(session.chunk_starts):
        chunk = session.chunk(at)
        rows.append(chunk[np.isin(chunk["tensor"], numbers)])
        waits.append(chunk[chunk["kind"] == Kind.WAIT])
        accesses = session.accesses(first, first + len(chunk))
        reads.append(accesses[np.isin(accesses["tensor"], numbers)])
    wait = np.concatenate(waits)
    ended = wait[wait["status"] == Status.OK]
    return Facts(
        session=session,
        target=target,
        asked=tensor,
        host=host,
        device=device,
        back=back,
        rows=np.concatenate(rows),
        reads=np.concatenate(reads),
        waits=np.stack((ended["start"], ended["end"]), axis=1),
        lost=wait["seq"][wait["status"] == Status.HUNG],
    )


def _copies(
    session: Session, tensor: TensorRecord
) -> tuple[TensorRecord | None, TensorRecord | None, TensorRecord | None]:
    """Return the host's, the device's and the read-back copy of a tensor.

    The device's copy of input ``x`` is recorded as ``x@ddr``, what the host saw of
    output ``y`` as ``y@host``; a model may use such names too, so role and space count.
    """
    name = tensor.name
    if tensor.role == "input":
        if tensor.space == "host":
            other = session.tensor(f"{name}@ddr")
            twin = other is not None and other.role == "input" and other.space == "ddr"
            return tensor, other if twin else None, None
        other = session.tensor(name.removesuffix("@ddr")) if name.endswith("@ddr") else None
        twin = other is not None and other.role == "input" and other.space == "host"
        return other if twin else None, tensor, None
    if name.endswith("@host"):
        other = session.tensor(name.removesuffix("@host"))
        if other is not None and other.role == "output":
            return None, other, tensor
    seen = session.tensor(f"{name}@host") if tensor.role == "output" else None
    return None, tensor, seen if seen is not None and seen.space == "host" else None
