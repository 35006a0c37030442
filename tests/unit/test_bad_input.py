"""Bad input gives one clear line on stderr and exit code 2; never a traceback."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.cli import main
from npudbg.commands.demo import run_case


def good_model():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def with_nodes(*nodes, weights=()):
    model = good_model()
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(weights)
    return model.SerializeToString()


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "good.onnx"
    path.write_bytes(good_model().SerializeToString())
    return str(path)


@pytest.fixture
def refused(capsys):
    def check(*argv, words=""):
        code = main([str(a) for a in argv])
        out, err = capsys.readouterr()
        assert code == 2, (code, out, err)
        assert err.startswith("npudbg")
        assert len(err.strip().splitlines()) == 1, err
        assert "Traceback" not in err
        assert words.lower() in err.lower(), err
        return err

    return check


def test_the_good_model_is_good(model, capsys):
    assert main(["check", model]) == 0
    assert "NOTHING AT FAULT" in capsys.readouterr().out


def external(location):
    weight = numpy_helper.from_array(np.ones((4,), "f4"), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", location
    return with_nodes(helper.make_node("Add", ["x", "w"], ["y"]), weights=[weight])


MODELS = {
    "empty": (b"", "empty"),
    "text": (b"this is not a model, it is a letter to a friend\n" * 9, ""),
    "html": (b"<!DOCTYPE html><html><body>404</body></html>", "html"),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 1234\n",
        "lfs",
    ),
    "cut": (good_model().SerializeToString()[:-20], ""),
    "random": (np.random.default_rng(0).bytes(5000), ""),
    "cycle": (
        with_nodes(
            helper.make_node("Add", ["x", "b"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ),
        "cycle",
    ),
    "undefined": (with_nodes(helper.make_node("Add", ["x", "ghost"], ["y"])), "ghost"),
    "unknown-domain": (with_nodes(helper.make_node("Magic", ["x"], ["y"], domain="acme")), "acme"),
    "unknown-operator": (with_nodes(helper.make_node("Reluu", ["x"], ["y"])), "Reluu"),
    "external-outside": (external("../../etc/passwd"), "outside"),
    "external-absolute": (external("/etc/passwd"), ""),
    "external-missing": (external("weights.bin"), "weights.bin"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path, refused):
    data, words = MODELS[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    refused("check", path, words=words)


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def bomb() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        head = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (268435456,), }")
        archive.writestr("x.npy", head + bytes(1 << 30))
    return data.getvalue()


INPUTS = {
    "text.npy": (b"1.0 2.0 3.0 4.0\n", ""),
    "empty.npy": (b"", "empty"),
    "object.npy": (npy("{'descr': '|O', 'fortran_order': False, 'shape': (4,), }", b"x" * 40), ""),
    "huge.npy": (
        npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 60},), }}", b"x" * 16),
        "",
    ),
    "cut.npy": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }", b"x" * 7), ""),
    "code.npy": (npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (4,)}"), ""),
    "text.npz": (b"PK\x03\x04 not really", ""),
    "unknown.jpg": (b"\xff\xd8\xff\xe0" + bytes(40), "jpeg"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs(name, tmp_path, model, refused):
    data, words = INPUTS[name]
    path = tmp_path / name
    path.write_bytes(data)
    refused("check", model, path, words=words)


def test_a_zip_bomb_is_not_expanded(tmp_path, model, refused):
    path = tmp_path / "bomb.npz"
    path.write_bytes(bomb())
    assert path.stat().st_size < 2 << 20
    refused("check", model, path)


def test_places(tmp_path, model, refused):
    refused("check", tmp_path / "nothing.onnx", words="no such file")
    refused("check", tmp_path, words="directory")
    refused("check", model, tmp_path / "nothing.npy")
    refused("check", model, tmp_path)
    refused("check", model, "--save", tmp_path / "no" / "such" / "folder" / "s.npudbg")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "rk3589"], "rk3588"),
        (["--dim", "batch=2"], "batch"),
        (["--dim", "x"], "--dim"),
        (["--precision", "fp17"], "fp17"),
        (["--host-address", "z=0x1000"], "z"),
        (["--host-address", "x=zero"], "zero"),
        (["--input", "q=a.npy"], "a.npy"),
        (["--fault", "gremlin"], "gremlin"),
        (["--seed", "-1"], "seed"),
        (["--mean", "a,b"], "mean"),
        (["--no-such-option"], "no-such-option"),
    ],
)
def test_options(options, words, model, refused):
    refused("check", model, *options, words=words)


def test_wrong_names_are_given_the_closest(tmp_path, refused):
    path = tmp_path / "m.onnx"
    two = good_model()
    two.graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 4)))
    path.write_bytes(two.SerializeToString())
    np.save(tmp_path / "a.npy", np.zeros((1, 4), "f4"))
    refused("check", path, "--input", f"imag={tmp_path / 'a.npy'}", words="image")
    refused("check", path, tmp_path / "a.npy", words="image")


def test_verbs(refused):
    refused("chekc", words="check")
    refused("explain", "Q999", words="Q999")
    refused("demo", "nothing", words="clean")


@pytest.mark.parametrize("damage", ["cut", "corrupt", "foreign", "newer", "empty"])
def test_sessions(damage, tmp_path, refused):
    path = tmp_path / "s.npudbg"
    run_case("clean", save=str(path))
    raw = bytearray(path.read_bytes())
    if damage == "cut":
        raw = raw[: len(raw) // 3]
    elif damage == "corrupt":
        for at in range(4096, len(raw), 97):
            raw[at] ^= 0xFF
    elif damage == "foreign":
        raw[68:72] = b"abcd"
    elif damage == "newer":
        raw[60:64] = (99).to_bytes(4, "big")
    else:
        raw = bytearray()
    path.write_bytes(raw)
    refused("replay", path, "--batch", "-ex", "info findings")


def test_two_gigabytes_are_refused_by_name(tmp_path, refused):
    path = tmp_path / "big.onnx"
    with path.open("wb") as file:
        file.write(good_model().SerializeToString())
        file.truncate((1 << 31) + 10)  # sparse: takes no room
    refused("check", path, words="external data")
