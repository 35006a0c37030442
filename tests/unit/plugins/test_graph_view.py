"""The graph of a session and of a model: status, stages, walking, the panel, the verb."""

from __future__ import annotations

import argparse
import json
from itertools import pairwise

import numpy as np
import onnx
import pytest
from graph_session import write
from onnx import TensorProto, helper

from npudbg.plugins import PanelContext, Session, Subject, UserError, load_graph, loaded
from npudbg.session.writer import SessionWriter
from npudbg_graph.choose import around, find
from npudbg_graph.panel import KEYS, on_key, panel_lines
from npudbg_graph.stages import fused
from npudbg_graph.status import judge, origin, resolve, subject_of
from npudbg_graph.view import from_graph, from_session


@pytest.fixture
def session(tmp_path):
    with Session.open(write(tmp_path / "a.npudbg")) as opened:
        yield opened


def judged(session):
    view = from_session(session)
    judge(view, session.findings)
    return view


def status(view):
    return {v.name: v.status for v in view.vertices}


# -- status ----------------------------------------------------------------------------


def test_where_the_nan_begins_and_what_it_spoils(session):
    view = judged(session)
    assert status(view) == {
        "x": "ok",
        "conv1": "ok",
        "relu": "ok",
        "conv2": "NaN origin",
        "Add_3": "NaN downstream",
        "shape": "host",
    }
    assert [v.name for v in view.vertices if v.codes] == ["conv2"]
    assert view.vertices[origin(view, None)].name == "conv2"


def test_a_clean_run_has_no_origin(tmp_path):
    with Session.open(write(tmp_path / "a.npudbg", nan=())) as session:
        view = judged(session)
        assert set(status(view).values()) == {"ok", "host"}
        assert origin(view, None) is None
        assert on_key(PanelContext(session=session), "o") is None


def test_a_dirty_input_is_its_own_origin(tmp_path):
    nan = ("x", "t1", "t2", "t3", "y")
    with Session.open(write(tmp_path / "a.npudbg", nan=nan)) as session:
        view = judged(session)
        assert status(view)["x"] == "NaN origin"
        assert status(view)["conv1"] == "NaN downstream"
        add = find(view, "Add_3")
        assert view.vertices[origin(view, add)].name == "x"


def test_a_hang_is_shown_and_is_an_origin(tmp_path):
    with Session.open(write(tmp_path / "a.npudbg", nan=(), conv2="hung")) as session:
        view = judged(session)
        assert status(view)["conv2"] == "hung"
        assert view.vertices[origin(view, None)].name == "conv2"


# -- from the NaN to its node in two keys ---------------------------------------------------


def press(session, selection, key):
    return on_key(PanelContext(session=session, selection=selection), key)


def test_from_an_injected_nan_to_its_node_in_two_keys(session):
    # First key: the panel's own (any selection, here the spoiled output); second: o.
    (panel,) = [p for p in loaded().panels if p.id == "graph"]
    assert panel.key == "5"
    spoiled = Subject(kind="tensor", name="y", tensor=6)
    assert panel.on_key(PanelContext(session=session, selection=spoiled), "o") == Subject(
        kind="node", name="conv2", node=2
    )
    assert press(session, None, "o").node == 2
    assert press(session, Subject(kind="node", name="conv1", node=0), "o").node == 2


def test_to_the_commands_and_back(session):
    node = press(session, Subject(kind="tensor", name="y", tensor=6), "o")
    command = press(session, node, "x")
    assert (command.kind, command.seq) == ("command", 6)
    # Back: the command alone, as another pane selects it, leads to its node.
    view = judged(session)
    back = resolve(view, Subject(kind="command", seq=7), session)
    assert subject_of(view, back) == node
    tensor = press(session, node, "t")
    assert (tensor.kind, tensor.name, tensor.tensor) == ("tensor", "t3", 5)
    assert press(session, tensor, "o") == node


def test_up_and_down(session):
    add = Subject(kind="node", name="Add_3", node=3)
    up = press(session, add, "u")
    assert up.node == 2  # the dirty producer first
    assert press(session, up, "d") == add
    assert press(session, up, "u").node == 1
    assert press(session, add, "d") is None
    relu = Subject(kind="node", name="relu", node=1)
    first = press(session, relu, "d")
    second = press(session, first, "l")
    third = press(session, second, "l")
    assert {first.node, second.node, third.node} == {2, 3, 4}
    assert press(session, Subject(kind="node", name="conv1", node=0), "u").tensor == 0
    assert set(KEYS) == set("udhloxt")


# -- panel ------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 48), (40, 5), (20, 1)])
def test_the_panel_fits_its_pane(session, width, height):
    for node in range(5):
        selection = Subject(kind="node", name="", node=node)
        context = PanelContext(session=session, selection=selection, width=width, height=height)
        lines = panel_lines(context)
        assert 0 < len(lines) <= height
        assert all(len(each.text) <= width for each in lines)
        assert any(s.style == "current" for each in lines for s in each.spans) or height < 2


