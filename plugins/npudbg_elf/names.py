"""Names of ELF numbers, for people."""

from __future__ import annotations

from functools import cache

from elftools.elf import enums

from npudbg_elf.records import PF_R, PF_W, PF_X, Segment

_TYPES = {0: "NONE", 1: "REL", 2: "EXEC", 3: "DYN", 4: "CORE"}


@cache
def _reverse(which: str, prefix: str) -> dict[int, str]:
    table: dict[str, int] = getattr(enums, which)
    found: dict[int, str] = {}
    for name, number in table.items():
        if isinstance(number, int):
            found.setdefault(number, name.removeprefix(prefix))
    return found


def machine_name(number: int) -> str:
    """Return the name of an ``e_machine``, e.g. ``QDSP6``."""
    return _reverse("ENUM_E_MACHINE", "EM_").get(number, f"machine {number}")


def type_name(number: int) -> str:
    """Return the name of an ``e_type``, e.g. ``DYN``."""
    return _TYPES.get(number, f"type {number:#x}")


def segment_name(segment: Segment) -> str:
    """Return a program header's name with its number, e.g. ``LOAD 2``."""
    known = _reverse("ENUM_P_TYPE_BASE", "PT_").get(segment.type, f"type {segment.type:#x}")
    return f"{known} {segment.index}"


def flags_text(segment: Segment) -> str:
    """Return ``RWX`` with ``-`` for what is not allowed."""
    bits = ((PF_R, "R"), (PF_W, "W"), (PF_X, "X"))
    return "".join(letter if segment.flags & bit else "-" for bit, letter in bits)
