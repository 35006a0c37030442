"""Files that are not what they should be: one line each, never a traceback or a hang."""

from __future__ import annotations

import os
import zipfile

import numpy as np
import pytest
from graph_models import external, gemm, model, save, value
from onnx import TensorProto, helper, numpy_helper

from npudbg.graph.loader import from_proto, load
from npudbg.session.errors import UserError

LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345678\n"
)


def refusal(call, *args):
    with pytest.raises(UserError) as caught:
        call(*args)
    text = str(caught.value)
    assert "\n" not in text and text.isprintable()
    return text


HEADS = {
    "empty": (b"", "an empty file"),
    "lfs": (LFS, "the real file has 12,345,678 bytes); fetch it with `git lfs pull`"),
    "html": (b"\n<!DOCTYPE html><html><body>404</body></html>", "an HTML page; download"),
    "text": (b"hello, world\nthis is no model\n", "a text file"),
    "json": (b'{"model": 1}', "a JSON file"),
    "xml": (b'<?xml version="1.0"?><net name="m" version="11"></net>', "OpenVINO IR"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(64), "a TensorFlow Lite model"),
    "rknn": (b"RKNN" + bytes(64), "a Rockchip RKNN model, already compiled"),
    "om": (b"IMOD" + bytes(64), "an Ascend .om model, already compiled"),
    "ort": (b"\x18\0\0\0ORTM" + bytes(64), ".ort format"),
    "pickle": (b"\x80\x02\x8a\nl\xfc\x9cF", "a Python pickle"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "Keras"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(64), "an ELF file"),
    "npy": (b"\x93NUMPY\x01\0v\0", "a NumPy .npy array"),
    "gguf": (b"GGUF\x03\0\0\0", "a GGUF weight file"),
    "gzip": (b"\x1f\x8b\x08\0" + bytes(20), "a gzip archive; unpack it first"),
    "zip cut": (b"PK\x03\x04" + bytes(30), "a damaged zip archive"),
    "random": (np.random.default_rng(7).bytes(4000), "not an ONNX model"),
    "zeros": (bytes(1000), "not an ONNX model"),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADS)
def test_other_files_are_named(tmp_path, case):
    data, expected = HEADS[case]
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    text = refusal(load, path)
    assert expected in text and text.startswith(str(path))


def test_zips_are_looked_into(tmp_path):
    path = tmp_path / "m.onnx"
    for member, expected in (
        ("model/data.pkl", "a PyTorch file (zip); export it with torch.onnx.export"),
        ("x.npy", "a NumPy .npz archive"),
        ("deep/model.onnx", "an ONNX file inside"),
        ("readme", "a zip archive"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, b"x")
        assert expected in refusal(load, path)


def test_what_is_no_file(tmp_path):
    assert "no such file" in refusal(load, tmp_path / "absent.onnx")
    assert "a directory" in refusal(load, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe" in refusal(load, tmp_path / "pipe")
    assert "a device" in refusal(load, "/dev/zero")
    assert "cannot be opened" in refusal(load, "a\0b")
    assert "cannot be opened" in refusal(load, "x" * 5000)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be opened" in refusal(load, tmp_path / "loop")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(tmp_path):
    path = save(gemm(), tmp_path / "m.onnx")
    path.chmod(0)
    assert "permission denied" in refusal(load, path)


def test_over_two_gigabytes(tmp_path):
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.write(gemm().SerializeToString())
        file.truncate(3 << 30)  # sparse: takes no room
    text = refusal(load, path)
    assert "3,221,225,472 bytes" in text and "external data" in text


def test_cut_model_says_how_much_is_missing(tmp_path):
    path = save(gemm(), tmp_path / "m.onnx")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 40])
    graph = gemm().graph.ByteSize()
    # The opset import stands behind the graph: its 6 bytes go first.
    behind = len(whole) - whole.index(gemm().graph.SerializeToString()) - graph
    text = refusal(load, path)
    assert f"its graph has {graph} bytes and {40 - behind} of them are missing" in text


