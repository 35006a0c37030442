"""Input files come in as they are, or are refused in one line; nothing is ever unpickled."""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from graph_models import F, gemm, model, value
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper

from npudbg.graph import npy, npz
from npudbg.graph.feeds import assign, read_feed, synthesize
from npudbg.graph.loader import from_proto
from npudbg.session.errors import UserError
from npudbg.session.records import ValueContract


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("feeds")


def refusal(call, *args):
    with pytest.raises(UserError) as caught:
        call(*args)
    text = str(caught.value)
    assert "\n" not in text and text.isprintable()
    return text


def header(text: str, version: int = 1, payload: bytes = b"") -> bytes:
    raw = text.encode("latin-1")
    length = struct.pack("<H" if version == 1 else "<I", len(raw))
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw + payload


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
)


# -- .npy --------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_npy_agrees_with_numpy(folder, data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
    array = data.draw(hnp.arrays(data.draw(DTYPES), shape))
    if data.draw(st.booleans()):
        array = np.asfortranarray(array)
    path = folder / "round.npy"
    version = data.draw(st.sampled_from([(1, 0), (2, 0), (3, 0), None]))
    with path.open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(file, array, version)
    ours, theirs = npy.read(path), np.load(path)
    assert ours.dtype == theirs.dtype and ours.dtype.str == theirs.dtype.str
    assert ours.shape == theirs.shape and ours.strides == theirs.strides
    assert ours.tobytes() == theirs.tobytes()


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_mutated_npy_never_raises_anything_else(folder, data):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6, dtype=">f4").reshape(2, 3))
    raw = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    path = saved(folder / "mutant.npy", bytes(raw))
    try:
        array = npy.read(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert array.nbytes <= len(raw)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="{}()[]'\":,<>|=fiuOVUL0123456789 dscrshapefotn_TrueFals", max_size=120))
def test_any_header_text(folder, text):
    path = saved(folder / "text.npy", header(text, payload=bytes(64)))
    try:
        npy.read(path)
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "pickled and never opened"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }",
         "needs 4,611,686,018,427,387,904 bytes and the file holds 8"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "claims"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
         "shape [3] of float32 needs 12 bytes and the file holds 8: 4 bytes are missing"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured"),
        ("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }", "no element type"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "damaged"),
        ("{'descr': '<f4', 'shape': (1,), }", "damaged"),
        ("{'descr': '<f4', 'fortran_order': __import__('os'), 'shape': (1,)}", "damaged"),
        ("{'descr': '|V2', 'fortran_order': False, 'shape': (1,), }", "give FILE:bfloat16"),
        ("(" * 60000, "damaged"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 70 + "), }", "70 axes"),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4611686018427387904, 9), }",
         "cannot reshape"),
    ],
)  # fmt: skip
def test_npy_headers_that_are_refused(folder, text, expected):
    path = saved(folder / "bad.npy", header(text, payload=bytes(8)))
    assert expected in refusal(npy.read, path)


def test_python2_header_is_read(folder):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n"
    assert npy.read(saved(folder / "py2.npy", header(text, payload=bytes(8)))).shape == (2,)


def test_npy_that_is_something_else(folder):
    assert "a text file" in refusal(npy.read, saved(folder / "t.npy", b"1.0 2.0 3.0\n"))
    assert "an empty file" in refusal(npy.read, saved(folder / "t.npy", b""))
    assert "an HTML page" in refusal(npy.read, saved(folder / "t.npy", b"<html></html>"))
    assert "version 9.0" in refusal(npy.read, saved(folder / "t.npy", b"\x93NUMPY\x09\0v\0{}"))
    assert "of the .npy header are missing" in refusal(
        npy.read, saved(folder / "t.npy", b"\x93NUMPY\x01\0v\0{'descr")
    )
    assert "at most 65,536" in refusal(
        npy.read, saved(folder / "t.npy", b"\x93NUMPY\x02\0" + b"\xff" * 4)
    )
    assert "no such file" in refusal(npy.read, folder / "absent.npy")
    if not (folder / "pipe.npy").exists():
        os.mkfifo(folder / "pipe.npy")
    assert "a pipe" in refusal(npy.read, folder / "pipe.npy")


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_objects_are_never_unpickled(folder):
    mark = folder / "was-unpickled"
    array = np.array([Trap(mark)], dtype=object)
    np.save(folder / "object.npy", array, allow_pickle=True)
    assert "never opened" in refusal(npy.read, folder / "object.npy")
    np.savez(folder / "object.npz", x=array)
    assert "never opened" in refusal(npz.read, folder / "object.npz")
    saved(folder / "plain.npy", pickle.dumps(Trap(mark)))
    assert "pickle" in refusal(npy.read, folder / "plain.npy")
    assert not mark.exists()


