"""Watching a tensor, or a part of one: who makes it, who changes it, who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from npudbg.debugger.breakpoints import At, Chunk
from npudbg.debugger.context import Context
from npudbg.debugger.errors import AbsentError
from npudbg.debugger.expressions.values import ArrayValue
from npudbg.debugger.geometry import Ints
from npudbg.debugger.references import Selection, TensorRef
from npudbg.debugger.scope import CommandScope


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
        if not self.writes and not self.changes:
            return "read"
        before, after = self._shown(seq - 1), self._shown(seq)
        if before != after:
            return f"{before} -> {after}"
        return "written, the same values" if seq in self._written else "read"

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
        snapshot = self.context.tensors.tensor_at(self.ref.record.id, seq)
        chosen = self.ref.selection
        part, known = snapshot.array[chosen], snapshot.written[chosen]
        return np.asarray(part).tobytes(), np.asarray(known).tobytes()

    def _shown(self, seq: int) -> str:
        value: ArrayValue = CommandScope(self.context, seq).tensor_value(self.ref.record.id, seq)
        try:
            part = self.ref.part(value)
        except AbsentError:
            return "not written"
        if isinstance(part, ArrayValue):
            known = part.array.size if part.known is None else int(np.count_nonzero(part.known))
            return f"{known:,} of {part.array.size:,} elements written"
        return f"{part!r}"


def _ends_first(values: range) -> Iterator[int]:
    """Return a range's numbers, its ends first: one of them usually decides."""
    if len(values):
        yield values[0]
        yield values[-1]
        yield from values
