"""A model comes in whole, in order, with its contract; nothing is decoded before it is asked."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from graph_models import external, gemm, model, save, value
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from npudbg.graph import infer
from npudbg.graph.ir import SparseTensor, Subgraph
from npudbg.graph.loader import from_proto, load
from npudbg.graph.order import execution_order
from npudbg.graph.types import ELEMENT
from npudbg.session.errors import UserError

NODE_TESTS = Path(onnx.__file__).parent / "backend" / "test" / "data"


def test_what_the_file_says(tmp_path):
    path = save(gemm(), tmp_path / "m.onnx")
    graph = load(path)
    assert graph.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (graph.name, graph.nbytes) == ("m.onnx", path.stat().st_size)
    assert (graph.tool, graph.ir_version, graph.opset) == ("tests 1.0", 9, {"": 17})
    (x,) = graph.inputs
    assert (x.name, x.dtype, x.shape, x.kind) == ("x", "<f4", ("N", 4), "tensor")
    assert [n.label for n in graph.nodes] == ["mm", "bias", "Relu_2"]
    assert [n.since_opset for n in graph.nodes] == [13, 14, 14]
    assert graph.producer("s").name == "bias"
    assert graph.producer("x") is None
    assert [n.index for n in graph.consumers("xw")] == [1]
    assert graph.value_types["xw"].shape == ("N", 3)
    assert graph.types_for({"x": (5, 4)})["y"].shape == (5, 3)
    record = graph.record()
    assert record.operators == {"MatMul": 1, "Add": 1, "Relu": 1}
    assert record.producer == "tests 1.0"


def test_dims_bind_inference(tmp_path):
    graph = load(save(gemm(), tmp_path / "m.onnx"), dims={"N": 6})
    assert graph.value_types["xw"].shape == (6, 3)


def test_initializer_is_read_only_and_exact():
    graph = from_proto(gemm())
    w = graph.initializers["w"]
    assert (w.shape, w.dtype, w.nbytes, w.location) == ((4, 3), "<f4", 48, None)
    assert np.array_equal(w.array(), np.arange(12, dtype=np.float32).reshape(4, 3))
    with pytest.raises(ValueError, match="read-only"):
        w.array()[0, 0] = 1


SIGNED = {n for n, name in ELEMENT.items() if not name.startswith(("uint", "<u", "|u", "|b", "s"))}
SIGNED -= {24}  # FLOAT8E8M0: a scale, never negative


def onnx_makes(number):
    """Whether the installed onnx makes tensors of a type: older ones lack some of them."""
    try:
        numpy_helper.to_array(helper.make_tensor("w", number, [1], [1]))
        dtype = helper.tensor_dtype_to_np_dtype(number)
        return numpy_helper.from_array(np.ones(1, dtype)).data_type == number
    except (KeyError, TypeError):
        return False


MADE = [n for n in ELEMENT if n != TensorProto.STRING and onnx_makes(n)]


def test_a_current_onnx_makes_every_type_that_it_has():
    version = tuple(int(part) for part in onnx.__version__.split(".")[:2])
    known = {n for n in TensorProto.DataType.values() if n} - {TensorProto.STRING}
    assert version < (1, 20) or known.intersection(ELEMENT) <= set(MADE)


@pytest.mark.parametrize("number", MADE)
def test_every_element_type_agrees_with_onnx(number):
    dtype = helper.tensor_dtype_to_np_dtype(number)
    values = np.array([0, 1, 1, 0, 1], np.float32).astype(dtype)
    if number in SIGNED:
        values = np.array([0, -1, 1, -1.5, -1], np.float32).astype(dtype)
    proto = numpy_helper.from_array(values, "w")
    assert proto.data_type == number
    made = model(
        [helper.make_node("Identity", ["w"], ["y"])], [], [value("y", (5,), number)], [proto]
    )
    graph = from_proto(made)
    array = graph.initializers["w"].array()
    assert array.dtype == dtype
    assert array.tobytes() == numpy_helper.to_array(proto).tobytes()
    assert graph.outputs[0].dtype == graph.initializers["w"].dtype


@pytest.mark.parametrize("number", MADE)
def test_values_in_typed_fields_agree_with_onnx(number):
    proto = helper.make_tensor("w", number, [3], [0, 1, 1])
    assert not proto.HasField("raw_data")
    made = model(
        [helper.make_node("Identity", ["w"], ["y"])], [], [value("y", (3,), number)], [proto]
    )
    array = from_proto(made).initializers["w"].array()
    assert array.tobytes() == numpy_helper.to_array(proto).tobytes()


def test_strings_and_typed_fields():
    words = helper.make_tensor("s", TensorProto.STRING, [2], [b"a", "ü".encode()])
    halves = helper.make_tensor("h", TensorProto.FLOAT16, [2], [1.5, -2.0])
    nodes = [helper.make_node("Identity", [n], [n + "_"]) for n in "sh"]
    outs = [value("s_", (2,), TensorProto.STRING), value("h_", (2,), TensorProto.FLOAT16)]
    graph = from_proto(model(nodes, [], outs, [words, halves]))
    assert graph.initializers["s"].array().tolist() == ["a", "ü"]
    assert graph.initializers["h"].array().tolist() == [1.5, -2.0]


def test_initializer_that_is_also_an_input_is_a_default():
    made = gemm()
    made.ir_version = 3
    made.graph.input.append(value("w", (4, 3)))
    graph = from_proto(made)
    assert [c.name for c in graph.inputs] == ["x"]
    assert [(c.name, c.optional) for c in graph.defaults] == [("w", True)]
    assert graph.input("w").shape == (4, 3)


def test_attributes_are_python_values():
    tensor = numpy_helper.from_array(np.array([7], np.int64), "t")
    conv = helper.make_node(
        "Conv", ["x", "w"], ["y"], kernel_shape=[1, 1], auto_pad="VALID", group=1
    )
    const = helper.make_node("ConstantOfShape", ["s"], ["c"], value=tensor)
    w = numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32), "w")
    s = numpy_helper.from_array(np.array([2], np.int64), "s")
    made = model(
        [conv, const],
        [value("x", (1, 1, 2, 2))],
        [value("y", (1, 1, 2, 2)), value("c", (2,), TensorProto.INT64)],
        [w, s],
    )
    first, second = from_proto(made).nodes
    assert dict(first.attributes) == {"kernel_shape": [1, 1], "auto_pad": "VALID", "group": 1}
    assert second.attributes["value"].tolist() == [7]
    assert second.attributes.get("absent", 5) == 5
    assert "value" in second.attributes and len(second.attributes) == 1


def branchy():
    """If whose branches read x and (nested one deeper) k of the outer graph."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "k"], ["t1"])], "inner", [], [value("t1")]
    )
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["t2"])], "o", [], [value("t2")])
    nested = helper.make_node("If", ["c2"], ["t"], then_branch=inner, else_branch=other)
    then = helper.make_graph(
        [helper.make_node("Not", ["cond"], ["c2"]), nested], "then", [], [value("t")]
    )
    orelse = helper.make_graph([helper.make_node("Abs", ["x"], ["e"])], "else", [], [value("e")])
    nodes = [
        helper.make_node("Identity", ["k0"], ["k"]),
        helper.make_node("If", ["cond"], ["y"], then_branch=then, else_branch=orelse, name="if"),
    ]
    ins = [value("x"), value("k0"), value("cond", (), TensorProto.BOOL)]
    return model(nodes, ins, [value("y")])


