"""Check ELF files against a target: alignment, segments, libraries, versions.

A plugin of npudbg that uses the public plugin API alone.  What each hook gives is
imported when the hook is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudbg.plugins import hookimpl

if TYPE_CHECKING:
    from npudbg.plugins import Entry, Panel, Rule, Verb


@hookimpl
def npudbg_catalogue() -> list[Entry]:
    """Return the texts of the E codes."""
    from npudbg_elf.catalogue import entries

    return entries()


@hookimpl
def npudbg_rules() -> list[Rule]:
    """Return the rule that judges the ELF files a session was saved with."""
    from npudbg.plugins import Rule
    from npudbg_elf.session_rule import CODES, elf_files

    return [Rule(3, CODES, elf_files)]


@hookimpl
def npudbg_verbs() -> list[Verb]:
    """Return the verb ``elf``."""
    from npudbg.plugins import Verb
    from npudbg_elf.verb import prepare_parser, run

    return [Verb("elf", "check ELF files against a target", prepare_parser, run)]


@hookimpl
def npudbg_panels() -> list[Panel]:
    """Return the panel of sections and segments."""
    from npudbg.plugins import Panel
    from npudbg_elf.panel import panel_lines

    return [Panel("elf", "ELF", panel_lines, key="6")]