def test_control_characters_never_reach_the_screen():
    made = gemm()
    made.graph.node[0].name = "\x1b[31mred\n\u202e"
    made.graph.node[0].input[0] = "\x1b]0;title\x07"
    text = refusal(from_proto, made)
    assert "?[31mred??" in text


def test_no_graph():
    made = gemm()
    made.ClearField("graph")
    assert "no graph" in refusal(from_proto, made)


def test_cycle_is_named():
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("Neg", ["b"], ["c"], name="third"),
        helper.make_node("Abs", ["c"], ["y"], name="innocent"),
    ]
    text = refusal(from_proto, model(nodes, [value("x")], [value("y")]))
    assert "cycle: first -> second -> third -> first" in text


def test_undefined_input_names_node_and_tensor():
    made = gemm()
    made.graph.node[1].input[0] = "xv"
    assert "node 'bias' reads 'xv'" in refusal(from_proto, made)
    made = gemm()
    made.graph.output[0].name = "z"
    assert "gives as output 'z'" in refusal(from_proto, made)


def test_undefined_name_inside_a_body():
    then = helper.make_graph([helper.make_node("Abs", ["gone"], ["t"])], "t", [], [value("t")])
    other = helper.make_graph([helper.make_node("Abs", ["x"], ["e"])], "e", [], [value("e")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="if")
    made = model([node], [value("x"), value("c", (), TensorProto.BOOL)], [value("y")])
    text = refusal(from_proto, made)
    assert "body of 'if'" in text and "reads 'gone'" in text


def test_name_made_twice():
    made = gemm()
    made.graph.node[2].output[0] = "s"
    text = refusal(from_proto, made)
    assert "'s' is made by node 'Relu_2' and also by node 'bias'" in text
    made = gemm()
    made.graph.node[0].output[0] = "w"
    assert "also by an input or initializer" in refusal(from_proto, made)
    made = gemm()
    made.graph.input.append(value("x"))
    assert "input 'x' is listed twice" in refusal(from_proto, made)


def test_operators_that_do_not_exist():
    made = gemm()
    made.graph.node[2].domain = "acme.npu"
    assert "operator 'Relu' is of domain 'acme.npu'" in refusal(from_proto, made)
    made.graph.node[2].domain, made.graph.node[2].op_type = "", "Relv"
    assert "'Relv' does not exist in ai.onnx; did the exporter mean" in refusal(from_proto, made)
    made.graph.node[2].op_type = "Gelu"
    text = refusal(from_proto, made)
    assert "'Gelu' exists only since opset 20 of ai.onnx and the model declares 17" in text


def test_versions_of_the_future():
    made = gemm()
    made.opset_import[0].version = 999
    assert "opset 999 of ai.onnx is newer" in refusal(from_proto, made)
    made = gemm()
    made.ir_version = 999
    assert "IR version 999 is newer" in refusal(from_proto, made)


def test_deep_bodies():
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["t"])], "g", [], [value("t")])
    for _ in range(26):
        node = helper.make_node("If", ["c"], ["t"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], "g", [], [value("t")])
        # Keep one branch only, or the file doubles at every level.
        del graph.node[0].attribute[1]
    made = model([], [value("x"), value("c", (), TensorProto.BOOL)], [value("t")])
    made.graph.node.extend(graph.node)
    assert "nested more than 24 deep" in refusal(from_proto, made)


def function(name, *calls):
    nodes = [
        helper.make_node(call, ["a" if i == 0 else f"t{i}"], [f"t{i + 1}"], domain="own")
        for i, call in enumerate(calls)
    ]
    last = f"t{len(calls)}" if calls else "a"
    nodes.append(helper.make_node("Abs", [last], ["b"]))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, imports)


def calling(functions, entry):
    return model(
        [helper.make_node(entry, ["x"], ["y"], domain="own")], [value("x")], [value("y")],
        functions=functions, imports=[helper.make_opsetid("own", 1)],
    )  # fmt: skip


