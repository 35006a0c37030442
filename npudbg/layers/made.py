"""Tensors whose values say something: those that the device finished."""

from __future__ import annotations

from npudbg.session.reader import Session
from npudbg.session.records import TensorRecord


def made(session: Session) -> list[TensorRecord]:
    """Return the tensors that have statistics and whose node ended.

    Where the device stopped inside a node, the rest of its result is old memory: no
    value there is the node's.
    """
    stopped = {n.index for n in session.nodes if n.status in ("hung", "failed", "not-run")}
    return [t for t in session.tensors if t.stats is not None and t.producer not in stopped]