def test_extension_types_need_their_name(folder):
    array = np.array([[1.5, -2]], ml_dtypes.bfloat16)
    np.save(folder / "bf.npy", array)
    ((name, found),) = read_feed(f"x={folder}/bf.npy:bfloat16")
    assert name == "x" and found.dtype == array.dtype and found.tolist() == [[1.5, -2]]


# -- .npz --------------------------------------------------------------------------------


def test_npz_by_name_and_by_order(folder):
    a, b = np.arange(3, dtype=np.int64), np.asfortranarray(np.ones((2, 3), ">f4"))
    np.savez_compressed(folder / "n.npz", b=b, a=a)
    found = dict(read_feed(str(folder / "n.npz")))
    assert found["a"].tolist() == [0, 1, 2]
    assert found["b"].dtype.str == ">f4" and found["b"].flags.f_contiguous
    np.savez(folder / "o.npz", a, b)
    assert [n for n, _ in read_feed(str(folder / "o.npz"))] == [None, None]
    ((name, chosen),) = read_feed(f"a={folder}/n.npz")
    assert name == "a" and chosen.dtype == np.int64
    assert "none is called 'q'" in refusal(read_feed, f"q={folder}/n.npz")


def test_npz_of_zeros_is_no_bomb(folder):
    np.savez_compressed(folder / "zeros.npz", x=np.zeros((1, 3, 640, 640), np.float32))
    assert npz.read(folder / "zeros.npz")["x"].shape == (1, 3, 640, 640)


def test_npz_bombs(folder):
    path = folder / "bomb.npz"
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (314572800,), }"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(header(text))
        for _ in range(300):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert "zip bomb" in refusal(npz.read, path)


def test_npz_whose_directory_lies(folder):
    path = folder / "lies.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        text = "{'descr': '|u1', 'fortran_order': False, 'shape': (100000000,), }"
        archive.writestr("x.npy", header(text, payload=bytes(9)))
    assert "are missing" in refusal(npz.read, path)
    # The directory now claims 100 MB where a hundred bytes are packed.
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(b"PK\x01\x02")
    raw[entry + 24 : entry + 28] = struct.pack("<I", 110_000_000)
    refusal(npz.read, saved(path, bytes(raw)))
    raw[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFF0)
    assert "zip bomb" in refusal(npz.read, saved(path, bytes(raw)))


def test_npz_that_is_something_else(folder):
    assert "a text file" in refusal(npz.read, saved(folder / "t.npz", b"no zip\n"))
    path = folder / "e.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "x")
    assert "no array inside" in refusal(npz.read, path)
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("x.npy", "x")
        archive.writestr("x.npy", "y")
    assert "two arrays of the same name" in refusal(npz.read, path)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_mutated_npz_never_raises_anything_else(folder, data):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.arange(6.0), y=np.ones(3, np.uint8))
    raw = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    try:
        npz.read(saved(folder / "mutant.npz", bytes(raw)))
    except UserError as error:
        assert "\n" not in str(error)


# -- TensorProto and raw -------------------------------------------------------------------


