"""Plugins as third parties write them: loaded, and named and left out when faulty."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from npudbg.layers import catalogue, findings
from npudbg.plugins import (
    Case,
    Entry,
    Finding,
    Line,
    Panel,
    PanelContext,
    Rule,
    Subject,
    UserError,
    Verb,
    exit_code,
    finding,
    finding_dict,
    finding_lines,
    hookimpl,
    line,
    verb_names,
)
from npudbg.plugins.loading import Plugins, load
from npudbg.targets.profile import Target

ENTRY = Entry(
    code="X901", name="too-small", layer=2, severity="warning", title="t", meaning="m", why="w",
    confirm="c", mend="m",
)  # fmt: skip


class Point:
    """A fake entry point."""

    def __init__(self, name: str, module, value: str = "dummy"):
        self.name, self.value, self._module = name, value, module

    def load(self):
        if isinstance(self._module, BaseException):
            raise self._module
        return self._module


@pytest.fixture(autouse=True)
def _clean_catalogue():
    before = dict(catalogue._registered)
    yield
    catalogue._registered.clear()
    catalogue._registered.update(before)


def plugin(**hooks) -> ModuleType:
    """A plugin module whose hooks return (or call) what is given."""
    module = ModuleType("dummy")
    for name, value in hooks.items():

        def hook(value=value):
            return value() if callable(value) else value

        # pluggy reads argument names: the default must not be one of them.
        def bare(hook=hook):
            return hook()

        bare.__defaults__ = (hook,)
        setattr(module, f"npudbg_{name}", hookimpl(bare))
    return module


def judge(case):
    return [finding("X901", Subject(kind="model", name="m"), "too small", source="good")]


def verb(name="hello", run=lambda args: 0, prepare=lambda parser: None) -> Verb:
    return Verb(name, "says hello", prepare, run)


def panel(name="hello", lines=lambda context: [line("hi")], **more) -> Panel:
    return Panel(name, "Hello", lines, **more)


def good() -> ModuleType:
    return plugin(
        catalogue=[ENTRY], rules=[Rule(2, ("X901",), judge)], verbs=[verb()], panels=[panel()]
    )


CASE = Case(target=Target(name="generic", title=""))


def only_extra(plugins: Plugins, case: Case = CASE) -> list[Finding]:
    found: list[Finding] = []
    for rule in plugins.rules:
        try:
            found += rule.judge(case)
        except Exception as error:
            plugins.rule_failed(rule, error)
    return found


def test_a_good_plugin_gives_all_it_has():
    plugins = load([Point("good", good())])
    assert plugins.problems == []
    assert plugins.names == ("good",)
    assert [f.code for f in only_extra(plugins)] == ["X901"]
    assert [r.source for r in plugins.rules] == ["good"]
    assert catalogue.entry("X901") == ENTRY
    assert plugins.verb("hello").run(argparse.Namespace()) == 0
    assert plugins.verb("nothing") is None
    assert [each.text for each in plugins.lines(plugins.panels[0], PanelContext())] == ["hi"]


def test_a_plugin_may_implement_nothing():
    plugins = load([Point("empty", ModuleType("empty"))])
    assert (plugins.names, plugins.problems) == (("empty",), [])


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (ImportError("No module named 'torch'"), "cannot be imported (ImportError: No module"),
        (SyntaxError("invalid syntax"), "cannot be imported (SyntaxError"),
        (SystemExit(3), "cannot be imported (SystemExit: 3"),
        (RuntimeError("two\nlines\x1b[31m"), "RuntimeError: two?lines?[31m"),
        (plugin(rules=lambda: 1 / 0), "ZeroDivisionError"),
        (plugin(rules=42), "npudbg_rules returned int, not a list"),
        (plugin(rules="abc"), "npudbg_rules returned str, not a list"),
        (plugin(rules=[1]), "npudbg_rules returned a int, not a Rule"),
        (plugin(rules=[Rule(2, ("X999",), judge)]), "X999, which no catalogue explains"),
        (plugin(rules=[Rule(2, (), None)]), "cannot be called"),
        (plugin(verbs=[object()]), "not a Verb"),
        (plugin(verbs=[verb("Bad Name")]), "'Bad Name' is not a name"),
        (plugin(verbs=[verb("run")]), "verb run is already taken"),
        (plugin(verbs=[verb(), verb()]), "verb hello is already taken"),
        (plugin(verbs=[Verb("v", "", None, None)]), "no function"),
        (plugin(panels=[panel("../x")]), "is not a name"),
        (plugin(panels=[panel(lines=3)]), "no function"),
        (plugin(catalogue=["x"]), "not a Entry"),
        (plugin(nonsense=[]), "npudbg_nonsense, which this npudbg does not know"),
        (plugin(verbs=[verb(f"v{n}") for n in range(2000)]), "more than 1000"),
    ],
)
def test_a_faulty_plugin_is_named_and_the_rest_goes_on(module, words):
    plugins = load([Point("bad", module), Point("good", good())], reserved=["run"])
    assert plugins.names == ("good",)
    (problem,) = plugins.problems
    assert problem.startswith("plugin bad is disabled: ")
    assert words in problem
    assert problem.isprintable() and len(problem) < 400
    assert [v.name for v in plugins.verbs] == ["hello"]
    assert [f.code for f in only_extra(plugins)] == ["X901"]


def test_a_hook_with_wrong_arguments_is_named():
    module = ModuleType("bad")

    @hookimpl
    def npudbg_rules(session):
        return []

    module.npudbg_rules = npudbg_rules
    plugins = load([Point("bad", module), Point("good", good())])
    assert plugins.names == ("good",) and "bad" in plugins.problems[0]


def test_a_plugin_is_taken_whole_or_not_at_all():
    module = plugin(catalogue=[ENTRY], verbs=[verb()], panels=lambda: 1 / 0)
    plugins = load([Point("half", module)])
    assert (plugins.names, plugins.verbs, plugins.rules) == ((), [], [])
    assert catalogue.entry("X901") is None


def test_codes_belong_to_whom_came_first():
    other = Entry(**{**{f: getattr(ENTRY, f) for f in Entry.__struct_fields__}, "name": "else"})
    plugins = load([Point("a", good()), Point("b", plugin(catalogue=[other]))])
    assert plugins.names == ("a",)
    assert "finding code X901 is already taken (too-small)" in plugins.problems[0]


def test_two_plugins_of_one_name():
    plugins = load([Point("a", good(), "one"), Point("a", good(), "two")])
    assert plugins.names == ("a",) and "another plugin has the same name" in plugins.problems[0]


def test_hostile_names_are_made_safe():
    plugins = load([Point("\x1b[2J" + "x" * 5000, ImportError("\u202e"))])
    assert plugins.problems[0].isprintable() and len(plugins.problems[0]) < 500


def test_a_rule_that_raises_later_disables_its_plugin():
    def failing(case):
        raise KeyError("shape")

    plugins = load(
        [
            Point("bad", plugin(catalogue=[ENTRY], rules=[Rule(2, ("X901",), failing)])),
            Point("ok", plugin(verbs=[verb()])),
        ]
    )
    rule = plugins.rules[0]
    try:
        rule.judge(CASE)
    except KeyError as error:
        plugins.rule_failed(rule, error)
    assert plugins.names == ("ok",)
    assert plugins.problems == ["plugin bad is disabled: rule failing failed (KeyError: 'shape')"]


def test_the_registry_guards_plugin_rules(monkeypatch):
    def failing(case):
        raise KeyError("shape")

    monkeypatch.setattr(findings, "_load", lambda: None)
    monkeypatch.setattr(findings, "_rules", [])
    plugins = load(
        [
            Point("bad", plugin(catalogue=[ENTRY], rules=[Rule(2, ("X901",), failing)])),
            Point("good", plugin(rules=[Rule(2, ("X901",), judge), Rule(3, ("X901",), judge)])),
        ]
    )
    found = findings.judge(CASE, 2, plugins.rules, plugins.rule_failed)
    assert [f.source for f in found] == ["good"]
    assert plugins.names == ("good",) and len(plugins.problems) == 1


# -- panels and verbs that fail when used -----------------------------------------------


@pytest.mark.parametrize("lines", [lambda c: 1 / 0, lambda c: "text", lambda c: ["text"]])
def test_a_panel_that_fails_is_one_line(lines):
    plugins = load([Point("bad", plugin(panels=[panel(lines=lines)])), Point("ok", plugin())])
    shown = plugins.lines(plugins.panels[0], PanelContext())
    assert len(shown) == 1 and isinstance(shown[0], Line)
    assert "plugin bad: panel failed" in shown[0].text
    assert plugins.names == ("ok",)


def test_a_panel_may_say_a_user_error():
    def lines(context):
        raise UserError("x.npudbg: damaged")

    plugins = load([Point("a", plugin(panels=[panel(lines=lines)]))])
    assert plugins.lines(plugins.panels[0], PanelContext())[0].text == "x.npudbg: damaged"
    assert plugins.names == ("a",)


@pytest.mark.parametrize(
    ("on_key", "word"), [(lambda c, k: 1 / 0, "ZeroDivision"), (lambda c, k: "node", "Subject")]
)
def test_a_key_that_fails_selects_nothing(on_key, word):
    plugins = load([Point("bad", plugin(panels=[panel(on_key=on_key, keys={"z": "zap"})]))])
    assert plugins.key(plugins.panels[0], PanelContext(), "z") is None
    assert plugins.names == () and word in plugins.problems[0]


def test_a_key_selects():
    goal = Subject(kind="node", name="n", node=1)
    plugins = load([Point("a", plugin(panels=[panel(on_key=lambda c, k: goal)]))])
    assert plugins.key(plugins.panels[0], PanelContext(), "z") == goal


def test_a_verb_that_fails_is_one_line():
    def run(args):
        raise ValueError("boom")

    plugins = load([Point("bad", plugin(verbs=[verb(run=run)]))])
    with pytest.raises(UserError, match=r"hello: the plugin bad failed \(ValueError: boom\)"):
        plugins.verb("hello").run(argparse.Namespace())

    def refuse(args):
        raise UserError("no such file")

    plugins = load([Point("fine", plugin(verbs=[verb(run=refuse)]))])
    with pytest.raises(UserError, match=r"^no such file$"):
        plugins.verb("hello").run(argparse.Namespace())


# -- what verbs print --------------------------------------------------------------------


def test_a_finding_in_the_reports_form():
    load([Point("good", good())])
    made = finding(
        "X901",
        Subject(kind="tensor", name="t", tensor=3),
        "too small",
        evidence={"ratio": float("nan"), "sizes": (1, 2)},
        fix="make it larger",
        source="good",
    )
    shown = finding_dict(made)
    assert shown == {
        "code": "X901",
        "name": "too-small",
        "layer": 2,
        "severity": "warning",
        "certainty": "proven",
        "subject": {"kind": "tensor", "name": "t", "tensor": 3},
        "message": "too small",
        "evidence": {"ratio": "nan", "sizes": [1, 2]},
        "fix": "make it larger",
        "origin": "measured",
        "source": "good",
    }
    json.dumps(shown, allow_nan=False)
    assert exit_code([made]) == 0
    text = [each.text for each in finding_lines(made)]
    assert text[0] == "warning X901 too-small: too small"
    assert text[2].strip() == "fix: make it larger"


# -- announced verbs, and a package as a third party installs it ------------------------------


def package(folder: Path, name: str, source: str, entry_points: str) -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(source))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))


POINTS = """
    [npudbg.plugins]
    {0} = {0}

    [npudbg.verbs]
    {0} = {0}
