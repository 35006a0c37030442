"""Bank conflicts: operands that a vector kernel reads in step, out of one bank.

SRAM is interleaved: word ``w`` (``bank_bytes_per_cycle`` wide) lies in bank
``w mod sram_banks``.  A vector kernel takes a word of each operand at the same time.
Two operands whose first words lie in the same bank stay together word after word, and
each pair is served one after the other: as many conflicts as the shorter one has words.
An operand that is read twice is fetched once.  A transfer beside a kernel slips by a
cycle at the first collision and is then out of step, so that it is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.targets.profile import Memory


def conflicts(memory: Memory, operands: Iterable[tuple[int, int]]) -> int:
    """Return how many words wait for a word of another operand in the same bank.

    Args:
        memory: The profile's memory.
        operands: SRAM address and bytes of each operand of one kernel.
    """
    width, banks = memory.bank_bytes_per_cycle, memory.sram_banks
    found = 0
    places = sorted({(address, nbytes) for address, nbytes in operands if nbytes > 0})
    for (a, a_bytes), (b, b_bytes) in combinations(places, 2):
        if a != b and (a // width - b // width) % banks == 0:
            found += min(-(-a_bytes // width), -(-b_bytes // width))
    return found


def conflict_cycles(memory: Memory, operands: Iterable[tuple[int, int]]) -> int:
    """Return the cycles that :func:`conflicts` cost; 0 where the profile does not say."""
    if not memory.bank_conflict_cycles:
        return 0
    return conflicts(memory, operands) * memory.bank_conflict_cycles


def operands_of(session: Session, row: Any) -> list[tuple[int, int]]:
    """Return SRAM address and bytes of what a recorded vector kernel read in step."""
    engines, engine = session.meta.engines, int(row["engine"])
    if int(row["kind"]) != Kind.KERNEL or engine >= len(engines) or engines[engine] != "vec":
        return []
    seq = int(row["seq"])
    reads = session.accesses(seq, seq + 1)
    reads = reads[(reads["space"] == int(Space.SRAM)) & (reads["operand"] >= 0)]
    return [(int(r["addr"]), int(r["nbytes"])) for r in reads]