def test_tensorproto(folder):
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    raw = numpy_helper.from_array(array, "x").SerializeToString()
    path = saved(folder / "input_0.pb", raw)
    ((name, found),) = read_feed(str(path), known=("x",))
    assert name == "x" and found.dtype == np.float16 and np.array_equal(found, array)
    assert read_feed(str(path))[0][0] is None
    assert read_feed(f"q={path}", known=("x",))[0][0] == "q"
    assert "bytes of its data are missing" in refusal(
        read_feed, str(saved(folder / "c.pb", raw[:-4]))
    )
    assert "an empty file" in refusal(read_feed, str(saved(folder / "c.pb", b"")))
    assert "a text file" in refusal(read_feed, str(saved(folder / "c.pb", b"hello there\n")))
    lying = numpy_helper.from_array(array, "x")
    lying.dims[0] = 5
    text = refusal(read_feed, str(saved(folder / "c.pb", lying.SerializeToString())))
    assert "needs 30 bytes and the file holds 12: 18 are missing" in text


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_mutated_tensorproto_never_raises_anything_else(folder, data):
    raw = bytearray(helper.make_tensor("x", F, [2, 3], [float(i) for i in range(6)])
                    .SerializeToString())  # fmt: skip
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_feed(str(saved(folder / "mutant.pb", bytes(raw))))
    except UserError as error:
        assert "\n" not in str(error)


def test_raw(folder):
    array = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
    path = saved(folder / "frame.bin", array.tobytes())
    ((name, found),) = read_feed(f"x={path}:float32:1x3x2x2")
    assert name == "x" and np.array_equal(found, array)
    # The input's own name may hold a colon.
    assert read_feed(f"in:0={path}:>f4:12")[0][0] == "in:0"
    assert read_feed(f"{path}:bfloat16:24")[0][1].dtype == ml_dtypes.bfloat16
    text = refusal(read_feed, f"x={path}:float32:1x3x4x4")
    assert "needs 192 bytes and the file has 48: 144 bytes are missing" in text
    assert "needs 12 bytes and the file has 48: the file is longer" in refusal(
        read_feed, f"x={path}:uint8:1x3x2x2"
    )
    assert "needs 4,0" in refusal(read_feed, f"{path}:float32:1000x1")
    assert "'float33' is no element type" in refusal(read_feed, f"{path}:float33:12")
    assert "no shape" in refusal(read_feed, f"{path}:float32:1x-3")
    assert "raw bytes need a type and a shape" in refusal(read_feed, f"x={path}")
    assert "object" not in refusal(read_feed, f"{path}:O:6")
    assert "NAME=FILE was expected" in refusal(read_feed, "x=")
    picture = saved(folder / "cat.png", b"\x89PNG\r\n\x1a\n")
    assert "a PNG picture, not a tensor" in refusal(read_feed, str(picture))
    scalar = saved(folder / "s.bin", np.int64(16000).tobytes())
    assert read_feed(f"sr={scalar}:int64:scalar")[0][1].item() == 16000


def test_a_file_may_have_an_equals_sign(folder):
    np.save(folder / "a=b.npy", np.zeros(2))
    assert read_feed(str(folder / "a=b.npy"))[0][0] is None
    assert read_feed(f"x={folder}/a=b.npy")[0][0] == "x"


# -- assignment ----------------------------------------------------------------------------


def three_inputs():
    nodes = [helper.make_node("Sum", ["image", "mask", "scale"], ["y"])]
    return from_proto(model(nodes, [value(n) for n in ("image", "mask", "scale")], [value("y")]))


def test_assignment_by_name_then_order():
    graph = three_inputs()
    a, b, c = (np.full(1, i) for i in range(3))
    assert list(assign(graph, [(None, a), (None, b), (None, c)])) == ["image", "mask", "scale"]
    got = assign(graph, [(None, a), ("image", b), (None, c)])
    assert (got["image"], got["mask"], got["scale"]) == (b, a, c)
    assert assign(graph, []) == {}


