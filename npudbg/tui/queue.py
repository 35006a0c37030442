"""The DMA queue: what each channel did, and all transfers in the order of their commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual.containers import Vertical

from npudbg.render.commands import what
from npudbg.render.dma_channels import Queue, queue_of
from npudbg.render.dma_queue import channel_lines, transfer_header, transfer_line
from npudbg.session.lines import Line
from npudbg.tui.linebar import LineBar
from npudbg.tui.lineview import LineView
from npudbg.tui.sources import Rows

if TYPE_CHECKING:
    from npudbg.session.reader import Session
    from npudbg.targets.profile import Target


_LEAST = 3
"""Rows of column names and channels on a small terminal; more channels are scrolled to."""


class QueueView(Vertical):
    """Channels above, transfers below; read from the record when it is first shown."""

    def __init__(self, session: Session, target: Target | None, *, id: str) -> None:
        """Show the transfers of a session, held against ``target``."""
        super().__init__(id=id)
        self.session, self.target = session, target
        self._queue: Queue | None = None
        self._seqs = np.empty(0, np.int64)
        self._channel = self._place = np.empty(0, np.int64)
        self._cursor = -1

    def compose(self):
        """Channels, column names, transfers."""
        yield LineView(id="queue-channels", classes="quiet")
        yield LineBar(id="queue-header")
        yield LineView(id="queue-transfers")

    @property
    def list(self) -> LineView:
        """The transfers."""
        return self.query_one("#queue-transfers", LineView)

    @property
    def seq_shown(self) -> int | None:
        """Command of the transfer that the list stands on; None without any."""
        return int(self._seqs[self.list.index]) if len(self._seqs) else None

    def fill(self) -> None:
        """Make channels and list, the record being read once."""
        if self._queue is None:
            self._read()
        assert self._queue is not None
        channels = self.query_one("#queue-channels", LineView)
        width = max(self.list.scrollable_content_region.width, 20)
        lines = channel_lines(self.session, self._queue, width, target=self.target)
        channels.show_lines(lines, index=0)
        channels.styles.height = min(len(lines), max(self.size.height // 4, _LEAST))
        named = len(self._queue.channels) > 1
        self.query_one("#queue-header", LineBar).show(
            transfer_header(self.session, width, named=named)
        )
        if len(self.list.source) != len(self._seqs):
            self.list.show(Rows(len(self._seqs), self._line, self._text))

    def follow(self, seq: int, *, moved: bool = False) -> None:
        """Stand on the last transfer up to a command (the first one before any).

        Args:
            seq: The command.
            moved: The user moved in this very list: it stays where it is.
        """
        if self._queue is None:
            self.fill()
        at = int(np.searchsorted(self._seqs, seq, "right")) - 1
        before, self._cursor = self._cursor, at if at >= 0 and self._seqs[at] == seq else -1
        if before != self._cursor:
            self.list.forget(before, self._cursor)
        if not moved:
            self.list.move_to(at)

    def _read(self) -> None:
        queue = self._queue = queue_of(self.session, 0, self.session.n_commands)
        if not queue.channels:
            return
        seqs = np.concatenate([each.rows["seq"] for each in queue.channels])
        counts = [len(each.rows) for each in queue.channels]
        order = np.argsort(seqs, kind="stable")
        self._seqs = seqs[order].astype(np.int64)
        self._channel = np.repeat(np.arange(len(counts)), counts)[order]
        self._place = np.concatenate([np.arange(n) for n in counts])[order]

    def _line(self, number: int, width: int) -> Line:
        assert self._queue is not None
        channel = self._queue.channels[int(self._channel[number])]
        return transfer_line(
            self.session, channel, int(self._place[number]), width,
            current=number == self._cursor, named=len(self._queue.channels) > 1,
        )  # fmt: skip

    def _text(self, number: int) -> str:
        seq = int(self._seqs[number])
        return f"{seq} {what(self.session, self.session.command(seq), 200)}"
