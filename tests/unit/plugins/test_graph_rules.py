"""What the model's graph alone shows, and the twins that stay silent."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_graph_view import model

from npudbg.layers import catalogue
from npudbg.plugins import Case, load_graph
from npudbg.targets.profile import Target
from npudbg_graph.catalogue import entries
from npudbg_graph.rules import UNBOUNDED, judge_graph, open_shapes

GENERIC = Target(name="generic", title="")


@pytest.fixture(autouse=True, scope="module")
def _texts():
    catalogue.register(entries())


def judge(path):
    return list(judge_graph(Case(target=GENERIC, graph=load_graph(path))))


def node(op, reads, writes, **attributes):
    return helper.make_node(op, list(reads), list(writes), name=f"{op}_{writes[0]}", **attributes)


# -- B22: unbounded sizes ------------------------------------------------------------------


def test_the_largest_int64_is_no_size(tmp_path):
    index = numpy_helper.from_array(np.array([0], "i8"), "i")
    info = helper.make_tensor_value_info("h", TensorProto.FLOAT, (1, UNBOUNDED))
    nodes = [node("Relu", ["x"], ["h"]), node("Gather", ["h", "i"], ["y"])]
    path = model(tmp_path, nodes, (1, 4), value_info=[info], weights=[index])
    (found,) = judge(path)
    assert (found.code, found.severity, found.subject.node) == ("G601", "error", 1)
    assert "first node with unbounded shape: Gather_y (Gather, input 0: h)" in found.message
    assert "9223372036854775807 means 'no upper bound', not a size" in found.message
    assert found.evidence["axes"] == [1] and found.evidence["size"] == UNBOUNDED


def test_an_unbounded_input(tmp_path):
    path = model(tmp_path, [node("Relu", ["x"], ["y"])], (1, UNBOUNDED))
    (found,) = judge(path)
    assert found.evidence["tensor"] == "x" and found.subject.node == 0


@pytest.mark.parametrize("shape", [(1, 4), (1, "N"), (1, -1), None, (), (0,), (1 << 40,)])
def test_other_shapes_are_silent(tmp_path, shape):
    assert judge(model(tmp_path, [node("Relu", ["x"], ["y"])], shape)) == []


def test_open_axes_on_a_static_target(tmp_path):
    path = model(tmp_path, [node("Relu", ["x"], ["y"])], ("N", 3, -1))
    graph = load_graph(path)
    (found,) = open_shapes(graph, set())
    assert (found.code, found.evidence["axes"]) == ("G605", [0, 2])
    (found,) = open_shapes(graph, {"N"})
    assert found.evidence["axes"] == [2]
    assert list(open_shapes(graph, {"N", "x.2"})) == []


# -- transposes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "redundant"),
    [
        ([0, 2, 3, 1], [0, 3, 1, 2], True),
        ([0, 2, 3, 1], [0, 2, 3, 1], False),
        ([1, 0, 2, 3], [1, 0, 2, 3], True),
        (None, None, True),
        (None, [3, 2, 1, 0], True),
        ([3, 2, 1, 0], None, True),
        (None, [3, 1, 2, 0], False),
        ([1, 2, 3, 0], [1, 2, 3, 0], False),
    ],
)
def test_transpose_pairs(tmp_path, first, second, redundant):
    one = {} if first is None else {"perm": first}
    two = {} if second is None else {"perm": second}
    nodes = [node("Transpose", ["x"], ["h"], **one), node("Transpose", ["h"], ["y"], **two)]
    found = judge(model(tmp_path, nodes))
    assert [f.code for f in found] == (["G602"] if redundant else [])
    x = np.arange(120).reshape(2, 3, 4, 5)
    assert np.array_equal(np.transpose(np.transpose(x, first), second), x) is redundant


def test_a_node_between_keeps_both(tmp_path):
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        node("Relu", ["a"], ["b"]),
        node("Transpose", ["b"], ["y"], perm=[0, 3, 1, 2]),
    ]
    assert judge(model(tmp_path, nodes)) == []


# -- identity and batch normalisation ------------------------------------------------------


def test_identity_between_nodes(tmp_path):
    nodes = [node("Relu", ["x"], ["a"]), node("Identity", ["a"], ["b"]), node("Neg", ["b"], ["y"])]
    (found,) = judge(model(tmp_path, nodes))
    assert (found.code, found.severity, found.evidence["count"]) == ("G603", "info", 1)
    assert judge(model(tmp_path, [node("Identity", ["x"], ["y"])])) == []


def _bn(tmp_path, before, *, twice=False):
    ones = [numpy_helper.from_array(np.ones(3, "f4"), n) for n in "sbmv"]
    weight = numpy_helper.from_array(np.ones((3, 3, 1, 1), "f4"), "w")
    nodes = [*before, node("BatchNormalization", ["h", *"sbmv"], ["y"])]
    if twice:
        nodes.append(node("Neg", ["h"], ["z"]))
    outputs = ("y", "z") if twice else ("y",)
    return judge(model(tmp_path, nodes, weights=[*ones, weight], outputs=outputs))


def test_batch_norm_behind_a_conv(tmp_path):
    conv = node("Conv", ["x", "w"], ["h"])
    (found,) = _bn(tmp_path, [conv])
    assert (found.code, found.severity) == ("G604", "info")
    assert (found.evidence["foldable"], found.evidence["behind_activation"]) == (1, 0)
    assert _bn(tmp_path, [conv], twice=True) == []  # another reader: not foldable


def test_batch_norm_behind_an_activation(tmp_path):
    before = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["h"])]
    (found,) = _bn(tmp_path, before)
    assert (found.evidence["foldable"], found.evidence["behind_activation"]) == (0, 1)
    assert "Relu before" in found.message


def test_the_rule_is_silent_without_a_model():
    assert list(judge_graph(Case(target=GENERIC))) == []
