"""Cache lines on targets whose device does not see the CPU's cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.findings import finding, rule
from npudbg.layers.host_address import judged_address
from npudbg.layers.words import address_origin, of_tensor
from npudbg.session.records import Finding
from npudbg.session.text import safe


@rule(1, "H112", "H113")
def cache_lines(case: Case) -> Iterator[Finding]:
    """Buffers that share a cache line, with each other or with whatever else is there."""
    cache = case.target.cache
    line = cache.line_bytes
    if not line or cache.coherent is not False:
        return
    places = sorted(
        (_range(host, address), number)
        for number, host in enumerate(case.inputs)
        if (address := judged_address(host)) is not None
    )
    torn: set[int] = set()
    for ((_, end), left), ((start, _), right) in pairwise(places):
        if end <= start and (end - 1) // line == start // line:
            torn.update((left, right))
            yield _torn(case.inputs[left], case.inputs[right], end, start, line)
    for (start, end), number in places:
        if number not in torn and start % line:
            yield _inside(case.inputs[number], start, end, line)


def _range(host: HostTensor, address: int) -> tuple[int, int]:
    """Return first and one past the last byte touched, wherever the tensor is said to lie."""
    shift = address - int(host.facts["address"])
    return int(host.facts["low"]) + shift, int(host.facts["high"]) + shift


def _torn(left: HostTensor, right: HostTensor, end: int, start: int, line: int) -> Finding:
    at = start // line * line
    return finding(
        "H113",
        of_tensor(right),
        f"{safe(left.name)} ends at {end:#x} and {safe(right.name)} begins at {start:#x}, both in "
        f"the {line}-byte cache line at {at:#x}: flushing one writes back stale bytes of the other",
        evidence={
            "line": line,
            "line_address": at,
            "end": end,
            "start": start,
            "bytes_of_first": end - at,
            "bytes_between": start - end,
        },
        fix=f"align each buffer to {line} bytes and round its size up to {line}",
        related=(of_tensor(left),),
        origin=address_origin(right),
    )


def _inside(host: HostTensor, start: int, end: int, line: int) -> Finding:
    return finding(
        "H112",
        of_tensor(host),
        f"{safe(host.name)}: begins {start % line} bytes into a {line}-byte cache line "
        f"({start:#x}); the device is not coherent, and what shares the line is torn by a flush",
        evidence={
            "address": start,
            "line": line,
            "remainder": start % line,
            "tail": end % line,
        },
        fix=f"align the buffer to {line} bytes",
        origin=address_origin(host),
    )
