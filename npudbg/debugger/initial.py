"""What lies in memory though no command wrote it: weights, constants, host buffers.

A weight lies in DDR when the node that first needs it starts.  Before that its
range can have been another tensor's, so each place has the command from which it
counts; where nothing else was written, it has been there from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npudbg.session.commands import Space
from npudbg.session.memory.geometry import Ints
from npudbg.session.memory.written import Bytes, Written
from npudbg.session.records import NodeRecord, TensorRecord

_SPACES = {"host": Space.HOST, "ddr": Space.DDR, "sram": Space.SRAM}


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor that lies in memory without a write.

    Attributes:
        tensor: Its id.
        base: First address.
        nbytes: Length.
        since: Command before which it was put there.
    """

    tensor: int
    base: int
    nbytes: int
    since: int


class Residents:
    """All of them, by address."""

    def __init__(self, written: Written) -> None:
        """Find them when first asked."""
        self._written = written
        self._base_bytes: dict[int, Bytes] = {}

    def within(self, space: int, low: int, high: int) -> list[Resident]:
        """Return those that touch a range, those that came last first."""
        bases, ends, found = self._by_space.get(int(space), _NOTHING)
        hits = np.flatnonzero((bases < high) & (ends > low)).tolist()
        return sorted((found[i] for i in hits), key=lambda r: -r.since)

    def data(self, resident: Resident) -> Bytes | None:
        """Return its bytes as they lie in memory."""
        record = self._written.tensor(resident.tensor)
        if record is None:
            return None
        if record.base_blob is None:
            return self._written.raw(resident.tensor)
        if resident.tensor not in self._base_bytes:
            if len(self._base_bytes) > 8:
                self._base_bytes.clear()
            kept = self._written.session.blob(record.base_blob)
            self._base_bytes[resident.tensor] = np.frombuffer(kept, np.uint8)
        return self._base_bytes[resident.tensor]

    @cached_property
    def _by_space(self) -> dict[int, tuple[Ints, Ints, list[Resident]]]:
        spaces: dict[int, list[Resident]] = {}
        for space, resident in self._all():
            spaces.setdefault(space, []).append(resident)
        return {
            space: (
                np.array([r.base for r in found], np.int64),
                np.array([r.base + r.nbytes for r in found], np.int64),
                found,
            )
            for space, found in spaces.items()
        }

    def _all(self) -> Iterator[tuple[int, Resident]]:
        session = self._written.session
        for record in session.tensors:
            space = _SPACES.get(record.space)
            if record.address is None or record.first_seq >= 0 or space is None:
                continue
            if record.blob is None and record.base_blob is None:
                continue
            if record.base_blob is not None:
                start = record.address - record.offset
                yield int(space), Resident(record.id, start, record.base_nbytes, 0)
                continue
            layout = self._written.layout(record.id)
            if layout is not None:
                since = 0 if space == Space.HOST else self._since(record)
                yield int(space), Resident(record.id, record.address, layout.nbytes, since)

    def _since(self, record: TensorRecord, depth: int = 0) -> int:
        """Return the first command of the first node that reads a tensor, also as a view."""
        session = self._written.session
        firsts = []
        for index in record.consumers:
            if not 0 <= index < len(session.nodes):
                continue
            node: NodeRecord = session.nodes[index]
            if node.first_seq >= 0:
                firsts.append(node.first_seq)
            elif node.kernel == "view" and depth < 8:
                views = (self._written.tensor(t) for t in node.outputs)
                firsts += [self._since(v, depth + 1) for v in views if v is not None]
        return min(firsts, default=0)


_NOTHING: tuple[Ints, Ints, list[Resident]] = (np.empty(0, np.int64), np.empty(0, np.int64), [])
