"""The documents: their code runs, and what they name exists."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npudbg.cli import main
from npudbg.commands import table
from npudbg.graph.loader import from_proto
from npudbg.layers import catalogue, findings
from npudbg.layers.case import Case, HostTensor
from npudbg.plugins.announce import verb_names
from npudbg.plugins.api import PanelContext
from npudbg.plugins.loading import load, loaded
from npudbg.session.reader import Session
from npudbg.session.records import TensorRecord
from npudbg.session.writer import SessionWriter
from npudbg.targets import loader

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {
    name: text for _, name, text in _FENCE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
}


def executed(name: str) -> ModuleType:
    module = ModuleType(f"docs_{name.replace('-', '_')}")
    exec(compile(BLOCKS[name], f"CONTRIBUTING.md [{name}]", "exec"), module.__dict__)
    return module


@pytest.fixture(autouse=True)
def _registries_stay_clean() -> Iterator[None]:
    # npudbg's own rules and the installed plugins register when first asked for.
    findings.rules(1)
    loaded()
    entries, rules = dict(catalogue._registered), list(findings._rules)
    yield
    catalogue._registered.clear()
    catalogue._registered.update(entries)
    findings._rules[:] = rules


def small_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="first"),
        helper.make_node("Neg", ["h"], ["y"], name="second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def host(shape: tuple[int, ...]) -> HostTensor:
    record = TensorRecord(id=0, name="x", role="input", shape=shape, dtype="<f4")
    return HostTensor(record, {}, np.zeros(shape, "f4"))


def test_a_check() -> None:
    ((code, texts),) = tomllib.loads(BLOCKS["check-texts"]).items()
    assert catalogue.entry(code) is None, "the example's code is taken"
    catalogue.register([msgspec.convert({"code": code, **texts}, catalogue.Entry)])
    odd_width = executed("check-rule").odd_width
    target = loader.load("generic")
    (found,) = odd_width(Case(target=target, inputs=(host((1, 3, 8, 7)),)))
    assert (found.code, found.layer, found.severity) == ("I299", 2, "warning")
    assert found.evidence == {"width": 7}
    twins = (host((1, 3, 7, 8)), host((1, 3, 7)))
    assert not list(odd_width(Case(target=target, inputs=twins)))
    assert any(r.judge is odd_width and r.layer == 2 for r in findings._rules)


def test_a_target() -> None:
    target = loader.load_toml_text(BLOCKS["target"], "CONTRIBUTING.md")
    assert (target.name, target.dma.base_alignment, target.dma.length_bits) == ("my-npu", 64, 24)


def test_a_backend(tmp_path: Path) -> None:
    from npudbg.backends.base import Request

    log = tmp_path / "kernels.csv"
    log.write_text("first,0,40\nsecond,40,100\n")
    request = Request(graph=from_proto(small_model(), name="m"), target=loader.load("generic"))
    writer = SessionWriter(tmp_path / "s.npudbg")
    backend = executed("backend").KernelLog(log)
    assert backend.run(request, writer).status == "complete"
    writer.close()
    with Session.open(tmp_path / "s.npudbg") as session:
        assert (session.n_commands, session.n_cycles) == (2, 100)
        assert session.meta.backend == "kernel-log"
        assert [(n.label, n.start, n.end) for n in session.nodes] == [
            ("first", 0, 40),
            ("second", 40, 100),
        ]


def test_a_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = executed("plugin")
    point: Any = SimpleNamespace(name="hello", value="npudbg_hello", load=lambda: module)
    plugins = load([point], reserved=table.VERBS)
    assert plugins.problems == []
    model = tmp_path / "m.onnx"
    onnx.save(small_model(), model)
    verb = plugins.verb("hello")
    assert verb is not None
    assert verb.run(SimpleNamespace(model=str(model))) == 0  # type: ignore[arg-type]
    assert capsys.readouterr().out.split() == ["1", "Neg", "1", "Relu"]
    (panel,) = plugins.panels
    assert plugins.lines(panel, PanelContext())[0].text == "no session"


def test_a_plugins_metadata(tmp_path: Path) -> None:
    points = tomllib.loads(BLOCKS["plugin-pyproject"])["project"]["entry-points"]
    info = tmp_path / "npudbg_hello-0.1.dist-info"
    info.mkdir()
    rows = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in each.items())
        for group, each in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(rows))
    (tmp_path / "npudbg_hello.py").write_text(BLOCKS["plugin"])
    assert verb_names([str(tmp_path)]) == {"hello": "Count the operators of a model."}


def test_the_report_that_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    ((case, shown),) = re.findall(r"^```text demo (\S+)\n(.*?)^```$", text, re.M | re.S)
    assert main(["demo", case, "--headless"]) == 1
    printed = capsys.readouterr().out
    # The wording may be wrapped elsewhere; codes, figures and names must be there.
    wanted = {word for word in re.findall(r"[\w.]+", shown) if re.search(r"\d|_|[a-z]{5}", word)}
    assert {word for word in wanted if word not in printed} == set()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_that_a_document_links_to_are_there(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    links = [t for t in re.findall(r"\]\(([^)#]+)", text) if "://" not in t]
    links += re.findall(r'src="([^":]+)"', text)
    assert [t for t in links if not (ROOT / t).exists()] == []


def test_make_targets_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        named = re.findall(r"\bmake ([a-z-]+)\b", (ROOT / name).read_text("utf-8"))
        assert set(named) <= targets


def test_verbs_that_documents_name_exist() -> None:
    known = {*table.VERBS, *verb_names(), "VERB"}
    for name in ("README.md", "CONTRIBUTING.md"):
        code = re.findall(r"(?:^ {4}|`)npudbg ([a-z]+)", (ROOT / name).read_text("utf-8"), re.M)
        assert set(code) <= known
