"""Execution order: the file's own where it is valid, else the nearest that is."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence


def execution_order(
    reads: Sequence[Sequence[str]], producers: Mapping[str, int]
) -> tuple[list[int], list[int]]:
    """Sort nodes so that each comes after the makers of what it reads.

    Among the nodes that are ready the one that stands first in the file goes
    first, so a valid file keeps its order.

    Args:
        reads: Names that each node reads.
        producers: Node that makes a name; other names are there from the start.

    Returns:
        The order, and the nodes of one cycle in reading order (empty if there is none).
    """
    before = [{producers[n] for n in names if n in producers} for names in reads]
    if all(p < i for i, found in enumerate(before) for p in found):
        return list(range(len(reads))), []
    after: list[list[int]] = [[] for _ in reads]
    for node, found in enumerate(before):
        for maker in found:
            after[maker].append(node)
    waiting = [len(found) for found in before]
    ready = [i for i, n in enumerate(waiting) if n == 0]
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for follower in after[node]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, follower)
    if len(order) == len(reads):
        return order, []
    return order, _cycle(before, {i for i, n in enumerate(waiting) if n > 0})


def _cycle(before: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """Return one cycle: every stuck node waits for another stuck node."""
    node = min(stuck)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = min(before[node] & stuck)
    ring = path[seen[node] :][::-1]
    first = ring.index(min(ring))
    return ring[first:] + ring[:first]