def test_functions_that_call_themselves_or_explode():
    text = refusal(from_proto, calling([function("P", "Q"), function("Q", "P")], "P"))
    assert "calls itself" in text
    bomb = [function("F0")] + [function(f"F{k}", *[f"F{k - 1}"] * 10) for k in range(1, 9)]
    assert "expands to" in refusal(from_proto, calling(bomb, "F8"))
    assert from_proto(calling(bomb[:4], "F3")).nodes[0].op_type == "F3"


def test_initializers_that_lie():
    made = gemm()
    made.graph.initializer[0].raw_data = bytes(40)
    text = refusal(from_proto, made)
    assert "'w'" in text and "needs 48 bytes and the file holds 40: 8 are missing" in text
    made = gemm()
    made.graph.initializer[0].dims[0] = 1 << 60
    assert "are missing" in refusal(from_proto, made)
    made.graph.initializer[0].dims[0] = -4
    assert "negative axis" in refusal(from_proto, made)
    made = gemm()
    made.graph.initializer[0].data_type = 99
    assert "element type 99" in refusal(from_proto, made)


def test_sparse_bomb():
    made = model([helper.make_node("Identity", ["s"], ["y"])], [], [value("y", (2, 3))])
    values = numpy_helper.from_array(np.array([5], np.float32), "s")
    indices = numpy_helper.from_array(np.array([1], np.int64), "i")
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, indices, [1 << 30, 1 << 30])
    )
    assert "when dense" in refusal(from_proto, made)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", ""])
def test_external_data_outside_is_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(48))
    text = refusal(load, external(folder / "m.onnx", location=location))
    assert "refused" in text or "names no location" in text


def test_external_data_through_a_link_is_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(48))
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    path = external(folder / "m.onnx")
    assert "symbolic link leads out of the model's folder" in refusal(load, path)
    (folder / "sub").symlink_to(tmp_path)
    assert "symbolic link" in refusal(load, external(path, location="sub/secret"))
    # A link that stays inside is fine.
    (folder / "real.bin").write_bytes(bytes(48))
    (folder / "w.bin").unlink()
    (folder / "w.bin").symlink_to("real.bin")
    assert load(external(path)).initializers["w"].array().sum() == 0


def test_external_data_missing_or_short(tmp_path):
    path = external(tmp_path / "m.onnx")
    assert "'w.bin' (of tensor 'w') is not there" in refusal(load, path)
    path = external(tmp_path / "m.onnx", payload=bytes(40))
    assert "8 bytes are missing" in refusal(load, path)
    path = external(tmp_path / "m.onnx", payload=bytes(100), offset=60)
    assert "8 bytes are missing" in refusal(load, path)
    path = external(tmp_path / "m.onnx", payload=bytes(100), length=20)
    assert "20 bytes long, but its shape and type need 48" in refusal(load, path)
    path = external(tmp_path / "m.onnx", payload=bytes(100), offset=-1)
    assert "offset '-1'" in refusal(load, path)
    (tmp_path / "w.bin").unlink()
    (tmp_path / "w.bin").mkdir()
    assert "not a regular file" in refusal(load, external(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("equation", "fine"),
    [("bij,bjk->bik", True), ("...ij, ...jk -> ...ik", True), ("ii", True), ("ij->", True),
     ("bij,`bjk -> bik", False), ("ij..", False), ("i->j->k", False),
     ("... ...", False), ("i-j", False)],
)  # fmt: skip
def test_equations_that_would_hang_the_runtime(equation, fine):
    node = helper.make_node("Einsum", ["x", "x"], ["y"], equation=equation, name="e")
    made = model([node], [value("x")], [value("y")])
    if fine:
        assert from_proto(made).nodes[0].attributes["equation"] == equation
    else:
        assert "node 'e': Einsum equation" in refusal(from_proto, made)
