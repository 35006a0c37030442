"""Watching a tensor, or a part of one: who makes it, who changes it, who reads it."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.debugger.breakpoints import At, Chunk
from npudbg.debugger.context import Context
from npudbg.debugger.parts import Part, first_values
from npudbg.debugger.references import Selection, TensorRef
from npudbg.session.memory.geometry import Ints


class TensorWatch:
    """Commands that make, change or read a tensor's elements.

    The elements are the tensor's own wherever they lie: a kernel makes them in SRAM, a
    transfer then carries the same values to DDR, which is no change.

    Args:
        context: The session and its state.
        ref: The tensor and the part of it.
        reads: Whether reading counts.
        writes: Whether writing counts, whatever is written.
        changes: Whether a write that leaves other values counts.
    """

    def __init__(
        self,
        context: Context,
        ref: TensorRef,
        *,
        reads: bool = False,
        writes: bool = False,
        changes: bool = False,
    ) -> None:
        """Watch a tensor."""
        self.context, self.ref = context, ref
        self.reads, self.writes, self.changes = reads, writes, changes
        tensors = context.tensors
        self.number = tensors.root(ref.record.id)
        same = tensors.record(self.number).shape == ref.record.shape
        # A view of another shape: its elements cannot be named in the other's boxes.
        self.selection: Selection = ref.selection if same else ()
        self.exact = same

    def find(self, chunk: Chunk) -> Ints:
        """See :class:`~npudbg.debugger.breakpoints.Matcher`."""
        found = []
        if self.writes:
            found.append(At(self._written).find(chunk))
        if self.changes:
            found.append(At(self._changed).find(chunk))
        if self.reads:
            found.append(self._readers(chunk))
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def why(self, seq: int) -> str:
        """See :class:`~npudbg.debugger.breakpoints.Matcher`."""
        # What a command reads is what the one before it left.
        before = self._part(seq - 1)
        if not self.writes and not self.changes:
            return f"read {first_values(before)}"
        after = self._part(seq)
        differ = np.flatnonzero(before.differs(after))
        if len(differ):
            return self._told(before, after, int(differ[0]), f"{len(differ):,}", "elements")
        if not self._wrote(seq):
            return f"read {first_values(before)}"
        inside = np.flatnonzero(self._in_box(self.context.session.command(seq), before))
        if not len(inside):
            return "written, the same values"
        return self._told(before, after, int(inside[0]), f"{len(inside):,}", "written, the same")

    # -- inside --------------------------------------------------------------------------

    @cached_property
    def _written(self) -> list[int]:
        rows = self.context.tensors.rows(self.number)
        return [int(r["seq"]) for r in rows if self._meets(r)]

    @cached_property
    def _changed(self) -> list[int]:
        found = []
        before: tuple[bytes, bytes] | None = None
        for seq in self._written:
            if before is None:
                before = self._bytes(seq - 1)
            after = self._bytes(seq)
            if after != before:
                found.append(seq)
            before = after
        return found

    def _readers(self, chunk: Chunk) -> Ints:
        reads = chunk.reads
        mine = reads[reads["tensor"] == self.number]
        found = [int(r["seq"]) for r in mine if self._read_meets(chunk, r)]
        return np.unique(np.array(found, np.int64))

    def _read_meets(self, chunk: Chunk, read: Any) -> bool:
        if not self.selection:
            return True
        row = chunk.rows[int(read["seq"]) - chunk.low]
        if int(row["tensor"]) == self.number:
            return self._meets(row)
        # A kernel reads the region that the command before it had put into SRAM.
        by = int(read["by"])
        if 0 <= by < self.context.session.n_commands:
            maker = self.context.session.command(by)
            if int(maker["tensor"]) == self.number:
                return self._meets(maker)
        return True

    def _meets(self, row: Any) -> bool:
        """Whether a row's box holds one of the elements."""
        if not self.selection:
            return True
        layout = self.context.state.written.layout(self.number)
        if layout is None:
            return True
        box = layout.box(row)
        if layout.packed_nbytes(box) == 0:
            return True
        for pick, size, (start, stop) in zip(self.selection, layout.dims, box, strict=False):
            picked = range(size)[pick]
            inside = range(picked, picked + 1) if isinstance(picked, int) else picked
            if not any(start <= i < stop for i in _ends_first(inside)):
                return False
        return True

    def _bytes(self, seq: int) -> tuple[bytes, bytes]:
        part = self._part(seq)
        return part.array.tobytes(), part.known.tobytes()

    def _part(self, seq: int) -> Part:
        snapshot = self.context.tensors.tensor_at(self.ref.record.id, seq)
        chosen = self.ref.selection
        return Part(np.asarray(snapshot.array[chosen]), np.asarray(snapshot.written[chosen]))

    def _wrote(self, seq: int) -> bool:
        at = bisect.bisect_left(self._written, seq)
        return at < len(self._written) and self._written[at] == seq

    def _axes(self) -> list[range]:
        """Return the indices of each axis that are watched."""
        shape, chosen = self.ref.record.shape, self.ref.selection
        picked = [range(size)[pick] for pick, size in zip(chosen, shape, strict=False)]
        axes = [range(p, p + 1) if isinstance(p, int) else p for p in picked]
        return axes + [range(size) for size in shape[len(axes) :]]

    def _in_box(self, row: Any, part: Part) -> npt.NDArray[np.bool_]:
        """Return which watched elements, flat, a row wrote; none where that is not known."""
        layout = self.context.state.written.layout(self.number)
        box = () if layout is None else layout.box(row)
        axes = self._axes()
        if not self.exact or len(box) != len(axes):
            return np.zeros(part.array.size, bool)
        inside = np.ones((), bool)
        for axis, (start, stop) in zip(axes, box, strict=True):
            indices = np.arange(axis.start, axis.stop, axis.step)
            inside = np.logical_and.outer(inside, (indices >= start) & (indices < stop))
        return inside.reshape(-1)

    def _told(self, before: Part, after: Part, at: int, count: str, what: str) -> str:
        """Return old and new value of the element at a flat place, and of how many it is one."""
        changed = f"{before.text(at)} -> {after.text(at)}"
        if before.array.size == 1:
            return changed if what == "elements" else f"{changed} ({what})"
        axes = self._axes()
        where = np.unravel_index(at, tuple(len(axis) for axis in axes))
        place = ",".join(str(axis[int(i)]) for axis, i in zip(axes, where, strict=True))
        return f"[{place}]: {changed} ({count} of {before.array.size:,} {what})"


def _ends_first(values: range) -> Iterator[int]:
    """Return a range's numbers, its ends first: one of them usually decides."""
    if len(values):
        yield values[0]
        yield values[-1]
        yield from values
