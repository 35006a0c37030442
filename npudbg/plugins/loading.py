"""Loading plugins: each is checked as a whole, and a faulty one is named and left out.

A plugin is someone else's code.  Whatever it does wrong (a failing import, a hook
that raises, a return value that is not what the hook promises, a name that is
taken) costs one clear line and the plugin; npudbg and the other plugins go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pluggy

from npudbg.layers import catalogue
from npudbg.layers.findings import Rule
from npudbg.plugins import hooks
from npudbg.plugins.api import Panel, PanelContext, Verb
from npudbg.plugins.checks import Rubbish, check_entry, check_panel, check_rule, check_verb
from npudbg.session.errors import UserError
from npudbg.session.lines import Line, line
from npudbg.session.records import Subject
from npudbg.session.text import safe

if TYPE_CHECKING:
    import argparse

GROUP = "npudbg.plugins"
_MAX_ITEMS = 1000
T = TypeVar("T")


class EntryPoint(Protocol):
    """The part of an entry point that loading needs."""

    @property
    def name(self) -> str:
        """The plugin's name."""

    @property
    def value(self) -> str:
        """The module it names."""

    def load(self) -> Any:
        """Import what the entry point names."""


class Plugins:
    """The plugins that loaded, and one line for each that did not.

    Attributes:
        problems: One line for each plugin or item left out.
    """

    def __init__(self) -> None:
        """Make an empty set; see :func:`load` and :func:`loaded`."""
        self.problems: list[str] = []
        self._names: list[str] = []
        self._rules: dict[str, list[Rule]] = {}
        self._verbs: dict[str, list[Verb]] = {}
        self._panels: dict[str, list[Panel]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the plugins in use."""
        return tuple(self._names)

    @property
    def rules(self) -> list[Rule]:
        """Rules of all plugins, each marked with its plugin."""
        return [rule for name in self._names for rule in self._rules[name]]

    @property
    def verbs(self) -> list[Verb]:
        """Verbs of all plugins."""
        return [verb for name in self._names for verb in self._verbs[name]]

    @property
    def panels(self) -> list[Panel]:
        """Panels of all plugins."""
        return [panel for name in self._names for panel in self._panels[name]]

    def verb(self, name: str) -> Verb | None:
        """Return the verb of that name, or None."""
        return next((v for v in self.verbs if v.name == name), None)

    def disable(self, name: str, why: str) -> None:
        """Leave a plugin out from now on, with one line that says why."""
        if name in self._names:
            self._names.remove(name)
        self.problems.append(f"plugin {safe(name, 60)} is disabled: {safe(why, 300)}")

    def rule_failed(self, rule: Rule, error: Exception) -> None:
        """Disable the plugin of a rule that raised (``failed`` of ``findings.judge``)."""
        self.disable(rule.source, f"rule {rule.name} failed ({_what(error)})")

    def lines(self, panel: Panel, context: PanelContext) -> list[Line]:
        """Return a panel's lines; if it fails, the one line that says so."""
        try:
            lines = panel.lines(context)
            if not isinstance(lines, list) or not all(isinstance(each, Line) for each in lines):
                raise TypeError("it did not return a list of Line")
        except UserError as error:
            return [line((safe(error, 300), "error"))]
        except Exception as error:
            return [self._panel_failed(panel, error)]
        return lines

    def key(self, panel: Panel, context: PanelContext, key: str) -> Subject | None:
        """Return what a key selects in a panel, or None."""
        try:
            subject = panel.on_key(context, key)
            if subject is not None and not isinstance(subject, Subject):
                raise TypeError("it did not return a Subject")
        except UserError:
            return None
        except Exception as error:
            self._panel_failed(panel, error)
            return None
        return subject

    def _panel_failed(self, panel: Panel, error: Exception) -> Line:
        owner = next((n for n, panels in self._panels.items() if panel in panels), panel.id)
        if owner in self._names or owner not in self._panels:
            self.disable(owner, f"panel {panel.id} failed ({_what(error)})")
        return line(
            (f"plugin {safe(owner, 60)}: panel failed ({safe(_what(error), 200)})", "error")
        )

    def _add(self, name: str, manager: pluggy.PluginManager, reserved: frozenset[str]) -> None:
        """Take what one registered plugin offers, all of it or nothing."""
        others = [p for n, p in manager.list_name_plugin() if n != name]

        def call(hook: str, check: Callable[[T, str], T]) -> list[T]:
            found: list[T] = []
            for part in manager.subset_hook_caller(hook, others)():
                if not isinstance(part, list | tuple):
                    raise Rubbish(f"{hook} returned {type(part).__name__}, not a list")
                found.extend(check(item, hook) for item in part)
                if len(found) > _MAX_ITEMS:
                    raise Rubbish(f"{hook} returned more than {_MAX_ITEMS} items")
            return found

        entries = call("npudbg_catalogue", check_entry)
        rules = call("npudbg_rules", check_rule)
        verbs = call("npudbg_verbs", check_verb)
        panels = call("npudbg_panels", check_panel)
        _refuse_doubles("verb", [v.name for v in verbs], [*reserved, *(v.name for v in self.verbs)])
        _refuse_doubles("panel", [p.id for p in panels], [p.id for p in self.panels])
        _refuse_doubles("finding code", [e.code for e in entries], [])
        known = {e.code for e in entries}
        for rule in rules:
            for code in rule.codes:
                if code not in known and catalogue.entry(code) is None:
                    raise Rubbish(f"rule {rule.name} gives {code}, which no catalogue explains")
        for entry in entries:
            there = catalogue.entry(entry.code)
            if there is not None and there != entry:
                raise Rubbish(f"finding code {entry.code} is already taken ({there.name})")
        catalogue.register(entries)
        self._names.append(name)
        self._rules[name] = [replace(rule, source=name) for rule in rules]
        self._verbs[name] = [_guarded(verb, name) for verb in verbs]
        self._panels[name] = panels


def load(entry_points: Iterable[EntryPoint] | None = None, reserved: Iterable[str] = ()) -> Plugins:
    """Load plugins.

    Args:
        entry_points: Where from; the installed ones of :data:`GROUP` by default.
        reserved: Verbs that a plugin may not take (npudbg's own).
    """
    points: Iterable[EntryPoint] = _installed() if entry_points is None else entry_points
    plugins = Plugins()
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks.Hooks)
    taken = frozenset(reserved)
    seen: set[str] = set()
    for point in sorted(points, key=lambda p: (p.name, p.value)):
        name = point.name
        if name in seen:
            plugins.problems.append(
                f"plugin {safe(name, 60)} ({safe(point.value, 60)}) is disabled: "
                "another plugin has the same name"
            )
            continue
        seen.add(name)
        module: Any = None
        try:
            module = point.load()
            manager.register(module, name)
            _refuse_unknown_hooks(manager, name)
            plugins._add(name, manager, taken)
        except (Exception, SystemExit) as error:
            if os.environ.get("NPUDBG_DEBUG"):
                import traceback

                traceback.print_exc()
            if manager.get_plugin(name) is not None:
                manager.unregister(name=name)
            doing = "cannot be imported" if module is None else "cannot be used"
            plugins.disable(name, f"{doing} ({_what(error)})")
    return plugins


