"""One selection that all panes follow: from any subject to everything that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npudbg.debugger.locations import first_load
from npudbg.session.commands import Space, space_name
from npudbg.session.errors import SessionError
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord

_SPACES = {"host": Space.HOST, "ddr": Space.DDR, "sram": Space.SRAM}


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected, completed from the record.

    Attributes:
        subject: What the user chose.
        finding: Index of the finding, if one was chosen.
        tensor: Tensor id.
        node: Node index.
        seq: Command.
        address: Address shown in the memory pane.
        space: Its space (a :class:`~npudbg.session.commands.Space`).
    """

    subject: Subject | None = None
    finding: int | None = None
    tensor: int | None = None
    node: int | None = None
    seq: int | None = None
    address: int | None = None
    space: int = Space.NONE


def resolve(session: Session, subject: Subject, finding: int | None = None) -> Selection:
    """Complete a subject: its tensor, node, command and address, where the record knows them."""
    tensor = _within(subject.tensor, len(session.tensors))
    node = _within(subject.node, len(session.nodes))
    seq = _within(subject.seq, session.n_commands)
    if tensor is None and subject.kind == "tensor" and subject.name:
        record = session.tensor(subject.name)
        tensor = record.id if record is not None else None
    if node is None and subject.kind in ("node", "operator") and subject.name:
        found = session.node(subject.name)
        node = found.index if found is not None else None
    address, space = subject.address, _SPACES.get(subject.space or "", Space.NONE)
    if seq is not None:
        row = session.command(seq)
        node = node if node is not None else _within(int(row["node"]), len(session.nodes))
        if tensor is None:
            tensor = _within(int(row["tensor"]), len(session.tensors))
        if address is None and int(row["dst_space"]) != Space.NONE:
            address, space = int(row["dst"]), int(row["dst_space"])
    if node is None and tensor is not None:
        node = _within(session.tensors[tensor].producer, len(session.nodes))
        if node is None:
            # An input or weight has no producer: where it is read tells more than nothing.
            readers = session.tensors[tensor].consumers
            node = _within(readers[0], len(session.nodes)) if readers else None
    if tensor is None and node is not None and subject.kind != "address":
        tensor = next(
            (t for t in map(_inside(session), session.nodes[node].outputs) if t is not None), None
        )
    if seq is None and subject.kind not in ("address", "model", "file", "target", "section"):
        seq = _command_of(session, tensor, node)
    if address is None and tensor is not None and session.tensors[tensor].address is not None:
        record = session.tensors[tensor]
        address, space = record.address, _SPACES.get(record.space, Space.NONE)
    return Selection(subject, finding, tensor, node, seq, address, int(space))


def of_command(session: Session, seq: int) -> Selection:
    """Return the selection of a command."""
    return resolve(session, Subject(kind="command", seq=seq))


def finding_of(session: Session, subject: Subject | None) -> int | None:
    """Return the index of the finding that points at exactly this subject."""
    if subject is None:
        return None
    return next((n for n, f in enumerate(session.findings) if f.subject == subject), None)


def subject_of(finding: Finding) -> Subject:
    """Return what selecting a finding opens: its subject, with a related one's command."""
    subject = finding.subject
    if subject.seq is not None or subject.kind not in ("tensor", "node"):
        return subject
    for other in finding.related:
        if other.seq is not None and (other.tensor, other.node) == (subject.tensor, subject.node):
            return other
    return subject


def step(session: Session, selection: Selection, up: bool) -> Subject | None:
    """Return the producer (``up``) or consumer of what is selected: the dirty one first."""
    node = selection.node
    if node is None:
        return None
    record = session.nodes[node]
    ids = [t for t in (record.inputs if up else record.outputs) if 0 <= t < len(session.tensors)]
    tensors = sorted((session.tensors[t] for t in ids), key=lambda t: not _dirty(t))
    for tensor in tensors:
        goals = [tensor.producer] if up else list(tensor.consumers)
        for goal in goals:
            if 0 <= goal < len(session.nodes) and goal != node:
                name = session.nodes[goal].label
                return Subject(kind="node", name=name, node=goal)
    return None


def tensor_at(session: Session, selection: Selection) -> TensorRecord | None:
    """Return the tensor whose bytes lie at the selected address; None if none is known to.

    SRAM holds tiles: what lies there is a part of the selected tensor.  Elsewhere the
    copies of a tensor differ in type, and the address says which copy is meant.
    """
    chosen = None if selection.tensor is None else session.tensors[selection.tensor]
    at = selection.address
    if at is None or selection.space == Space.SRAM:
        return chosen
    found = [] if chosen is None else [chosen]
    for tensor in (*found, *session.tensors):
        base = tensor.address
        if base is None or _SPACES.get(tensor.space) != selection.space:
            continue
        if base <= at < base + max(tensor.base_nbytes - tensor.offset, 1):
            return tensor
    return None


def address_text(selection: Selection) -> str:
    """Return ``sram 0x00062000`` or ``""``."""
    if selection.address is None:
        return ""
    return f"{space_name(selection.space)} {selection.address:#010x}"


def _command_of(session: Session, tensor: int | None, node: int | None) -> int | None:
    try:
        if tensor is not None and session.tensors[tensor].first_seq >= 0:
            return _within(session.tensors[tensor].first_seq, session.n_commands)
        if tensor is not None and session.tensors[tensor].producer < 0:
            loaded = _within(first_load(session, tensor), session.n_commands)
            if loaded is not None:
                return loaded
        if node is not None:
            first = session.nodes[node].first_seq
            if first < 0 and _never_reached(session, node):
                return _within(session.n_commands - 1, session.n_commands)
            return _within(first, session.n_commands)
    except SessionError:
        return None
    return None


def _never_reached(session: Session, node: int) -> bool:
    """Tell whether the run stopped before a node: nothing after it was run, either."""
    ended = session.status == "complete"
    return not ended and all(n.first_seq < 0 for n in session.nodes[node:])


def _dirty(tensor: Any) -> bool:
    return tensor.stats is not None and tensor.stats.nonfinite > 0


def _within(number: int | None, count: int) -> int | None:
    return number if number is not None and 0 <= number < count else None


def _inside(session: Session) -> Any:
    return lambda number: _within(number, len(session.tensors))
