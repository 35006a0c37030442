"""What a virtual list shows: any number of lines, each made when it is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from npudbg.render.commands import command_line
from npudbg.session.commands import Kind
from npudbg.session.lines import Line
from npudbg.session.reader import Session

_BLOCK = 1 << 14
_SEARCHED = 100_000


class Source(Protocol):
    """Lines by number."""

    def __len__(self) -> int:
        """Return how many lines there are."""

    def line(self, number: int, width: int) -> Line:
        """Return one line, at most ``width`` columns."""

    def find(self, text: str, start: int, step: int) -> int | None:
        """Return the next line that holds ``text``, from ``start`` in direction ``step``."""


class Lines:
    """Lines that stand in a list."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        """Show ``lines``."""
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def line(self, number: int, width: int) -> Line:
        """See :class:`Source`."""
        return self.lines[number]

    def find(self, text: str, start: int, step: int) -> int | None:
        """Search the lines' text, without regard to case, around the end."""
        return search(len(self.lines), lambda n: self.lines[n].text, text, start, step)


class Rows:
    """Records that become lines when they are seen."""

    def __init__(
        self, count: int, make: Callable[[int, int], Line], text: Callable[[int], str]
    ) -> None:
        """Show ``count`` records by ``make(number, width)``; ``text`` is what is searched."""
        self.count, self.make, self.text = count, make, text

    def __len__(self) -> int:
        return self.count

    def line(self, number: int, width: int) -> Line:
        """See :class:`Source`."""
        return self.make(number, width)

    def find(self, text: str, start: int, step: int) -> int | None:
        """Search the records' texts, without regard to case, around the end."""
        return search(self.count, self.text, text, start, step)


class Commands:
    """The session's commands; line ``n`` is command ``n``."""

    def __init__(self, session: Session) -> None:
        """Show all commands of ``session``."""
        self.session = session
        self.cursor = 0
        self.stops: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return self.session.n_commands

    def line(self, number: int, width: int) -> Line:
        """See :class:`Source`."""
        row = self.session.command(number)
        return command_line(
            self.session, row, width, current=number == self.cursor,
            breakpoint_=int(row["node"]) in self.stops,
        )  # fmt: skip

    def find(self, text: str, start: int, step: int) -> int | None:
        """Find the next command by node, operator, tensor, kind, engine, number or address.

        A million commands are searched by their columns, never as text.
        """
        session, wanted = self.session, text.strip().lower()
        if not wanted:
            return None
        nodes = [
            n.index for n in session.nodes
            if wanted in n.label.lower() or wanted == n.op_type.lower()
        ]  # fmt: skip
        tensors = [t.id for t in session.tensors if wanted in t.name.lower()]
        kinds = [int(k) for k in Kind if wanted in k.name.lower()]
        engines = [i for i, name in enumerate(session.meta.engines) if wanted == name.lower()]
        number = _number(wanted)
        if number is not None and not wanted.startswith("0x"):
            return number if 0 <= number < len(self) else None
        if not (nodes or tensors or kinds or engines) and number is None:
            return None
        at = start + step
        while 0 <= at < len(self):
            low, high = (at, min(at + _BLOCK, len(self))) if step > 0 else (
                max(at - _BLOCK + 1, 0), at + 1
            )  # fmt: skip
            rows = session.commands(low, high)
            hit = (
                np.isin(rows["node"], nodes) | np.isin(rows["tensor"], tensors)
                | np.isin(rows["kind"], kinds) | np.isin(rows["engine"], engines)
            )  # fmt: skip
            if number is not None:
                inside = (rows["dst"] <= number) & (number < rows["dst"] + rows["nbytes"])
                hit |= inside & (rows["dst_space"] != 0)
            found = np.flatnonzero(hit)
            if len(found):
                return low + int(found[0] if step > 0 else found[-1])
            at = high if step > 0 else low - 1
        return None


def search(
    count: int, text_of: Callable[[int], str], text: str, start: int, step: int
) -> int | None:
    """Return the next of ``count`` texts that holds ``text``, going around the end once."""
    wanted = text.lower()
    if not wanted:
        return None
    for offset in range(1, min(count, _SEARCHED) + 1):
        number = (start + step * offset) % count
        if wanted in text_of(number).lower():
            return number
    return None


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None
