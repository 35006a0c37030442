"""The rule that judges the ELF files which a session was saved with."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.plugins import Case, Finding
from npudbg_elf.layout_rules import judge_image
from npudbg_elf.panel import session_images

CODES = tuple(f"E{number}" for number in range(501, 515))


def elf_files(case: Case) -> Iterator[Finding]:
    """Judge the headers kept in the session by the case's target (which may be another)."""
    if case.session is None:
        return
    for image in session_images(case.session):
        yield from judge_image(image, case.target)