def test_captured_names_count_as_reads():
    graph = from_proto(branchy())
    node = graph.nodes[1]
    assert set(node.captured) == {"cond", "x", "k"}
    assert graph.consumers("k") == (node,)
    body = node.attributes["then_branch"]
    assert isinstance(body, Subgraph)
    assert body.operators == {"Not": 1, "If": 1, "Add": 1, "Neg": 1}
    assert body.outputs == ("t",)


def test_captured_name_orders_nodes():
    made = branchy()
    nodes = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend(reversed(nodes))
    assert [n.op_type for n in from_proto(made).nodes] == ["Identity", "If"]


def test_sparse_initializer_unfolds():
    made = model([helper.make_node("Identity", ["s"], ["y"])], [], [value("y", (2, 3))])
    values = numpy_helper.from_array(np.array([5, 6], np.float32), "s")
    indices = numpy_helper.from_array(np.array([1, 5], np.int64), "i")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    s = from_proto(made).initializers["s"]
    assert s.sparse and s.array().tolist() == [[0, 5, 0], [0, 0, 6]]
    coordinates = numpy_helper.from_array(np.array([[0, 1], [1, 2]], np.int64), "i")
    made.graph.sparse_initializer[0].indices.CopyFrom(coordinates)
    assert from_proto(made).initializers["s"].array().tolist() == [[0, 5, 0], [0, 0, 6]]


def test_sparse_attribute():
    values = numpy_helper.from_array(np.array([5], np.float32), "v")
    indices = numpy_helper.from_array(np.array([1], np.int64), "i")
    sparse = helper.make_sparse_tensor(values, indices, [3])
    made = model([helper.make_node("Constant", [], ["y"], sparse_value=sparse)], [], [value("y")])
    found = from_proto(made).nodes[0].attributes["sparse_value"]
    assert isinstance(found, SparseTensor) and found.shape == (3,)


def test_model_functions_are_operators():
    body = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    made = model(
        [helper.make_node("Twice", ["x"], ["y"], domain="own")],
        [value("x")], [value("y")], functions=[body], imports=[helper.make_opsetid("own", 1)],
    )  # fmt: skip
    graph = from_proto(made)
    assert graph.nodes[0].operator == "own.Twice"
    assert [f.name for f in graph.functions] == ["Twice"]


