"""`--fault list`: what each fault does, where it is seen, how it is written, what names it."""

from __future__ import annotations

import shutil
import sys
import textwrap

_MOST = 100


def print_faults() -> None:
    """Print the faults and their keys, as wide as the terminal."""
    from npudbg.device.faults.catalogue import KEYS, KINDS

    columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    width = max(min(columns, _MOST), 40)
    for kind in KINDS.values():
        print(kind.name)
        told = {
            "does": kind.effect,
            "seen as": kind.seen,
            "needs": ", ".join(kind.needs),
            "takes": ", ".join(kind.takes),
            "example": f"--fault {kind.example}",
            "found by": kind.found.replace(" ", ", "),
        }
        for title, text in ((k, v) for k, v in told.items() if v):
            _print(f"    {title:<9}", text, width, hang=13)
        print()
    print("keys")
    for key, text in KEYS.items():
        _print(f"    {key:<9}", text, width, hang=13)
    print("\nNAME is a tensor or node of the model; `npudbg explain CODE` tells of a finding")


def _print(lead: str, text: str, width: int, *, hang: int) -> None:
    """Print a text behind its lead, wrapped; a specification is not broken."""
    print(
        textwrap.fill(
            text,
            width,
            initial_indent=lead,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
