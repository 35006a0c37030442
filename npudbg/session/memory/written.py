"""Which bytes a command wrote where: the record's own bytes, clipped to a window."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import Kind, Rows, Space, Status
from npudbg.session.memory.geometry import Bools, Ints, Layout, layout_of
from npudbg.session.reader import Session
from npudbg.session.records import TensorRecord

Bytes = npt.NDArray[np.uint8]

# Tables over all bytes: looked up for millions of rows.
_MOVES = np.isin(np.arange(256), (Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE, Kind.HOST))
_ENDED = ~np.isin(np.arange(256), (Status.HUNG, Status.NOT_STARTED))
_NONE, _SRAM, _HOST, _FAULT = map(int, (Space.NONE, Space.SRAM, Space.HOST, Status.FAULT))
_CACHE_BYTES = 64 << 20


class Written:
    """The writes of a session's commands, byte by byte.

    What a command wrote is its kept payload, else its box of its tensor's final
    bytes.  In SRAM a box lies packed at ``dst``; elsewhere it is scattered into the
    C-contiguous tensor whose element of lowest address is at ``dst``.
    """

    def __init__(self, session: Session) -> None:
        """Read from a session."""
        self.session = session
        self._arrays: OrderedDict[int, npt.NDArray[Any] | None] = OrderedDict()
        self._held = 0
        self._layouts: dict[int, Layout | None] = {}
        self._payloads: OrderedDict[int, Bytes] = OrderedDict()

    @cached_property
    def payload_seqs(self) -> Ints:
        """Commands whose bytes were kept, ascending."""
        return np.array(self.session.payloads, np.int64)

    def tensor(self, number: int) -> TensorRecord | None:
        """Return the tensor of that id (a damaged number gives None)."""
        tensors = self.session.tensors
        return tensors[number] if 0 <= number < len(tensors) else None

    def layout(self, number: int) -> Layout | None:
        """Return the layout of the tensor of that id."""
        if number not in self._layouts:
            record = self.tensor(number)
            self._layouts[number] = layout_of(record) if record is not None else None
        return self._layouts[number]

    def array(self, number: int) -> npt.NDArray[Any] | None:
        """Return a tensor's final values (kept while there is room)."""
        if number in self._arrays:
            self._arrays.move_to_end(number)
            return self._arrays[number]
        record = self.tensor(number)
        array = None if record is None or layout_of(record) is None else self.session.array(record)
        self._arrays[number] = array
        self._held += array.nbytes if array is not None else 0
        while self._held > _CACHE_BYTES and len(self._arrays) > 1:
            _, old = self._arrays.popitem(last=False)
            self._held -= old.nbytes if old is not None else 0
        return array

    def raw(self, number: int) -> Bytes | None:
        """Return a tensor's final bytes in C order."""
        array = self.array(number)
        return None if array is None else array.reshape(-1).view(np.uint8)

    def payload(self, seq: int) -> Bytes | None:
        """Return the kept bytes of a command."""
        at = int(np.searchsorted(self.payload_seqs, seq))
        if at >= len(self.payload_seqs) or self.payload_seqs[at] != seq:
            return None
        if seq not in self._payloads:
            kept = self.session.payload(seq)
            self._payloads[seq] = np.frombuffer(kept or b"", np.uint8)
            if len(self._payloads) > 256:
                self._payloads.popitem(last=False)
        return self._payloads[seq]

    def writing(self, rows: Rows) -> Bools:
        """Return which rows wrote memory.

        What hung or never started wrote nothing.  A refused transfer neither, but for
        the staging of an input at an address that the engine cannot issue: it ran.
        """
        status = rows["status"]
        able = (rows["dst_space"] != _NONE) & (rows["nbytes"] > 0)
        moves = _MOVES[rows["kind"]] & _ENDED[status]
        moves &= (status != _FAULT) | (rows["src_space"] == _HOST)
        if len(self.payload_seqs):
            moves |= np.isin(rows["seq"], self.payload_seqs)
        found: Bools = able & moves
        return found

    def wrote(self, row: Any) -> bool:
        """Whether one row wrote memory; see :meth:`writing`."""
        if int(row["dst_space"]) == _NONE or int(row["nbytes"]) <= 0:
            return False
        status = int(row["status"])
        refused = status == _FAULT and int(row["src_space"]) != _HOST
        if _MOVES[int(row["kind"])] and _ENDED[status] and not refused:
            return True
        return self.payload(int(row["seq"])) is not None

    def reach(self, row: Any) -> tuple[int, int]:
        """Return the linear range of addresses that a row's write lies in."""
        return int(row["dst"]), int(row["dst"]) + int(row["nbytes"])

    def scatter(self, row: Any) -> tuple[Layout, tuple[tuple[int, int], ...], int] | None:
        """Return layout, box and tensor base of a row that writes a box in place.

        None when what it wrote is the linear range itself.
        """
        if int(row["dst_space"]) == _SRAM:
            return None
        layout = self.layout(int(row["tensor"]))
        if layout is None:
            return None
        box = layout.box(row)
        packed = layout.packed_nbytes(box)
        kept = self.payload(int(row["seq"]))
        if packed == 0 or (kept is not None and len(kept) != packed):
            return None
        return layout, box, int(row["dst"]) - layout.first(box)

    def covers(self, row: Any, places: Ints) -> Bools:
        """Return which of these addresses a row wrote."""
        low, high = self.reach(row)
        linear: Bools = (places >= low) & (places < high)
        found = self.scatter(row)
        if found is None:
            return linear
        layout, box, base = found
        return layout.gathered(box, places - base)[1] & linear

    def bytes_at(self, row: Any, places: Ints) -> tuple[Bytes, Bools]:
        """Return what a row wrote at addresses that it covers, and which are known.

        Bytes are not known where the session keeps no data.
        """
        kept = self.payload(int(row["seq"]))
        found = self.scatter(row)
        out = np.zeros(len(places), np.uint8)
        if found is not None:
            layout, box, base = found
            source = kept
            at = layout.gathered(box, places - base)[0] if kept is not None else places - base
            if source is None:
                source = self.raw(int(row["tensor"]))
            return _take(source, at, out)
        packed = places - int(row["dst"])
        if kept is not None:
            return _take(kept, packed, out)
        boxed = self.layout(int(row["tensor"]))
        if boxed is None:
            return out, np.zeros(len(places), bool)
        box = boxed.box(row)
        inside = (packed >= 0) & (packed < boxed.packed_nbytes(box))
        whole = np.full(len(places), -1, np.int64)
        if inside.any():
            whole[inside] = boxed.scattered(box, packed[inside])
        return _take(self.raw(int(row["tensor"])), whole, out)

    def packed(self, row: Any) -> Bytes | None:
        """Return all that a row wrote, packed: its payload, else its box in C order."""
        kept = self.payload(int(row["seq"]))
        if kept is not None:
            return kept
        return self.box(row)

    def box(self, row: Any) -> Bytes | None:
        """Return the final bytes of a row's region of its tensor, in C order."""
        layout, array = self.layout(int(row["tensor"])), self.array(int(row["tensor"]))
        if layout is None or array is None:
            return None
        part = array[tuple(slice(*pair) for pair in layout.box(row))]
        return np.ascontiguousarray(part).reshape(-1).view(np.uint8)


def _take(source: Bytes | None, at: Ints, out: Bytes) -> tuple[Bytes, Bools]:
    if source is None:
        return out, np.zeros(len(out), bool)
    known = (at >= 0) & (at < len(source))
    out[known] = source[at[known]]
    return out, known
