"""``--calib DIR``: scales from sample inputs, and what a wrong directory costs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from npudbg.cli import main
from npudbg.commands.images import picture
from npudbg.layers.case import Preprocessing
from npudbg.session.errors import UserError
from npudbg.session.reader import Session


@pytest.fixture
def case(tmp_path):
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((4, 3, 3, 3)).astype("f4")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx")
    folder = tmp_path / "calib"
    folder.mkdir()
    for i, top in enumerate((1.0, 4.0)):
        np.save(folder / f"{i}.npy", np.full((1, 3, 8, 8), top, "f4"))
    np.save(tmp_path / "x.npy", rng.uniform(0, 0.5, (1, 3, 8, 8)).astype("f4"))
    return tmp_path


def check(case, *more):
    return main(["check", str(case / "m.onnx"), str(case / "x.npy"), "--plain", *more])


def test_scales_are_those_of_the_samples(case, capsys):
    code = check(
        case,
        "--precision",
        "int8",
        "--calib",
        str(case / "calib"),
        "--save",
        str(case / "s.npudbg"),
    )
    assert code in (0, 1)
    assert "2 calibration samples" in capsys.readouterr().out
    with Session.open(case / "s.npudbg") as session:
        given = session.tensor("x@ddr").quantization
        assert given.scale == pytest.approx((4 / 255,))
        assert given.zero_point == (-128,)
        assert session.extra("calibration")["samples"] == 2


def test_npz_by_name(case):
    for path in (case / "calib").iterdir():
        np.savez(path.with_suffix(".npz"), x=np.load(path) / 2)
        path.unlink()
    check(
        case,
        "--precision",
        "int8",
        "--calib",
        str(case / "calib"),
        "--save",
        str(case / "s.npudbg"),
    )
    with Session.open(case / "s.npudbg") as session:
        assert session.tensor("x@ddr").quantization.scale == pytest.approx((2 / 255,))


def test_pictures_give_what_their_arrays_give(case):
    """PNGs of a calibration set, decoded and normalised here by hand."""
    mean, std = np.array([10, 20, 30]), np.array([2, 4, 8])
    found = []
    for kind in ("npy", "png"):
        folder = case / kind
        folder.mkdir()
        for number in range(3):
            pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
            if kind == "png":
                Image.fromarray(pixels).save(folder / f"{number}.png")
            else:
                array = ((pixels - mean) / std).astype("f4").transpose(2, 0, 1)[None]
                np.save(folder / f"{number}.npy", array)
        options = ["--precision", "int8", "--calib", str(folder), "--save", str(case / kind / "s")]
        check(case, *options, "--mean", "10,20,30", "--std", "2,4,8", "--scale", "1")
        with Session.open(folder / "s") as session:
            found.append(session.extra("calibration"))
    assert found[0] == found[1]
    assert found[0]["samples"] == 3


@pytest.mark.parametrize(
    ("shape", "layout", "size"),
    [
        ((1, 3, 16, 12), None, (12, 16)),
        ((2, 16, 12, 3), None, (24, 32)),
        ((1, 16, 12), None, (12, 16)),
        ((1, 16, 16, 4), "NHWC", (16, 16)),
    ],
)
def test_a_picture_is_laid_out_as_its_input(tmp_path, shape, layout, size):
    color = (200, 100, 50)
    Image.new("RGB", size, color).save(tmp_path / "x.png")
    said = {"": Preprocessing(layout=layout)}
    got = picture(tmp_path / "x.png", "x", np.zeros(shape, np.uint8), said)
    assert got.shape == shape and got.dtype == np.uint8
    if 3 in shape:
        axis = shape.index(3)
        seen = np.unique(np.moveaxis(got, axis, -1).reshape(-1, 3), axis=0)
        np.testing.assert_array_equal(seen, [color])
    elif 4 in shape:
        np.testing.assert_array_equal(np.unique(got.reshape(-1, 4), axis=0), [(*color, 255)])
    else:
        assert np.unique(got).tolist() == [124]  # ITU-R 601: 0.299 R + 0.587 G + 0.114 B


def test_pictures_that_cannot_be_taken(tmp_path):
    path = tmp_path / "x.png"
    Image.new("RGB", (9000, 9000)).save(path)
    with pytest.raises(UserError, match="9000 x 9000 pixels"):
        picture(path, "x", np.zeros((1, 3, 8, 8), np.uint8), {})
    with pytest.raises(UserError, match="no picture's shape"):
        picture(path, "x", np.zeros((1, 128), np.float32), {})
    with pytest.raises(UserError, match="takes int8"):
        picture(path, "x", np.zeros((1, 3, 8, 8), np.int8), {})


def test_errors_are_one_line(case, capsys):
    folder = case / "calib"

    def error(*more):
        capsys.readouterr()
        assert check(case, *more) == 2
        text = capsys.readouterr().err
        assert len(text.strip().splitlines()) == 1
        return text

    int8 = ("--precision", "int8", "--calib")
    assert "no effect in fp16" in error("--precision", "fp16", "--calib", str(folder))
    assert "not a directory" in error(*int8, str(case / "x.npy"))
    assert "not a directory" in error(*int8, str(case / "nowhere"))
    (case / "empty").mkdir()
    (case / "empty/notes.txt").write_text("no sample")
    assert "no .npy or .npz" in error(*int8, str(case / "empty"))
    (case / "empty/picture.png").write_bytes(b"\x89PNG")
    assert "has to be stated" in error(*int8, str(case / "empty"))
    assert "not a picture" in error(*int8, str(case / "empty"), "--scale", "1")
    np.save(folder / "2.npy", np.zeros((1, 3, 4, 4), "f4"))
    assert "expected float32[1, 3, 8, 8]" in error(*int8, str(folder))
    np.save(folder / "2.npy", np.zeros((1, 3, 8, 8), "u1"))
    assert "is uint8" in error(*int8, str(folder))
    (folder / "2.npy").unlink()
    np.savez(folder / "2.npz", z=np.zeros(1))
    assert "no input z" in error(*int8, str(folder))
    (folder / "2.npz").write_bytes(b"PK\x03\x04 not an archive")
    error(*int8, str(folder))