def test_runtime_and_legacy_operators_are_known():
    made = model(
        [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")],
        [value("x")], [value("y")], imports=[helper.make_opsetid("com.microsoft", 1)],
    )  # fmt: skip
    assert from_proto(made).nodes[0].since_opset == 0
    made.graph.node[0].op_type = "Gelv"
    with pytest.raises(UserError, match=r"'Gelv' is not one of com.microsoft; .*'Gelu'"):
        from_proto(made)
    # ONNX has dropped ImageScaler; ONNX Runtime still runs it.
    made.graph.node[0].op_type, made.graph.node[0].domain = "ImageScaler", ""
    assert from_proto(made).nodes[0].since_opset == 0


def test_external_data_is_mapped(tmp_path):
    path = external(tmp_path / "m.onnx", payload=b"")
    w = load(path).initializers["w"]
    assert w.location == str((tmp_path / "w.bin").resolve())
    assert isinstance(w.array(), np.memmap)
    assert np.array_equal(w.array(), np.arange(12, dtype=np.float32).reshape(4, 3))


def test_external_data_at_an_offset(tmp_path):
    data = np.arange(12, dtype=np.float32).tobytes()
    path = external(tmp_path / "m.onnx", offset=5, length=48, payload=b"?????" + data + b"!")
    assert load(path).initializers["w"].array().tobytes() == data


def test_external_data_of_a_constant_node_travels_with_it(tmp_path):
    path = external(tmp_path / "m.onnx", payload=b"")
    made = onnx.load(path, load_external_data=False)
    w = made.graph.initializer[0]
    node = helper.make_node("Constant", [], ["w"], value=w)
    nodes = list(made.graph.node)
    del made.graph.node[:], made.graph.initializer[0]
    made.graph.node.extend([node, *nodes])
    graph = load(save(made, path))
    assert len(graph.nodes[0].proto.attribute[0].t.raw_data) == 48
    assert graph.nodes[0].attributes["value"].sum() == 66


def test_onnx_packages_own_models_load():
    paths = sorted(NODE_TESTS.rglob("*.onnx"))
    if not paths:
        pytest.skip("this onnx ships no test models")
    for path in paths:
        graph = load(path)
        made = onnx.load(path)
        assert len(graph.nodes) == len(made.graph.node)
        for tensor in made.graph.initializer:
            ours = graph.initializers[tensor.name].array()
            assert ours.tobytes() == numpy_helper.to_array(tensor).tobytes()


# -- order -------------------------------------------------------------------------------


@given(st.data())
def test_order_is_valid_and_stable(data):
    n = data.draw(st.integers(1, 12))
    # Node k reads only nodes below k: acyclic by construction; then shuffle the file.
    edges = [sorted(data.draw(st.sets(st.integers(0, k - 1)))) if k else [] for k in range(n)]
    file = data.draw(st.permutations(range(n)))
    place = {node: at for at, node in enumerate(file)}
    reads = [[f"t{m}" for m in edges[node]] for node in file]
    order, cycle = execution_order(reads, {f"t{m}": place[m] for m in range(n)})
    assert cycle == [] and sorted(order) == list(range(n))
    position = {at: i for i, at in enumerate(order)}
    for at, node in enumerate(file):
        assert all(position[place[m]] < position[at] for m in edges[node])
    if all(place[m] < at for at, node in enumerate(file) for m in edges[node]):
        assert order == list(range(n))


@given(st.integers(1, 6), st.integers(0, 4))
def test_cycle_is_a_real_one(length, extra):
    # A ring of `length` nodes, and `extra` nodes that hang off it.
    reads = [[f"t{(k - 1) % length}"] for k in range(length)]
    reads += [[f"t{length + k - 1}"] for k in range(extra)]
    producers = {f"t{k}": k for k in range(length + extra)}
    order, cycle = execution_order(reads, producers)
    assert order == [] and sorted(cycle) == list(range(length))
    for maker, reader in itertools.pairwise([*cycle, cycle[0]]):
        assert f"t{maker}" in reads[reader]


# -- damage ------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_models_never_raise_anything_else(data):
    raw = bytearray(data.draw(st.sampled_from(MUTANTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    made = bytes(raw[:cut] if data.draw(st.booleans()) else raw)
    path = TMP / "mutant.onnx"
    path.write_bytes(made)
    try:
        graph = load(path)
        for node in graph.nodes:
            list(node.attributes.values())
        for constant in graph.initializers.values():
            constant.array()
    except UserError as error:
        assert "\n" not in str(error)


MUTANTS = [branchy().SerializeToString(), gemm().SerializeToString()]


@pytest.fixture(autouse=True, scope="module")
def _tmp(tmp_path_factory):
    global TMP  # noqa: PLW0603
    TMP = tmp_path_factory.mktemp("mutants")


def test_inference_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(infer, "SECONDS", 0.5)
    monkeypatch.setattr(infer, "_CHILD", "while True: pass")
    assert from_proto(gemm()).value_types["y"].shape == ("N", 3)


def test_inference_that_crashes_is_done_without(monkeypatch):
    monkeypatch.setattr(infer, "_CHILD", "import os; os.abort()")
    assert from_proto(gemm()).value_types["y"].shape == ("N", 3)


def test_inference_loads_nothing_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "onnx.py").write_text("raise SystemExit('loaded from the working folder')")
    monkeypatch.chdir(tmp_path)
    assert from_proto(gemm()).value_types["xw"].shape == ("N", 3)
