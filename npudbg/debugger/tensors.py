"""Tensors as they were: which elements a command had made by then, and their values."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npudbg.debugger.state import OUTSIDE, State
from npudbg.session.commands import Kind, Rows, Space
from npudbg.session.errors import SessionError
from npudbg.session.memory.geometry import Bools, Layout
from npudbg.session.memory.writes import INITIAL
from npudbg.session.reader import Session
from npudbg.session.records import TensorRecord

Array = npt.NDArray[Any]

_KEPT = 16


class Snapshot(NamedTuple):
    """A tensor as it was.

    Attributes:
        array: Values; 0 where not known.
        written: Which elements had been made (all, for what was there before).
    """

    array: Array
    written: Bools


class _Painted:
    """A mask of elements made up to a row; grows as the cursor moves on."""

    def __init__(self, layout: Layout, shape: tuple[int, ...]) -> None:
        self.mask = np.zeros(shape, bool)
        self.count = 0
        self.full = False
        self.layout = layout

    def paint(self, rows: Rows, count: int) -> Bools:
        """Return the mask after the first ``count`` of ``rows``."""
        if count < self.count:
            self.mask = np.zeros(self.mask.shape, bool)
            self.count, self.full = 0, False
        if not self.full:
            for row in rows[self.count : count]:
                self.mask[tuple(slice(*pair) for pair in self.layout.box(row))] = True
            self.full = bool(self.mask.all())
        self.count = count
        return self.mask


class Tensors:
    """The tensors of a session, at any command.

    An element counts as made when a kernel or the host has computed it or a transfer
    has put it into the tensor's place; loading it into SRAM makes nothing.
    """

    def __init__(self, state: State) -> None:
        """Read from a session's state."""
        self.state = state
        self.session = state.session
        self._rows: OrderedDict[int, Rows] = OrderedDict()
        self._painted: OrderedDict[int, _Painted] = OrderedDict()

    def tensor_at(self, number: int, seq: int) -> Snapshot:
        """Return a tensor as it was after command ``seq``.

        Raises:
            SessionError: It is no plain tensor, or the session does not keep its bytes.
        """
        record = self.record(number)
        root = self.root(number)
        layout = self.state.written.layout(root)
        final = self.state.written.array(number if layout is None else root)
        if final is None:
            raise SessionError(
                f"tensor {number}: {_why(self.session, record)}; nothing can be shown of its values"
            )
        if layout is None:
            return Snapshot(final, np.ones(final.shape, bool))
        rows = self.rows(root)
        if not len(rows):
            final = self._changed(root, final, rows, seq)
            return Snapshot(final.reshape(record.shape), np.ones(record.shape, bool))
        count = int(np.searchsorted(rows["seq"], seq, "right"))
        painted = self._painted.get(root)
        if painted is None:
            painted = self._painted[root] = _Painted(layout, final.shape)
            if len(self._painted) > _KEPT:
                self._painted.popitem(last=False)
        mask = painted.paint(rows, count)
        array = self._values(layout, final, mask, rows[:count])
        array = self._changed(root, array, rows, seq)
        return Snapshot(array.reshape(record.shape), mask.reshape(record.shape).copy())

    def rows(self, number: int) -> Rows:
        """Return the commands that made a tensor, in order (none: it was there before)."""
        if number in self._rows:
            self._rows.move_to_end(number)
            return self._rows[number]
        found = self._find(self.record(number))
        self._rows[number] = found
        if len(self._rows) > _KEPT * 4:
            self._rows.popitem(last=False)
        return found

    def record(self, number: int) -> TensorRecord:
        """Return the tensor of that id.

        Raises:
            SessionError: There is none.
        """
        record = self.state.written.tensor(number)
        if record is None:
            raise SessionError(f"no tensor {number}; the session has {len(self.session.tensors)}")
        return record

    def root(self, number: int) -> int:
        """Return the tensor whose bytes a tensor is: itself, or what it is a view of."""
        for _ in range(64):
            record = self.record(number)
            if not 0 <= record.producer < len(self.session.nodes):
                return number
            node = self.session.nodes[record.producer]
            if node.kernel != "view" or not node.inputs:
                return number
            source = self.state.written.tensor(node.inputs[0])
            if source is None or source.address != record.address:
                return number
            number = source.id
        return number

    # -- inside --------------------------------------------------------------------------

    def _find(self, record: TensorRecord) -> Rows:
        """Return the rows that made a tensor: within its node's range, and its own."""
        spans = [(record.first_seq, record.last_seq)] if record.first_seq >= 0 else []
        if 0 <= record.producer < len(self.session.nodes):
            node = self.session.nodes[record.producer]
            if node.first_seq >= 0:
                spans.append((node.first_seq, node.last_seq))
        parts = []
        seen = -1
        for low, high in sorted(spans):
            rows = self.session.commands(max(low, seen + 1), high + 1)
            parts.append(rows[rows["tensor"] == record.id])
            seen = max(seen, high)
        payloads = self.state.written.payload_seqs
        for seq in payloads[payloads > seen].tolist() if len(payloads) < 10_000 else ():
            row = self.session.commands(seq, seq + 1)
            parts.append(row[row["tensor"] == record.id])
        if not parts:
            return self.session.commands(0, 0)
        rows = np.concatenate(parts)
        makes = self.state.written.writing(rows)
        makes &= ~((rows["kind"] == Kind.DMA_LOAD) & (rows["dst_space"] == Space.SRAM))
        return rows[makes]

    def _values(self, layout: Layout, final: Array, mask: Bools, rows: Rows) -> Array:
        """Return the values, where kept bytes say that the final ones came later."""
        written = self.state.written
        kept = np.isin(rows["seq"], written.payload_seqs)
        if not kept.any():
            return final if mask.all() else np.where(mask, final, np.zeros((), final.dtype))
        out = np.where(mask, final, np.zeros((), final.dtype))
        first = int(np.argmax(kept))
        for row in rows[first:]:
            box = layout.box(row)
            where = tuple(slice(*pair) for pair in box)
            kept_bytes = written.payload(int(row["seq"]))
            if kept_bytes is None:
                out[where] = final[where]
            elif len(kept_bytes) == layout.packed_nbytes(box):
                out[where] = kept_bytes.view(final.dtype).reshape(out[where].shape)
            else:
                self._lay(out, row, kept_bytes)
        return out

    def _changed(self, number: int, array: Array, rows: Rows, seq: int) -> Array:
        """Return the values with what came over the tensor's place in DDR since."""
        record = self.record(number)
        if record.address is None or record.space != "ddr":
            return array
        own = rows["seq"] if len(rows) else np.array([INITIAL])
        for at, nbytes in self.state.changed(Space.DDR, record.address, array.nbytes, seq):
            view = self.state.memory_at(Space.DDR, at, nbytes, seq)
            mine = view.writers == OUTSIDE
            # Another tensor may have come to lie there.
            mine &= np.isin(self.state.writer_of(Space.DDR, at, nbytes, seq), own)
            if mine.any():
                array = np.array(array, order="C")
                low = at - record.address
                raw = array.reshape(-1).view(np.uint8)[low : low + nbytes]
                raw[mine] = np.frombuffer(view.data, np.uint8)[mine]
        return array

    def _lay(self, out: Array, row: Any, data: npt.NDArray[np.uint8]) -> None:
        """Put a linear run of bytes (an evicted cache line) over a tensor's place in DDR."""
        address = self.record(int(row["tensor"])).address
        if address is None or int(row["dst_space"]) == Space.SRAM:
            return
        raw = out.reshape(-1).view(np.uint8)
        at = int(row["dst"]) - address
        low, high = max(at, 0), min(at + len(data), len(raw))
        if low < high:
            raw[low:high] = data[low - at : high - at]


def _why(session: Session, record: TensorRecord) -> str:
    if record.blob is None:
        kept = any(t.blob is not None for t in session.tensors)
        if kept and session.status != "complete" and record.producer >= 0:
            return "the run stopped before any of it was made"
        return "the session does not keep its bytes"
    return "it is no plain tensor"


def tensor_at(session: Session, number: int, seq: int) -> Snapshot:
    """Return a tensor as it was after command ``seq``; see :meth:`Tensors.tensor_at`.

    For one look; who looks more than once keeps a :class:`Tensors`.
    """
    return Tensors(State(session)).tensor_at(number, seq)
