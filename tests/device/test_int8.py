"""int8 against Rockchip's own toolkit: its scales, and its table of errors per layer.

The snapshot is an accuracy analysis of ``tiny.onnx`` for rk3588.  Its annotated
graph holds parameters from the first calibration image as it is (its input runs
from 0 to 255); its simulator ran with those of all four, normalised.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from npudbg.device.calibrate import calibrate
from npudbg.device.calibration import Scheme, from_record
from npudbg.device.faults.touch import Injection
from npudbg.device.quantize import dequantize, quantize
from npudbg.device.single import single_layers
from npudbg.graph.loader import from_proto
from npudbg.session.commands import Space
from npudbg.session.errors import UserError
from npudbg.targets.loader import load

sys.path.insert(0, str(Path(__file__).parent))
from bench_device import helper, model, run, tiny

DATA = Path(__file__).parents[1] / "data/rknn/int8_snapshot"
MEAN = np.array([123.7, 116.3, 103.5], "f4").reshape(1, 3, 1, 1)
STD = np.array([58.4, 57.1, 57.4], "f4").reshape(1, 3, 1, 1)
NAMES = {
    "relu0_out": "relu0_out",
    "pool0": "pool0",
    "relu1_out": "relu1_out",
    "pool1": "pool1",
    "relu2_out": "relu2_out",
    "gap": "gap",
    "fc1r": "fc1r-rs",
    "logits": "logits_mm",
    "prob": "prob",
}
"""Tensor of the model -> tensor of the toolkit's graph."""


