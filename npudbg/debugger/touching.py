"""Which commands read, write or change a range of memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from npudbg.debugger.breakpoints import Chunk
from npudbg.debugger.context import Context
from npudbg.debugger.references import Range
from npudbg.debugger.state import View
from npudbg.session.commands import Kind, Space
from npudbg.session.memory.geometry import Ints

MOST_WATCHED = 4096
"""Longest range whose bytes are compared at every write."""
_KEPT = 64
_SHOWN = 8


class Touching:
    """Commands that read or write a range, or change its bytes.

    Args:
        context: The session and its state.
        where: The range.
        reads: Whether reading it counts.
        writes: Whether writing it counts, whatever is written.
        changes: Whether a write that leaves other bytes counts.
    """

    def __init__(
        self,
        context: Context,
        where: Range,
        *,
        reads: bool = False,
        writes: bool = False,
        changes: bool = False,
    ) -> None:
        """Watch a range."""
        self.context, self.where = context, where
        self.reads, self.writes, self.changes = reads, writes, changes
        self._changed: OrderedDict[int, Ints] = OrderedDict()
        self._places = np.arange(where.low, where.low + min(where.nbytes, MOST_WATCHED))

    def find(self, chunk: Chunk) -> Ints:
        """See :class:`~npudbg.debugger.breakpoints.Matcher`."""
        found = []
        if self.reads:
            found.append(self._readers(chunk))
        if self.writes:
            found.append(np.array([int(r["seq"]) for r in self._writers(chunk)], np.int64))
        if self.changes:
            found.append(self._changes(chunk))
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def why(self, seq: int) -> str:
        """See :class:`~npudbg.debugger.breakpoints.Matcher`."""
        where, state = self.where, self.context.state
        size = min(where.nbytes, MOST_WATCHED)
        # What a command reads is what the one before it left.
        before = state.memory_at(where.space, where.low, size, seq - 1)
        if not self.writes and not self.changes:
            return f"read {self._hex(before, 0)}"
        after = state.memory_at(where.space, where.low, size, seq)
        old, new = (np.frombuffer(view.data, np.uint8) for view in (before, after))
        differ = np.flatnonzero((old != new) | (before.written != after.written))
        if len(differ):
            at = int(differ[0])
            changed = f"{self._hex(before, at)} -> {self._hex(after, at)}"
            return f"{where.low + at:#010x}: {changed} ({len(differ)} of {where.nbytes} bytes)"
        mine = np.flatnonzero(after.writers == seq)
        if len(mine):
            at = int(mine[0])
            same = f"{self._hex(before, at)} -> {self._hex(after, at)}"
            return f"{where.low + at:#010x}: {same} ({len(mine)} bytes written, the same)"
        if state.written.wrote(self.context.session.command(seq)) and where.nbytes > size:
            return f"written, past the first {size:,} bytes"
        return f"read {self._hex(before, 0)}"

    def _hex(self, view: View, at: int) -> str:
        """Return some bytes of the range, and whether there are more."""
        stop = min(at + _SHOWN, len(view.data))
        more = " …" if at + _SHOWN < self.where.nbytes else ""
        return _hex(view.data[at:stop], view.written[at:stop]) + more

    # -- inside --------------------------------------------------------------------------

    def _writers(self, chunk: Chunk) -> list[Any]:
        """Return the rows of a chunk that write into the range."""
        where, state = self.where, self.context.state
        low, high = where.low, where.low + where.nbytes
        if not state.writes.coverage.touched(chunk.at, where.space, low, high):
            return []
        rows = chunk.rows
        hit = (rows["dst_space"] == where.space) & (rows["dst"] < high)
        hit &= rows["dst"] + rows["nbytes"] > low
        hits = np.flatnonzero(hit)
        hits = hits[state.written.writing(rows[hits])]
        if where.space == Space.SRAM or where.nbytes > MOST_WATCHED:
            return [rows[i] for i in hits.tolist()]
        return [rows[i] for i in hits.tolist() if state.written.covers(rows[i], self._places).any()]

    def _readers(self, chunk: Chunk) -> Ints:
        where = self.where
        low, high = where.low, where.low + where.nbytes
        reads = chunk.reads
        hit = (reads["space"] == where.space) & (reads["addr"] < high)
        hit &= reads["addr"] + reads["nbytes"] > low
        found = []
        for read in reads[hit]:
            if self._reads(chunk.rows[int(read["seq"]) - chunk.low], read):
                found.append(int(read["seq"]))
        return np.unique(np.array(found, np.int64))

    def _reads(self, row: Any, read: Any) -> bool:
        """Whether a transfer's read touches the range: it reads a box, not all between."""
        where, number = self.where, int(read["tensor"])
        if where.space != Space.DDR or int(row["kind"]) != Kind.DMA_LOAD:
            return True
        layout = self.context.state.written.layout(number)
        if layout is None or int(row["tensor"]) != number or where.nbytes > MOST_WATCHED:
            return True
        box = layout.box(row)
        base = int(read["addr"]) - layout.first(box)
        return bool(layout.gathered(box, self._places - base)[1].any())

    def _changes(self, chunk: Chunk) -> Ints:
        known = self._changed.get(chunk.at)
        if known is None:
            known = self._changed[chunk.at] = self._compare(chunk)
            if len(self._changed) > _KEPT:
                self._changed.popitem(last=False)
        return known

    def _compare(self, chunk: Chunk) -> Ints:
        """Run a chunk's writes over the range and note where bytes become others."""
        writers = self._writers(chunk)
        seen = self._seen(chunk)
        if not writers and not seen:
            return np.empty(0, np.int64)
        where, written = self.where, self.context.state.written
        size = len(self._places)
        view = self.context.state.memory_at(where.space, where.low, size, chunk.low - 1)
        data = np.frombuffer(view.data, np.uint8).copy()
        known = view.written.copy()
        found = []
        events = sorted([*((int(r["seq"]), r) for r in writers), *seen], key=_first)
        for seq, row in events:
            if row is None:
                # Found changed, or put there without a command: ask the state itself.
                fresh = self.context.state.memory_at(where.space, where.low, size, seq)
                new, sure = np.frombuffer(fresh.data, np.uint8), fresh.written
                if not np.array_equal(new, data) or not np.array_equal(sure, known):
                    found.append(seq)
                    data, known = new.copy(), sure.copy()
                continue
            mine = written.covers(row, self._places)
            bytes_, sure = written.bytes_at(row, self._places[mine])
            if not np.array_equal(bytes_, data[mine]) or not np.array_equal(sure, known[mine]):
                found.append(seq)
                data[mine], known[mine] = bytes_, sure
        return np.unique(np.array(found, np.int64))

    def _seen(self, chunk: Chunk) -> list[tuple[int, Any]]:
        """Return the commands of a chunk at which memory may be other without a write."""
        seqs = self.context.state.silent(self.where.space, self.where.low, len(self._places))
        return [(seq, None) for seq in seqs if chunk.low <= seq < chunk.high]


def _first(event: tuple[int, Any]) -> tuple[int, bool]:
    return event[0], event[1] is None


def _hex(data: bytes, written: Any) -> str:
    return " ".join(f"{b:02x}" if w else "--" for b, w in zip(data, written, strict=True))
