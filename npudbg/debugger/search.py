"""Finding the next stop, forward or backward: the same stops either way."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

from npudbg.debugger.breakpoints import Chunk, Stop
from npudbg.debugger.context import Context
from npudbg.debugger.errors import AbsentError, DebuggerError
from npudbg.debugger.expressions.evaluate import evaluate
from npudbg.debugger.expressions.values import truth
from npudbg.debugger.possible import possible
from npudbg.debugger.scope import CommandScope

_FEW = 64
"""Commands for which looking at whole columns first does not pay."""


@dataclass
class Hit:
    """Where the cursor stops, and why.

    Attributes:
        seq: The command.
        stops: What stopped it.
        problem: Why a condition could not be judged, or ``""``.
    """

    seq: int
    stops: list[Stop]
    problem: str = ""


def find_stop(context: Context, stops: list[Stop], first: int, last: int) -> Hit | None:
    """Return the first hit on the way from ``first`` to ``last``, both inclusive.

    ``last`` before ``first`` goes backward.  Ignore counts are used up on the way.
    """
    if not stops or context.cursor.last < 0:
        return None
    starts = context.session.chunk_starts
    step = 1 if last >= first else -1
    low, high = min(first, last), max(first, last)
    at, end = (bisect.bisect_right(starts, seq) - 1 for seq in (first, last))
    while (end - at) * step >= 0:
        chunk = Chunk(context.session, at)
        met: dict[int, list[Stop]] = {}
        for stop in stops:
            seqs = stop.matcher.find(chunk)
            seqs = seqs[(seqs >= low) & (seqs <= high)]
            if stop.condition is not None and len(seqs) > _FEW:
                seqs = seqs[possible(context, stop.condition, chunk.rows[seqs - chunk.low])]
            for seq in seqs.tolist():
                met.setdefault(seq, []).append(stop)
        for seq in sorted(met, reverse=step < 0):
            hit = _judge(context, seq, chunk.rows[seq - chunk.low], met[seq])
            if hit is not None:
                return hit
        at += step
    return None


def _judge(context: Context, seq: int, row: Any, stops: list[Stop]) -> Hit | None:
    hit = Hit(seq, [])
    scope = CommandScope(context, seq, row)
    for stop in stops:
        if stop.condition is not None:
            try:
                if not truth(evaluate(stop.condition, scope, stop.condition_text)):
                    continue
            except AbsentError:
                continue
            except DebuggerError as error:
                hit.problem = f"the condition of {stop.title} cannot be judged: {error}"
        stop.hits += 1
        if stop.ignore > 0:
            stop.ignore -= 1
            continue
        hit.stops.append(stop)
    return hit if hit.stops else None
