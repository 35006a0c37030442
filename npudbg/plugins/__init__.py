"""The plugin API: all that a plugin needs, and how npudbg loads plugins.

A plugin is a module named by an entry point of the group ``npudbg.plugins``.  It
implements any of the hooks of :mod:`npudbg.plugins.hooks` with :data:`hookimpl`::

    from npudbg.plugins import Rule, Subject, finding, hookimpl

    @hookimpl
    def npudbg_rules():
        return [Rule(2, ("X901",), judge)]

A verb that shall stand in ``npudbg --help`` is also announced by an entry point of
the group ``npudbg.verbs`` (``NAME = module``): its help line is the first line of
that module's docstring, read without importing it.

Names are imported when first used, so that ``import npudbg.plugins`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

# `typing` takes longer to import than the rest of this module; mypy knows the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from npudbg.graph.ir import Graph
    from npudbg.graph.loader import load as load_graph
    from npudbg.graph.types import contract as value_contract
    from npudbg.layers.case import Case
    from npudbg.layers.catalogue import Entry
    from npudbg.layers.findings import Rule, finding, judge
    from npudbg.plugins.announce import verb_names
    from npudbg.plugins.api import Panel, PanelContext, Verb
    from npudbg.plugins.hooks import hookimpl
    from npudbg.plugins.judging import judge_model
    from npudbg.plugins.loading import Plugins, loaded
    from npudbg.plugins.output import (
        exit_code,
        finding_lines,
        write_json,
        write_lines,
    )
    from npudbg.session.errors import UserError
    from npudbg.session.jsonable import finding_dict
    from npudbg.session.lines import Line, Span, Style, line
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding, Meta, NodeRecord, Stats, Subject, TensorRecord
    from npudbg.session.text import safe
    from npudbg.session.writer import SessionWriter
    from npudbg.targets.loader import load as load_target
    from npudbg.targets.profile import Target

__all__ = [
    "Case",
    "Entry",
    "Finding",
    "Graph",
    "Line",
    "Meta",
    "NodeRecord",
    "Panel",
    "PanelContext",
    "Plugins",
    "Rule",
    "Session",
    "SessionWriter",
    "Span",
    "Stats",
    "Style",
    "Subject",
    "Target",
    "TensorRecord",
    "UserError",
    "Verb",
    "exit_code",
    "finding",
    "finding_dict",
    "finding_lines",
    "hookimpl",
    "judge",
    "judge_model",
    "line",
    "load_graph",
    "load_target",
    "loaded",
    "safe",
    "value_contract",
    "verb_names",
    "write_json",
    "write_lines",
]

_HOME = {
    "Case": "npudbg.layers.case",
    "Entry": "npudbg.layers.catalogue",
    "Finding": "npudbg.session.records",
    "Graph": "npudbg.graph.ir",
    "Line": "npudbg.session.lines",
    "Meta": "npudbg.session.records",
    "NodeRecord": "npudbg.session.records",
    "Panel": "npudbg.plugins.api",
    "PanelContext": "npudbg.plugins.api",
    "Plugins": "npudbg.plugins.loading",
    "Rule": "npudbg.layers.findings",
    "Session": "npudbg.session.reader",
    "SessionWriter": "npudbg.session.writer",
    "Span": "npudbg.session.lines",
    "Stats": "npudbg.session.records",
    "Style": "npudbg.session.lines",
    "Subject": "npudbg.session.records",
    "Target": "npudbg.targets.profile",
    "TensorRecord": "npudbg.session.records",
    "UserError": "npudbg.session.errors",
    "Verb": "npudbg.plugins.api",
    "exit_code": "npudbg.plugins.output",
    "finding": "npudbg.layers.findings",
    "finding_dict": "npudbg.session.jsonable",
    "finding_lines": "npudbg.plugins.output",
    "hookimpl": "npudbg.plugins.hooks",
    "judge": "npudbg.layers.findings",
    "judge_model": "npudbg.plugins.judging",
    "line": "npudbg.session.lines",
    "load_graph": "npudbg.graph.loader:load",
    "load_target": "npudbg.targets.loader:load",
    "loaded": "npudbg.plugins.loading",
    "safe": "npudbg.session.text",
    "value_contract": "npudbg.graph.types:contract",
    "verb_names": "npudbg.plugins.announce",
    "write_json": "npudbg.plugins.output",
    "write_lines": "npudbg.plugins.output",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value
