"""The cursor: where in the record one stands, and where each kind of step leads.

On command ``k`` means that ``k`` has been executed: memory is shown as it left it.
"""

from __future__ import annotations

import bisect
from functools import cached_property

from npudbg.debugger.errors import DebuggerError
from npudbg.session.reader import Session
from npudbg.session.records import NodeRecord


class Cursor:
    """A position in a session's commands.

    Attributes:
        seq: The current command; 0 in a session without commands.
        reason: Why it stopped here; ``""`` when it was put here.
        bookmarks: Commands by name.
    """

    def __init__(self, session: Session) -> None:
        """Stand on the first command."""
        self.session = session
        self.seq = 0
        self.reason = "start"
        self.bookmarks: dict[str, int] = {}

    @property
    def last(self) -> int:
        """The last command; -1 when there is none."""
        return self.session.n_commands - 1

    def require(self) -> None:
        """Make sure that there is something to stand on.

        Raises:
            DebuggerError: The session holds no commands.
        """
        if self.last < 0:
            raise DebuggerError(
                "this session holds no commands: it was recorded outside a device; "
                "try info tensors, info findings"
            )

    def goto(self, seq: int, reason: str = "") -> None:
        """Stand on a command.

        Raises:
            DebuggerError: There is no such command.
        """
        self.require()
        if not 0 <= seq <= self.last:
            raise DebuggerError(f"no command {seq}; there are 0 to {self.last}")
        self.seq, self.reason = seq, reason

    def at_cycle(self, cycle: int) -> int:
        """Return the last command that had started at a cycle (the first, if none had)."""
        self.require()
        found = self.session.seq_at_cycle(cycle + 1)
        started = int(self.session.command(found)["start"]) <= cycle
        return found if started else max(found - 1, 0)

    # -- nodes ---------------------------------------------------------------------------

    @cached_property
    def starts(self) -> list[int]:
        """First command of each group of nodes, ascending; what lies outside nodes too."""
        nodes = [n for n in self.session.nodes if 0 <= n.first_seq <= self.last]
        firsts = {n.first_seq for n in nodes}
        # Staging before the first group and synchronising after the last are stretches too.
        after = {n.last_seq + 1 for n in nodes if n.last_seq + 1 <= self.last}
        return sorted(firsts | after | ({0} if self.last >= 0 else set()))

    def group(self, seq: int) -> tuple[int, int]:
        """Return first and last command of the stretch that a command is in.

        Nodes that were fused run tile by tile in one another and are one stretch.
        """
        at = bisect.bisect_right(self.starts, seq) - 1
        first = self.starts[at]
        last = self.starts[at + 1] - 1 if at + 1 < len(self.starts) else self.last
        return first, last

    def node(self, seq: int) -> NodeRecord | None:
        """Return the node of a command, if it is of one."""
        number = int(self.session.command(seq)["node"])
        return self.session.nodes[number] if 0 <= number < len(self.session.nodes) else None

    # -- where steps lead ----------------------------------------------------------------

    def goal_step(self, count: int) -> int:
        """Return where ``count`` commands on (back, if negative) lead, within the record."""
        return max(0, min(self.seq + count, self.last))

    def goal_next(self, count: int) -> int:
        """Return the first command of the ``count``-th next stretch (previous, if negative)."""
        if count > 0:
            at = bisect.bisect_right(self.starts, self.seq) + count - 1
            return self.starts[at] if at < len(self.starts) else self.last
        at = bisect.bisect_left(self.starts, self.seq) + count
        return self.starts[max(at, 0)]

    def goal_finish(self) -> int:
        """Return the last command of this stretch."""
        return self.group(self.seq)[1]

    def goal_back_finish(self) -> int:
        """Return the first command of this stretch."""
        return self.group(self.seq)[0]
