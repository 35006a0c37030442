"""A debugger small enough to be seen through: the screen's counterpart in its tests."""

from __future__ import annotations

import numpy as np

from npudbg.session.commands import box_slices
from npudbg.session.lines import line


class FakeDebugger:
    """Steps, breakpoints and memory over a fake session."""

    def __init__(self, session, live=None):
        self.session, self.live = session, live
        self.simulated, self.wants_quit = True, False
        self.seq, self.reason, self.mode = 0, "start", "REPLAY"
        self.breaks: set[int] = set()
        self.executed: list[str] = []

    def keep_to(self, width):
        self.width = width

    def goto(self, seq):
        self.seq, self.reason = seq, ""

    def execute(self, text):
        self.executed.append(text)
        verb, *rest = text.split() or [""]
        last = self.session.n_commands - 1
        if last < 0:
            return [line(("no commands", "error"))]
        node = self.session.nodes[int(self.session.command(self.seq)["node"])]
        goals = {
            "s": self.seq + 1,
            "rs": self.seq - 1,
            "n": node.last_seq + 1,
            "rn": node.first_seq - 1,
            "fin": node.last_seq,
            "rfin": node.first_seq,
        }
        if verb == "goto":
            goals["goto"] = int(rest[0])
        if verb in goals:
            self.seq = max(0, min(goals[verb], last))
            self.reason = text
            return [line(f"command {self.seq}")]
        if verb == "q":
            self.wants_quit = True
            return []
        if verb == "break-node":
            self.breaks ^= {int(rest[0])}
            return [line(f"breakpoint on node {rest[0]}")]
        if verb == "info":
            return [line(f"row {n}") for n in range(30)]
        return [line((f"unknown verb {verb}", "error"))]

    def rerun(self, text):
        return None

    def completions(self, text):
        words = ["goto", "info commands", "info nodes", "info tensors", "next", "step"]
        return [w for w in words if w.startswith(text)]

    def toggle_break(self, node):
        return f"break-node {node}"

    def break_nodes(self):
        return frozenset(self.breaks)

    def descriptor(self, seq):
        return [line(f"  channel of command {seq}")]

    def explain(self, finding, width):
        return [line(finding.code), line(finding.message)]

    def memory(self, space, address, nbytes):
        data = np.zeros(nbytes, np.uint8)
        writers = np.full(nbytes, -1)
        for seq, low, high in self.session.writes(space, address, nbytes, self.seq):
            if not (writers[low:high] < 0).any():
                continue
            row = self.session.command(seq)
            tensor = self.session.tensors[int(row["tensor"])]
            box = box_slices(row, len(tensor.shape))
            made = np.frombuffer(
                np.ascontiguousarray(self.session.array(tensor)[box]).tobytes(), np.uint8
            )
            free = writers[low:high] < 0
            at = address + low - int(row["dst"])
            data[low:high][free] = made[at : at + high - low][free]
            writers[low:high][free] = seq
            if (writers >= 0).all():
                break
        return data.tobytes(), writers >= 0, writers
