"""The memory of the selection as it was after the cursor's command, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npudbg.render import commands, memory
from npudbg.session.commands import space_name
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.lines import Line, line
from npudbg.session.text import safe
from npudbg.tui.selection import Selection, tensor_at

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.tui.port import Port

_ROWS = 16
_SEARCHED = 1 << 20
_KNOWN = 8


class MemoryDump:
    """A dump that begins where it is of use.

    Attributes:
        as_values: Show values beside the bytes, where the type is known; else characters.
    """

    def __init__(self, session: Session, port: Port) -> None:
        """Dump the memory of a session at the debugger's cursor."""
        self.session, self.port = session, port
        self.as_values = True
        self._known: dict[tuple[int, int, int, int], Any] = {}

    def lines(self, chosen: Selection, width: int) -> tuple[Line, list[Line]]:
        """Return title and dump of what is selected.

        Args:
            chosen: The selection; without an address there is only a title.
            width: Columns.
        """
        if chosen.address is None:
            text = ("nothing selected has an address", "dim")
            return line((" memory ", "title"), text), []
        dtype = self._dtype(chosen)
        count = memory.bytes_per_row(width, dtype)
        try:
            start = self._start(chosen, chosen.address, count)
            data, written, writers = self._memory(chosen.space, start, count * _ROWS)
        except (UserError, ValueError, OverflowError) as error:
            return line((" memory ", "title"), (safe(error, 200), "error")), []
        seq = self.port.seq
        space = space_name(chosen.space)
        lines = memory.hexdump(
            start, data, width, written=written, changed=[w == seq for w in writers],
            dtype=dtype, space=space,
        )  # fmt: skip
        newest = max((w for w in writers if w >= 0), default=-1)
        names = {}
        if newest >= 0:
            row = self.session.command(newest)
            names[newest] = commands.what(self.session, row, 40).split("→")[0].strip()
        title = line(
            (" memory ", "title"),
            (f"{space} as after command {seq}", ""),
            (" simulated  " if self.port.simulated else "  ", "dim"),
            *memory.writer_line(writers, written, names, 200).spans,
        )
        return title, lines

    def writer(self, chosen: Selection, width: int) -> int | None:
        """Return the newest command that wrote what :meth:`lines` shows; None for none."""
        if chosen.address is None:
            return None
        count = memory.bytes_per_row(width, self._dtype(chosen))
        try:
            start = self._start(chosen, chosen.address, count)
            _, _, writers = self._memory(chosen.space, start, count * _ROWS)
        except (UserError, ValueError, OverflowError):
            return None
        return max((int(w) for w in writers if w >= 0), default=None)

    def _memory(
        self, space: int, address: int, nbytes: int
    ) -> tuple[bytes, Sequence[bool], Sequence[int]]:
        """Return memory at the cursor; asked again for the same, it is not fetched again."""
        key = (self.port.seq, space, address, nbytes)
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = self.port.memory(space, address, nbytes)
        return self._known[key]

    def _dtype(self, chosen: Selection) -> str | None:
        tensor = tensor_at(self.session, chosen) if self.as_values else None
        if tensor is None:
            return None
        name = tensor.dtype
        plain = name.lstrip("<>|=")
        return name if plain[:1] in ("f", "i", "u", "b") else None

    def _start(self, chosen: Selection, address: int, count: int) -> int:
        """Return where the dump begins: a row before the first NaN or Inf written, if any."""
        bad = self._first_bad(chosen)
        if bad is not None:
            return max(bad - bad % count - count, address - address % count)
        return max(address - address % count, 0)

    def _first_bad(self, chosen: Selection) -> int | None:
        if chosen.tensor is None or chosen.seq is None or chosen.seq != self.port.seq:
            return None
        tensor = self.session.tensors[chosen.tensor]
        row = self.session.command(chosen.seq)
        bad = tensor.stats is not None and tensor.stats.nonfinite
        if not bad or int(row["dst"]) != chosen.address or int(row["tensor"]) != tensor.id:
            return None
        data, _, _ = self._memory(chosen.space, int(row["dst"]), min(int(row["nbytes"]), _SEARCHED))
        element = numpy_dtype(tensor.dtype)
        values = np.frombuffer(data, element, len(data) // element.itemsize)
        if values.dtype.kind == "V":
            values = values.astype(np.float32)
        if values.dtype.kind != "f":
            return None
        hits = np.flatnonzero(~np.isfinite(values))
        return int(row["dst"]) + int(hits[0]) * element.itemsize if len(hits) else None