def test_assignment_that_cannot_be():
    graph, a = three_inputs(), np.zeros(1)
    assert "did you mean 'image'?" in refusal(assign, graph, [("imag", a)])
    assert "it has image, mask, scale" in refusal(assign, graph, [("zzz", a)])
    assert "'mask' is given twice" in refusal(assign, graph, [("mask", a), ("mask", a)])
    text = refusal(assign, graph, [(None, a)] * 4)
    assert "4 inputs are given and the model takes 3" in text and "leave out 1" in text
    text = refusal(assign, graph, [("mask", a)])
    assert "2 of 3 inputs are missing: image, scale" in text


def test_defaults_may_be_fed_but_need_not():
    made = gemm()
    made.ir_version = 3
    made.graph.input.append(value("w", (4, 3)))
    graph, a = from_proto(made), np.zeros(1)
    assert list(assign(graph, [(None, a)])) == ["x"]
    assert list(assign(graph, [(None, a), ("w", a)])) == ["x", "w"]


# -- synthesis -----------------------------------------------------------------------------


def contract(dtype, name="x", **kw):
    return ValueContract(name=name, dtype=dtype, shape=(), **kw)


def test_synthesis_is_deterministic_and_differs_by_name():
    shape = (3, 1000)
    one = synthesize(contract("<f4"), shape, 5)
    assert one.dtype == np.float32 and one.shape == shape
    assert np.array_equal(one, synthesize(contract("<f4"), shape, 5))
    assert not np.array_equal(one, synthesize(contract("<f4"), shape, 6))
    assert not np.array_equal(one, synthesize(contract("<f4", "y"), shape, 5))
    assert abs(one.mean()) < 0.1 and abs(one.std() - 1) < 0.1


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("|u1", 0, 255), ("|i1", -128, 127), ("<i8", 0, 3), ("<i4", 0, 3), ("<u2", 0, 3),
     ("|b1", 0, 1), ("uint4", 0, 3), ("int4", 0, 3), ("uint2", 0, 1), ("int2", 0, 1)],
)  # fmt: skip
def test_synthesis_ranges(dtype, low, high):
    array = synthesize(contract(dtype), (5000,), 0)
    assert (int(array.min()), int(array.max())) == (low, high)


@pytest.mark.parametrize(
    "dtype", ["<f2", "<f8", "<c8", "<c16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
              "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn"],
)  # fmt: skip
def test_synthesis_of_every_float(dtype):
    from npudbg.session.dtypes import numpy_dtype

    array = synthesize(contract(dtype), (4, 5), 1)
    assert array.dtype == numpy_dtype(dtype) and array.shape == (4, 5)


def test_synthesis_of_the_rest():
    assert synthesize(contract("<i8"), (), 0) == 1
    words = synthesize(contract("string"), (2, 2), 0)
    assert words.shape == (2, 2) and all(isinstance(w, str) for w in words.ravel())
    assert synthesize(contract("string"), (), 0).shape == ()
    (element,) = synthesize(contract("<f4", kind="sequence"), (2,), 0)
    assert element.shape == (2,)
    assert "cannot be made up" in refusal(synthesize, contract("<f4", kind="map"), (), 0)
    text = refusal(synthesize, contract("<f4"), (1 << 40, 1 << 40), 0)
    assert "give smaller --dim values" in text


def test_contract_types_of_everything_that_is_no_tensor():
    tensor = helper.make_tensor_type_proto(TensorProto.INT64, ["N"])
    infos = {
        "seq": helper.make_sequence_type_proto(tensor),
        "opt": helper.make_optional_type_proto(tensor),
        "optseq": helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)),
        "sparse": helper.make_sparse_tensor_type_proto(F, [2, 3]),
        "map": helper.make_map_type_proto(TensorProto.STRING, tensor),
    }
    made = model([], [helper.make_value_info(n, t) for n, t in infos.items()], [])
    graph = from_proto(made)
    found = {c.name: (c.kind, c.dtype, c.shape) for c in graph.inputs}
    assert found == {
        "seq": ("sequence", "<i8", ("N",)),
        "opt": ("optional", "<i8", ("N",)),
        "optseq": ("optional", "sequence", ("N",)),
        "sparse": ("sparse", "<f4", (2, 3)),
        "map": ("map", "<i8", None),
    }
