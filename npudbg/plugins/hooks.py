"""Hook specifications: what a plugin may implement.  All hooks are optional."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from npudbg.layers.catalogue import Entry
    from npudbg.layers.findings import Rule
    from npudbg.plugins.api import Panel, Verb

PROJECT = "npudbg"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Hooks:
    """The hooks; each returns a list, of which an empty one is fine."""

    @hookspec
    def npudbg_catalogue(self) -> list[Entry]:
        """Return the texts of the finding codes that the plugin's rules give."""
        raise NotImplementedError

    @hookspec
    def npudbg_rules(self) -> list[Rule]:
        """Return rules; they judge the same case as npudbg's own."""
        raise NotImplementedError

    @hookspec
    def npudbg_verbs(self) -> list[Verb]:
        """Return commands of the command line."""
        raise NotImplementedError

    @hookspec
    def npudbg_panels(self) -> list[Panel]:
        """Return panes of the TUI."""
        raise NotImplementedError