"""


def test_help_lines_without_an_import(tmp_path):
    package(
        tmp_path,
        "loud",
        '"""Say it loud.\n\nMore."""\nraise SystemExit(1)\n',
        POINTS.format("loud"),
    )
    package(tmp_path, "mute", "x = (", POINTS.format("mute"))
    package(tmp_path, "rude", '"""\x1b[31mRed"""', POINTS.format("rude"))
    package(
        tmp_path,
        "other",
        '"""Other."""',
        """
        [npudbg.verbs]
        Bad Name = other
        worse = ../other
        [console_scripts]
        thing = other:run
        """,
    )
    assert verb_names([str(tmp_path)]) == {
        "loud": "Say it loud.",
        "mute": "(plugin mute)",
        "rude": "?[31mRed",
    }
    assert verb_names([str(tmp_path / "none")]) == {}


def test_the_bundled_verbs_are_announced():
    names = verb_names()
    assert names["elf"].startswith("Check ELF files")
    assert names["graph"].startswith("Draw a model")


def run_python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )


def test_announcing_imports_nothing_heavy():
    code = (
        "import sys; from npudbg.plugins import verb_names; verb_names();"
        "print([m for m in ('numpy','msgspec','onnx','onnxruntime','textual','pluggy',"
        "'importlib.metadata','npudbg_elf','npudbg_graph','elftools') if m in sys.modules])"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_an_installed_third_party_plugin(tmp_path):
    package(
        tmp_path,
        "npudbg_dummy",
        '''
        """Count the model's nodes."""
        from npudbg.plugins import Entry, Panel, Rule, Subject, Verb, finding, hookimpl, line

        def judge(case):
            yield finding("X902", Subject(kind="model", name="m"), "seen", source="dummy")

        def run(args):
            print("dummy runs", args.times)
            return 0

        @hookimpl
        def npudbg_catalogue():
            return [Entry(code="X902", name="seen", layer=2, severity="info", title="t",
                          meaning="m", why="w", confirm="c", mend="m")]

        @hookimpl
        def npudbg_rules():
            return [Rule(2, ("X902",), judge)]

        @hookimpl
        def npudbg_verbs():
            return [Verb("npudbg-dummy", "count", lambda p: p.add_argument("times"), run)]

        @hookimpl
        def npudbg_panels():
            return [Panel("dummy", "Dummy", lambda context: [line("one line")])]
        ''',
        POINTS.format("npudbg_dummy"),
    )  # fmt: skip
    package(tmp_path, "npudbg_sick", "import no_such_module", POINTS.format("npudbg_sick"))
    code = """
import argparse
from npudbg.plugins import loaded, PanelContext
p = loaded()
print(sorted(p.names)); print(p.problems)
v = p.verb("npudbg-dummy"); a = argparse.ArgumentParser(); v.prepare_parser(a)
print(v.run(a.parse_args(["3"])))
panel = [x for x in p.panels if x.id == "dummy"][0]
print([l.text for l in p.lines(panel, PanelContext())])
rule = [r for r in p.rules if r.source == "npudbg_dummy"][0]
print([f.code for f in rule.judge(None)])
"""
    sick = (
        "plugin npudbg_sick is disabled: cannot be imported "
        "(ModuleNotFoundError: No module named 'no_such_module')"
    )
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['elf', 'graph', 'npudbg_dummy']",
        str([sick]),
        "dummy runs 3",
        "0",
        "['one line']",
        "['X902']",
    ]


def test_every_public_name_is_there():
    import npudbg.plugins as api

    missing = []
    for name in api.__all__:
        try:
            getattr(api, name)
        except AttributeError:
            missing.append(name)
    assert missing == []
    assert set(api._HOME) == set(api.__all__)
    with pytest.raises(AttributeError):
        _ = api.nothing


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ('"""One line."""', "One line."),
        ('"""One line.\n\nMore."""', "One line."),
        ('# coding\n\n# note\nr"""Raw."""\n', "Raw."),
        ("'single'", "single"),
        ('"""\\\nBehind a backslash.\n"""', "Behind a backslash."),
        ('"""\nBelow."""', "Below."),
        ("import x\n'''no docstring'''", ""),
        ("x = 'text'", ""),
        ("", ""),
    ],
)
def test_the_first_line_of_a_docstring(tmp_path, source, first):
    package(tmp_path, "mod", source, POINTS.format("mod"))
    assert verb_names([str(tmp_path)]) == {"mod": first or "(plugin mod)"}
