"""Draw a model in lanes, with where a NaN began and what it spoiled.

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
    """Return the texts of the G codes."""
    from npudbg_graph.catalogue import entries

    return entries()


@hookimpl
def npudbg_rules() -> list[Rule]:
    """Return the rule that judges the model's graph."""
    from npudbg.plugins import Rule
    from npudbg_graph.rules import CODES, judge_graph

    return [Rule(2, CODES, judge_graph)]


@hookimpl
def npudbg_verbs() -> list[Verb]:
    """Return the verb ``graph``."""
    from npudbg.plugins import Verb
    from npudbg_graph.verb import prepare_parser, run

    return [Verb("graph", "draw a model or a session's graph in lanes", prepare_parser, run)]


@hookimpl
def npudbg_panels() -> list[Panel]:
    """Return the panel of lanes."""
    from npudbg.plugins import Panel
    from npudbg_graph.panel import KEYS, on_key, panel_lines

    return [Panel("graph", "Graph", panel_lines, key="5", keys=KEYS, on_key=on_key)]