def test_panel_lines_select_their_node(session):
    lines = panel_lines(PanelContext(session=session))
    named = [each.subject for each in lines if each.subject and each.subject.kind == "node"]
    assert {s.node for s in named} == {0, 1, 2, 3, 4}
    text = "\n".join(each.text for each in lines)
    assert "NaN origin" in text and "NaN downstream" in text and "O401" in text


def test_panel_without_a_selection_follows_the_cursor(session):
    lines = panel_lines(PanelContext(session=session, seq=7))
    texts = [each.text for each in lines]
    row = next(n for n, each in enumerate(lines) if any(s.style == "current" for s in each.spans))
    assert "#2 Conv conv2  NaN origin" in texts[row]
    # Below it, beside the lanes that go on: status, commands, values.
    assert texts[row + 1].startswith("│ │    NaN origin, kernel conv on mac, commands 6-8")
    assert "weight  w2 <f4[1,4]  2 NaN, 0 Inf (simulated)" in texts[row + 3]
    assert "writes  t3 <f4[1,4]  2 NaN" in texts[row + 4]
    assert lines[row + 4].subject.tensor == 5


def test_panel_without_a_session():
    assert "npudbg graph" in panel_lines(PanelContext())[0].text


# -- stages ------------------------------------------------------------------------------


def test_fused_stage(session):
    view = fused(from_session(session), session, "fused")
    judge(view, session.findings)
    group = view.vertices[1]
    assert (group.kind, group.op, group.nodes) == ("group", "Conv+Relu", (0, 1))
    assert [view.values[v].name for v in group.reads] == ["x"]
    assert [view.values[v].name for v in group.writes] == ["t2"]  # t1 stays inside
    assert (group.first_seq, group.last_seq, group.kernel) == (0, 5, "conv+relu")
    assert status(view)["conv2"] == "NaN origin"
    assert resolve(view, Subject(kind="node", name="relu", node=1)) == 1


def test_a_stage_that_is_not_there(session):
    with pytest.raises(UserError, match="no stage 'mapped'"):
        fused(from_session(session), session, "mapped")


@pytest.mark.parametrize("stages", [{"fused": [1]}, {"fused": [{"nodes": "x"}]}, {"fused": [{}]}])
def test_a_damaged_stage(tmp_path, stages):
    path = write(tmp_path / "a.npudbg")
    import sqlite3

    import msgspec

    with sqlite3.connect(path) as db:
        db.execute(
            "UPDATE meta SET value=? WHERE key='extra:stages'", (msgspec.msgpack.encode(stages),)
        )
    db.close()
    with Session.open(path) as session, pytest.raises(UserError, match="damaged"):
        fused(from_session(session), session, "fused")


def test_the_hosts_tensor_and_its_copy_are_one_input(tmp_path):
    from npudbg.session.records import NodeRecord, TensorRecord

    writer = SessionWriter(tmp_path / "a.npudbg")
    names = [("x", "input", ()), ("x@ddr", "input", (0,)), ("y", "output", ())]
    for at, (name, role, readers) in enumerate(names):
        writer.add_tensor(
            TensorRecord(id=at, name=name, role=role, shape=(1,), dtype="<f4", consumers=readers)
        )
    writer.add_node(NodeRecord(index=0, name="n", op_type="Relu", inputs=(1,), outputs=(2,)))
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        view = judged(session)
        assert [v.name for v in view.vertices] == ["x", "n"]
        assert view.above(1) == [0] and view.below(0) == [1]
        for tensor in (0, 1):
            assert resolve(view, Subject(kind="tensor", tensor=tensor)) == 0
        assert subject_of(view, 0) == Subject(kind="tensor", name="x", tensor=0)


def test_hostile_ids_are_passed_over(tmp_path):
    from npudbg.session.records import NodeRecord, TensorRecord

    writer = SessionWriter(tmp_path / "a.npudbg")
    writer.add_tensor(
        TensorRecord(id=0, name="\x1b[2J" + "n" * 9999, role="input", shape=(1,), dtype="?",
                     consumers=(5, -3))
    )  # fmt: skip
    writer.add_node(
        NodeRecord(index=0, name="a\nb", op_type="[red]", inputs=(0, 99, -1), outputs=(0, 77, -9))
    )
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        lines = panel_lines(PanelContext(session=session, selection=Subject(kind="node", node=0)))
        assert all("\x1b" not in each.text and "\n" not in each.text for each in lines)
        assert any("[red]" in each.text for each in lines)


# -- a model file -----------------------------------------------------------------------


