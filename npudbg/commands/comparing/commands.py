"""The first command at which two recorded runs part.

Rows are compared column by column.  A row says nothing of the bytes that its
command wrote, so these are looked at, too: kept payloads, reads of bytes that
no command had written, and the tiles of tensors that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from npudbg.commands.comparing.tensors import Match, mask
from npudbg.session.comparison import CommandDifference, Pair

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.session.reader import Session
    from npudbg.session.records import TensorRecord

_COLUMNS = (
    "kind", "engine", "status", "start", "end", "src_space", "src", "dst_space", "dst", "nbytes",
    "node", "tensor", "tile", "box",
)  # fmt: skip
_STEP = 1 << 16


def first_difference(
    a: Session, b: Session, differing: Sequence[Match]
) -> CommandDifference | None:
    """Return the first command that is not the same in both sessions, or that wrote otherwise.

    Args:
        a: A session.
        b: Another.
        differing: The tensors whose values differ.
    """
    seqs = [
        seq
        for seq in (
            _first_row(a, b),
            _first_foreign(a, b),
            _first_payload(a, b),
            _first_tile(a, b, differing),
        )
        if seq is not None
    ]
    return _described(a, b, min(seqs)) if seqs else None


def _first_row(a: Session, b: Session) -> int | None:
    import numpy as np

    common = min(a.n_commands, b.n_commands)
    free = _free(a) and _free(b)
    for low in range(0, common, _STEP):
        x, y = (s.commands(low, min(low + _STEP, common)) for s in (a, b))
        wrong = np.zeros(len(x), bool)
        for column in _COLUMNS:
            unequal = x[column] != y[column]
            if column == "box":
                unequal = unequal.any(axis=(1, 2))
            if column == "status":
                unequal &= ~(_done(x) & _done(y))
            if free and column in ("src", "dst"):
                unequal &= ~_on_host(x, column) | ~_on_host(y, column)
            wrong |= unequal
        if wrong.any():
            return low + int(wrong.argmax())
    return common if a.n_commands != b.n_commands else None


def _free(session: Session) -> bool:
    """Whether npudbg itself chose where the inputs lie on the host: that means nothing."""
    inputs = [t for t in session.tensors if t.role == "input" and t.space == "host"]
    return all(t.owner == "npudbg" and t.address_origin != "declared" for t in inputs)


def _on_host(rows: Any, side: str) -> npt.NDArray[Any]:
    from npudbg.session.commands import Space

    found: npt.NDArray[Any] = rows[f"{side}_space"] == Space.HOST
    return found


def _done(rows: Any) -> npt.NDArray[Any]:
    """Return which commands completed; whether their bytes were touched is looked at apart."""
    from npudbg.session.commands import Status

    found: npt.NDArray[Any] = (rows["status"] == Status.OK) | (rows["status"] == Status.TOUCHED)
    return found


def _first_foreign(a: Session, b: Session) -> int | None:
    """Return the first command that read foreign bytes in one session and not the same in both."""
    left, right = set(a.observations), set(b.observations)
    for seq, operand in sorted(left | right):
        both = (seq, operand) in left and (seq, operand) in right
        if not both or a.observed(seq, operand) != b.observed(seq, operand):
            return int(seq)
    return None


def _first_payload(a: Session, b: Session) -> int | None:
    common = min(a.n_commands, b.n_commands)
    for seq in sorted({*a.payloads, *b.payloads}):
        if seq >= common or a.payload(seq) == b.payload(seq):
            continue
        if _wrote(a, b, seq) != 0:
            return int(seq)
    return None


def _first_tile(a: Session, b: Session, differing: Iterable[Match]) -> int | None:
    """Return the first command that wrote a differing element of a tensor."""
    best: int | None = None
    payloads = {*a.payloads, *b.payloads}
    for match in sorted(differing, key=lambda m: m.record.first_seq):
        record = match.a
        if record is None or record.first_seq < 0:
            continue
        if best is not None and record.first_seq >= best:
            break
        wrong = mask(a, b, match)
        if wrong is None:
            continue
        for row in _writes_of(a, record):
            seq = int(row["seq"])
            # What it really wrote is kept where the tensor was changed behind its back.
            kept = seq in payloads and _wrote(a, b, seq) == 0
            if not kept and _holds(row, wrong):
                best = seq if best is None else min(best, seq)
                break
    return best


def _writes_of(session: Session, record: TensorRecord) -> Any:
    rows = session.commands(record.first_seq, record.last_seq + 1)
    return rows[(rows["tensor"] == record.id) & (rows["dst_space"] != 0)]


def _holds(row: Any, wrong: npt.NDArray[Any]) -> bool:
    """Whether a command's tile holds an element that differs; a host operator writes all."""
    from npudbg.session.commands import box_slices

    box = row["box"][: wrong.ndim]
    whole = not (box[:, 1] > box[:, 0]).any()
    return bool((wrong if whole else wrong[box_slices(row, wrong.ndim)]).any())


def _described(a: Session, b: Session, seq: int) -> CommandDifference:
    from npudbg.session.commands import kind_name

    session = a if seq < a.n_commands else b
    row = session.command(seq)
    node, tensor = int(row["node"]), int(row["tensor"])
    record = session.tensors[tensor] if 0 <= tensor < len(session.tensors) else None
    both = seq < min(a.n_commands, b.n_commands)
    return CommandDifference(
        seq=seq,
        kind=kind_name(int(row["kind"])),
        node=session.nodes[node].label if 0 <= node < len(session.nodes) else "",
        tensor="" if record is None else record.name,
        fields=_fields(a, b, seq) if both else _only(a, seq),
        wrote=_wrote(a, b, seq) if both else None,
        foreign=tuple(
            name for name, s in (("a", a), ("b", b)) if any(o[0] == seq for o in s.observations)
        ),
    )


def _only(a: Session, seq: int) -> tuple[Pair, ...]:
    there = seq < a.n_commands
    return (Pair(name="there", a=there, b=not there),)


def _fields(a: Session, b: Session, seq: int) -> tuple[Pair, ...]:
    import numpy as np

    x, y = a.command(seq), b.command(seq)
    free = _free(a) and _free(b)
    found = []
    for column in _COLUMNS:
        if np.array_equal(x[column], y[column]):
            continue
        if free and column in ("src", "dst") and _on_host(x, column) and _on_host(y, column):
            continue
        found.append(Pair(name=column, a=_plain(a, x, column), b=_plain(b, y, column)))
    return tuple(found)


def _plain(session: Session, row: Any, column: str) -> Any:
    from npudbg.session.commands import Status, kind_name, space_name

    if column == "box":
        return row["box"].tolist()
    value = int(row[column])
    if column == "kind":
        return kind_name(value)
    if column in ("src_space", "dst_space"):
        return space_name(value)
    if column == "status":
        return Status(value).name.lower() if value in set(Status) else value
    if column == "engine":
        engines = session.meta.engines
        return engines[value] if value < len(engines) else value
    if column == "tensor" and 0 <= value < len(session.tensors):
        return session.tensors[value].name
    if column == "node" and 0 <= value < len(session.nodes):
        return session.nodes[value].label
    return value


def _wrote(a: Session, b: Session, seq: int) -> int | None:
    """Return how many bytes a command wrote differently."""
    import numpy as np

    one, other = _bytes(a, seq), _bytes(b, seq)
    if one is not None and other is not None and one.size == other.size:
        return int(np.count_nonzero(one != other))
    return None


def _bytes(session: Session, seq: int) -> Any:
    from npudbg.session.memory.written import Written

    return Written(session).packed(session.command(seq))