def png(path):
    """Decode an 8-bit RGB image without interlacing: HWC float."""
    data, at, packed, size = path.read_bytes(), 8, b"", (0, 0)
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack_from(">II", body)
            assert body[8:] == bytes([8, 2, 0, 0, 0])
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height = size
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    out = np.zeros((height + 1, 3 * (width + 1)), int)  # a black row above, a pixel to the left
    for y, row in enumerate(rows.astype(int), 1):
        for x, value in enumerate(row[1:], 3):
            left, up, corner = out[y, x - 3], out[y - 1, x], out[y - 1, x - 3]
            near = left + up - corner
            paeth = min((left, up, corner), key=lambda n: abs(near - n))
            out[y, x] = (value + (0, left, up, (left + up) // 2, paeth)[row[0]]) & 255
    return out[1:, 3:].reshape(height, width, 3).astype("f4")


def normalised(image):
    return ((image - MEAN) / STD).astype("f4")


@pytest.fixture(scope="module")
def images():
    return [png(DATA / f"calib{i}.png").transpose(2, 0, 1)[None] for i in range(4)]


@pytest.fixture(scope="module")
def proto():
    return onnx.load(DATA / "tiny.onnx")


@pytest.fixture(scope="module")
def annotation():
    """Parameters by tensor: qmethod, scale, zero point."""
    annotated = onnx.load(DATA / "quantisation_annotation.onnx")
    arrays = {i.name: numpy_helper.to_array(i) for i in annotated.graph.initializer}
    found = {}
    for each in annotated.graph.quantization_annotation:
        keys = {e.key: e.value for e in each.quant_parameter_tensor_names}
        if keys["dtype"] == "int8":
            found[each.tensor_name] = (
                keys["qmethod"],
                arrays[keys["scale"]],
                arrays[keys["zero_point"]],
            )
    return annotated, found


def standard_part(annotated):
    """The annotated graph up to its last ONNX operator, as a model of its own."""
    made = onnx.ModelProto()
    made.CopyFrom(annotated)
    del made.graph.quantization_annotation[:]
    nodes = [n for n in made.graph.node if n.op_type in ("Conv", "Relu", "MaxPool")]
    read = {name for node in nodes for name in node.input}
    weights = [i for i in made.graph.initializer if i.name in read]
    inputs = [i for i in made.graph.input if i.name == "input"]
    for field, kept in (
        (made.graph.node, nodes),
        (made.graph.initializer, weights),
        (made.graph.input, inputs),
    ):
        kept = [type(k).FromString(k.SerializeToString()) for k in kept]
        del field[:]
        field.extend(kept)
    del made.graph.value_info[:]
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info("logits_mm", 1, [1, 10, 1, 1]))
    return made


def test_scales_of_the_annotated_graph(images, annotation):
    annotated, parameters = annotation
    part = from_proto(standard_part(annotated))
    ours = calibrate(part, [{"input": images[0]}])
    layers = {n: p for n, p in parameters.items() if p[0] == "layer"}
    channels = {n: p for n, p in parameters.items() if p[0] == "channel"}
    assert len(layers) == 14 and len(channels) == 7
    for name, (_, scale, zero) in layers.items():
        found = ours.fused(name)
        assert found.scale == pytest.approx(tuple(scale), rel=0.01), name
        assert found.zero_point == tuple(zero), name
    for name, (_, scale, zero) in channels.items():
        found = ours.folded(name)
        assert len(found.scale) == len(scale)
        assert found.scale == pytest.approx(tuple(scale), rel=0.01), name
        assert found.zero_point == tuple(zero), name


def test_scales_from_the_model_itself(images, proto, annotation):
    """The toolkit folds batch normalisation into the weights; the model has it apart."""
    _, parameters = annotation
    ours = calibrate(from_proto(proto), [{"input": images[0]}])
    pairs = {n: t for n, t in NAMES.items() if t in parameters} | {
        "input": "input", "bn0_out": "bn0_out", "conv0_out": "bn0_out",
        "conv1_out": "bn1_out", "conv2_out": "bn2_out", "fc1": "fc1_mm",
    }  # fmt: skip
    assert len(pairs) == 14
    for name, theirs in pairs.items():
        _, scale, zero = parameters[theirs]
        assert ours.fused(name).scale == pytest.approx(tuple(scale), rel=0.01), name
        assert ours.fused(name).zero_point == tuple(zero), name
    for name in ("w0", "w1", "w2", "fcw1", "fcw"):
        _, scale, zero = parameters[name]
        found = ours.folded(name)
        assert found.scale == pytest.approx(tuple(scale), rel=0.01), name
        # The folded weights were rounded to fp32 once more: a half may fall the other way.
        assert np.abs(np.subtract(found.zero_point, zero)).max() <= 1, name
        assert np.mean(np.equal(found.zero_point, zero)) > 0.99, name


def calibrated(proto, images, **scheme):
    samples = [{"input": normalised(image)} for image in images]
    return calibrate(from_proto(proto), samples, Scheme(**scheme))


def test_scales_of_the_simulator(images, proto):
    """Its dumps are multiples of its scales."""
    ours = calibrated(proto, images)
    assert ours.samples == 4
    for name, theirs in NAMES.items():
        path = DATA / f"simulator/{theirs}.npy"
        if not path.exists():
            continue
        values = np.unique(np.load(path).astype("f8"))
        (scale,), (zero,) = ours.fused(name).scale, ours.fused(name).zero_point
        levels = values / scale + zero
        assert np.abs(levels - np.rint(levels)).max() < 0.01, name
        assert np.rint(levels).min() >= -128 and np.rint(levels).max() <= 127, name


def table():
    rows = {}
    for line in (DATA / "error_analysis.txt").read_text().splitlines():
        match = re.match(r"\[\w+\] (\S+)\s+([\d.]+) \| ([\d.]+)\s+([\d.]+) \| ([\d.]+)", line)
        if match:
            rows[match[1]] = tuple(map(float, match.groups()[1:]))
    return rows


def cosine(a, b):
    a, b = a.ravel().astype("f8"), b.ravel().astype("f8")
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def recorded(session, name):
    tensor = session.tensor(name)
    values = session.array(tensor)
    return dequantize(values, tensor.quantization) if tensor.quantization else values


def test_cosines_of_error_analysis(tmp_path, images, proto):
    calibration, chip = calibrated(proto, images), load("rk3588")
    feed = {"input": normalised(np.load(DATA / "acc_nchw.npy"))}
    outcome, session = run(
        proto, feed, tmp_path / "s.npudbg", target=chip, precision="int8", calibration=calibration
    )
    assert outcome.status == "complete"
    single = {
        layer.name: layer
        for layer in single_layers(
            from_proto(proto), chip, feed, precision="int8", calibration=calibration
        )
    }
    rows = table()
    assert set(NAMES.values()) <= set(rows)
    with session:
        for name, theirs in NAMES.items():
            entire, _, alone, distance = rows[theirs]
            golden = single[name].golden
            assert cosine(golden, recorded(session, name)) == pytest.approx(entire, abs=2e-4), name
            assert cosine(golden, single[name].device) == pytest.approx(alone, abs=2e-4), name
            if name not in ("gap", "prob"):  # the toolkit averages in two steps
                ours = np.linalg.norm(golden - single[name].device)
                assert ours == pytest.approx(distance, rel=0.01), name
        assert session.tensor("logits").dtype == "|i1"
        assert from_record(session.extra("calibration")) == calibration


def conv_bn_relu(rng, sign=1.0):
    feed = {"x": rng.standard_normal((1, 5, 9, 8)).astype("f4")}
    weights = {
        "w": rng.standard_normal((6, 5, 3, 3)).astype("f4"),
        "b": rng.standard_normal(6).astype("f4"),
        "g": (sign * rng.uniform(0.1, 4, 6)).astype("f4"),
        "o": rng.standard_normal(6).astype("f4"),
        "m": rng.standard_normal(6).astype("f4"),
        "v": rng.uniform(0.2, 3, 6).astype("f4"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "g", "o", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    return model(nodes, feed, ["y"], weights), feed, weights


def integer_convolution(feed, w, calibration, sign):
    """The fused layer as an int8 chip computes it: int32 sums of levels, one requantisation."""
    factor = w["g"].astype("f8") / np.sqrt(w["v"].astype("f8") + 1e-5)
    folded = w["w"] * np.abs(factor)[:, None, None, None]
    wq, xq, yq = calibration.folded("w"), calibration.activations["x"], calibration.fused("y")
    scales, zeros = (np.broadcast_to(np.array(v), 6) for v in (wq.scale, wq.zero_point))
    levels = np.clip(
        np.rint(folded / scales[:, None, None, None]) + zeros[:, None, None, None], -128, 127
    ).astype(np.int64)
    x = quantize(feed["x"], xq).astype(np.int64) - xq.zero_point[0]
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[0]
    sums = np.einsum("chwij,ocij->ohw", windows, levels - zeros[:, None, None, None])
    real = sign * sums * (scales * xq.scale[0])[:, None, None]
    real += ((w["b"] - w["m"]) * factor + w["o"])[:, None, None]
    steps = np.maximum(real, 0) / yq.scale[0] + yq.zero_point[0]
    return np.clip(np.rint(steps), -128, 127), steps


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("weights", ["channel", "tensor"])
@pytest.mark.parametrize("asymmetric", [True, False])
def test_fused_layer_equals_integer_arithmetic(tmp_path, weights, asymmetric, sign):
    """Batch normalisation is folded before quantisation, and nothing is rounded inside."""
    proto, feed, arrays = conv_bn_relu(np.random.default_rng(5), sign)
    calibration = calibrate(
        from_proto(proto), [feed], Scheme(weights=weights, asymmetric=asymmetric)
    )
    outcome, session = run(
        proto, feed, tmp_path / "s.npudbg", target=load("rk3588"), precision="int8",
        calibration=calibration,
    )  # fmt: skip
    assert outcome.status == "complete"
    wanted, steps = integer_convolution(feed, arrays, calibration, sign)
    with session:
        ours = session.array(session.tensor("y")).astype(int)[0]
        assert session.tensor("b").dtype == "<f4"  # 32 bits, as an accumulator takes it
        if weights == "tensor":
            assert len({round(s, 9) for s in calibration.folded("w").scale}) == 1
    clear = np.abs(steps - np.floor(steps) - 0.5) > 1e-3  # float sums may tip a tie
    assert clear.mean() > 0.98
    assert np.array_equal(ours[clear], wanted[clear])
    assert np.abs(ours - wanted).max() <= 1


def test_unfused_layer_keeps_the_range_of_each_tensor(tmp_path):
    proto, feed, _ = conv_bn_relu(np.random.default_rng(6))
    calibration = calibrate(from_proto(proto), [feed])
    outcome, session = run(
        proto, feed, tmp_path / "s.npudbg", precision="int8", calibration=calibration,
        fused=False,
    )  # fmt: skip
    with session:
        for name in ("c", "n", "y"):
            assert session.tensor(name).quantization == calibration.activations[name]
    assert outcome.outputs["y"].min() >= 0
    assert calibration.activations["n"].zero_point != calibration.activations["y"].zero_point


def test_bytes_give_what_the_whole_run_gives(tmp_path):
    """A run that executes every byte (here: a flip of no bit) equals the fast one."""
    proto, feed, _ = conv_bn_relu(np.random.default_rng(8))
    options = {"precision": "int8", "calibration": calibrate(from_proto(proto), [feed])}
    clean, first = run(proto, feed, tmp_path / "a.npudbg", target=tiny(8192), **options)
    poke = Injection(after=0, space=Space.SRAM, address=0, data=b"\0", flip=True)
    bytewise, second = run(
        proto, feed, tmp_path / "b.npudbg", target=tiny(8192), injections=[poke], **options
    )
    assert first.n_commands == second.n_commands
    assert np.array_equal(clean.outputs["y"], bytewise.outputs["y"])


def test_no_sample():
    proto, _, _ = conv_bn_relu(np.random.default_rng(1))
    with pytest.raises(UserError, match="no sample"):
        calibrate(from_proto(proto), [])