def model(tmp_path, nodes, shape=(1, 3, 4, 4), value_info=(), weights=(), outputs=("y",)):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        initializer=list(weights),
        value_info=list(value_info),
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_a_model_and_a_part_of_it(tmp_path):
    names = "abcdefgh"
    nodes = [
        helper.make_node("Relu", [a if n else "x"], ["y" if n == 6 else b], name=f"n{n}")
        for n, (a, b) in enumerate(pairwise(names))
    ]
    view = from_graph(load_graph(model(tmp_path, nodes)), shapes=True)
    assert [v.name for v in view.vertices] == ["x", *(f"n{n}" for n in range(7))]
    assert view.values[view.vertices[3].writes[0]].text == "<f4[1,3,4,4]"
    part = around(view, find(view, "n3"), 2, 1)
    assert [v.name for v in part.vertices] == ["n1", "n2", "n3", "n4"]
    assert find(view, "#3") == find(view, "3") == find(view, "n3") == 4
    assert find(view, "y") == 7
    with pytest.raises(UserError, match="did you mean 'n3'"):
        find(view, "n33")


def test_captured_values_are_edges(tmp_path):
    then = helper.make_graph(
        [helper.make_node("Neg", ["h"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu"),
        helper.make_node(
            "Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [True])
        ),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other),
    ]
    graph = load_graph(model(tmp_path, nodes))
    view = from_graph(graph)
    assert view.hidden == 1
    branch = next(v for v in view.vertices if v.name == "if")
    assert {view.values[v].name for v in branch.reads} == {"h", "x"}
    assert len(from_graph(graph, constants=True).vertices) == len(view.vertices) + 1


# -- verb -------------------------------------------------------------------------------


def run(*args) -> int:
    verb = loaded().verb("graph")
    parser = argparse.ArgumentParser()
    verb.prepare_parser(parser)
    return verb.run(parser.parse_args([str(a) for a in args]))


def test_verb_on_a_session(tmp_path, capsys):
    path = write(tmp_path / "a.npudbg")
    assert run(path) == 1
    text = capsys.readouterr().out
    rows = [r for r in text.splitlines() if "conv2" in r or "Add_3" in r]
    assert "N  #2 Conv conv2  NaN origin  O401" in rows[0]
    assert "NaN downstream" in rows[1]
    assert run(path, "--origin", "--up", 0, "--down", 0) == 1
    assert "1 rows of 6" in capsys.readouterr().out
    assert run(path, "--stage", "fused") == 1
    assert "#0-1 Conv+Relu conv1 … relu" in capsys.readouterr().out
    assert run(path, "--ascii") == 1
    assert capsys.readouterr().out.isascii()


def test_verb_json(tmp_path, capsys):
    assert run(write(tmp_path / "a.npudbg"), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "npudbg.graph/1"
    nodes = document["nodes"]
    edges = {(nodes[e["from"]]["name"], nodes[e["to"]]["name"]) for e in document["edges"]}
    assert edges == {
        ("x", "conv1"),
        ("conv1", "relu"),
        ("relu", "conv2"),
        ("relu", "Add_3"),
        ("relu", "shape"),
        ("conv2", "Add_3"),
    }
    (finding,) = document["findings"]
    assert (finding["code"], finding["subject"]["name"]) == ("O401", "t3")


def test_a_clean_session_is_0(tmp_path):
    assert run(write(tmp_path / "a.npudbg", nan=())) == 0


def test_what_the_verb_refuses(tmp_path):
    text = tmp_path / "m.onnx"
    text.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1234\n")
    with pytest.raises(UserError, match="LFS"):
        run(text)
    text.write_bytes(b"")
    with pytest.raises(UserError):
        run(text)
    with pytest.raises(UserError):
        run(tmp_path / "none.onnx")
    good = model(tmp_path, [helper.make_node("Relu", ["x"], ["y"])])
    with pytest.raises(UserError, match="npudbg check"):
        run(good, "--stage", "fused")
    with pytest.raises(UserError, match="give a session"):
        run(good, "--origin")
    with pytest.raises(UserError, match="--dim"):
        run(good, "--dim", "x")
    big = tmp_path / "big.onnx"
    with big.open("wb") as file:
        file.write(good.read_bytes())
        file.truncate(1 << 31)
    with pytest.raises(UserError, match="external data"):
        run(big)


def test_external_data_outside_the_folder_is_refused(tmp_path):
    weight = onnx.numpy_helper.from_array(np.zeros(300, "f4"), "w")
    made = onnx.load(
        model(tmp_path, [helper.make_node("Add", ["x", "w"], ["y"])], (300,), weights=[weight])
    )
    onnx.save(made, tmp_path / "e.onnx", save_as_external_data=True, location="ext.data",
              size_threshold=0)  # fmt: skip
    (tmp_path / "ext.data").rename(tmp_path / "moved.data")
    with pytest.raises(UserError, match=r"ext\.data"):
        run(tmp_path / "e.onnx")
