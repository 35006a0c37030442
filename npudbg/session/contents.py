"""Bytes behind the record: what a command wrote, and what lay in SRAM before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.session.commands import Space, box_slices
from npudbg.session.reader import Session
from npudbg.session.records import TensorRecord

Bytes = npt.NDArray[np.uint8]


class Contents:
    """Bytes of commands and of SRAM, with the tensors' arrays kept while it lives."""

    def __init__(self, session: Session) -> None:
        """Read from a session."""
        self._session = session
        self._arrays: dict[int, npt.NDArray[Any] | None] = {}

    def array(self, tensor: TensorRecord) -> npt.NDArray[Any] | None:
        """Return a tensor's final values."""
        if tensor.id not in self._arrays:
            if len(self._arrays) > 32:
                self._arrays.pop(next(iter(self._arrays)))
            self._arrays[tensor.id] = self._session.array(tensor)
        return self._arrays[tensor.id]

    def box(self, row: Any) -> Bytes | None:
        """Return the bytes of a row's region of its tensor, packed in C order."""
        number = int(row["tensor"])
        if not 0 <= number < len(self._session.tensors):
            return None
        tensor = self._session.tensors[number]
        array = self.array(tensor)
        if array is None:
            return None
        part = np.ascontiguousarray(array[box_slices(row, array.ndim)])
        return part.reshape(-1).view(np.uint8)

    def written(self, row: Any) -> Bytes | None:
        """Return what a command wrote into SRAM: its kept bytes, else its region's."""
        kept = self._session.payload(int(row["seq"]))
        return np.frombuffer(kept, np.uint8) if kept is not None else self.box(row)

    def sram(self, address: int, nbytes: int, before: int) -> tuple[Bytes, npt.NDArray[np.bool_]]:
        """Return what commands up to ``before`` left in a range of SRAM.

        Returns:
            The bytes, and which of them any command has written.
        """
        out = np.zeros(nbytes, np.uint8)
        known = np.zeros(nbytes, bool)
        for seq, low, high in self._session.writes(Space.SRAM, address, nbytes, before):
            fresh = ~known[low:high]
            if not fresh.any():
                continue
            row = self._session.command(seq)
            data = self.written(row)
            if data is None:
                continue
            start = address + low - int(row["dst"])
            part = data[start : start + high - low]
            out[low : low + part.size][fresh[: part.size]] = part[fresh[: part.size]]
            known[low : low + part.size] = True
            if known.all():
                break
        return out, known