def _installed() -> Iterable[EntryPoint]:
    import importlib.metadata

    return importlib.metadata.entry_points(group=GROUP)


@cache
def loaded(reserved: tuple[str, ...] = ()) -> Plugins:
    """Return the installed plugins, loaded once (``loaded.cache_clear()`` forgets them)."""
    return load(reserved=reserved)


def _refuse_unknown_hooks(manager: pluggy.PluginManager, name: str) -> None:
    plugin = manager.get_plugin(name)
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec():
            impls = [i for i in caller.get_hookimpls() if i.plugin is plugin]
            if not all(i.optionalhook for i in impls):
                raise Rubbish(f"it implements {caller.name}, which this npudbg does not know")


def _refuse_doubles(what: str, names: list[str], taken: list[str]) -> None:
    seen = set(taken)
    for name in names:
        if name in seen:
            raise Rubbish(f"{what} {name} is already taken")
        seen.add(name)


def _guarded(verb: Verb, plugin: str) -> Verb:
    def prepare_parser(parser: argparse.ArgumentParser) -> None:
        _blamed(plugin, verb.name, lambda: verb.prepare_parser(parser))

    def run(args: argparse.Namespace) -> int:
        return int(_blamed(plugin, verb.name, lambda: verb.run(args)) or 0)

    return replace(verb, prepare_parser=prepare_parser, run=run)


def _blamed(plugin: str, verb: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except (UserError, BrokenPipeError):
        raise
    except Exception as error:
        if os.environ.get("NPUDBG_DEBUG"):
            raise
        raise UserError(
            f"{verb}: the plugin {safe(plugin, 60)} failed ({safe(_what(error), 200)}); "
            "report it to its author, NPUDBG_DEBUG=1 shows where"
        ) from error


def _what(error: BaseException) -> str:
    text = safe(error, 200)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe(plugins: Plugins) -> Mapping[str, list[str]]:
    """Return what each plugin in use adds, as short texts."""
    return {
        name: [
            *(f"verb {v.name}" for v in plugins._verbs[name]),
            *(f"panel {p.id}" for p in plugins._panels[name]),
            *(f"rule {r.name}" for r in plugins._rules[name]),
        ]
        for name in plugins.names
    }
