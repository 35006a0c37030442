"""The device executes bytes: change one in SRAM, and the result changes as the operator would.

The oracle is ONNX Runtime on the operand with that one byte changed: inside the
tile that read the byte the device must agree with it, elsewhere with the clean run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.device.faults.touch import Injection
from npudbg.session.commands import Kind, Space, Status, box_slices

sys.path.insert(0, str(Path(__file__).parent))
from bench_device import helper, model, reference, run, tiny

RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape).astype("f4")


def conv_case():
    x = floats(1, 6, 17, 13)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], strides=[2, 1])
    return model([node], {"x": x}, ["y"], {"w": floats(10, 6, 3, 3), "b": floats(10)}), {"x": x}


def depthwise_case():
    x = floats(1, 8, 15, 15)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[2, 2, 2, 2], group=8)
    return model([node], {"x": x}, ["y"], {"w": floats(8, 1, 5, 5)}), {"x": x}


def matmul_case():
    x = floats(2, 19, 24)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model([node], {"x": x}, ["y"], {"w": floats(24, 31)}), {"x": x}


def add_case():
    x, z = floats(3, 20, 21), floats(20, 1)
    return model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": x, "z": z}, ["y"]), {
        "x": x,
        "z": z,
    }


def fused_case():
    x = floats(1, 4, 20, 20)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"]),
        helper.make_node("HardSigmoid", ["n"], ["h"]),
        helper.make_node("Mul", ["n", "h"], ["y"]),
    ]
    weights = {
        "w": floats(8, 4, 3, 3), "s": floats(8), "o": floats(8), "m": floats(8),
        "v": np.abs(floats(8)) + 0.5,
    }  # fmt: skip
    return model(nodes, {"x": x}, ["y"], weights), {"x": x}


def pool_case():
    x = floats(1, 6, 21, 21)
    node = helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    return model([node], {"x": x}, ["y"]), {"x": x}


def softmax_case():
    x = floats(5, 40, 33)
    return model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": x}, ["y"]), {"x": x}


def transpose_case():
    x = floats(3, 17, 22)
    return model([helper.make_node("Transpose", ["x"], ["y"], perm=[2, 0, 1])], {"x": x}, ["y"]), {
        "x": x
    }


def concat_case():
    x, z = floats(2, 300), floats(2, 500)
    return model(
        [helper.make_node("Concat", ["x", "z"], ["y"], axis=1)], {"x": x, "z": z}, ["y"]
    ), {
        "x": x,
        "z": z,
    }


CASES = {
    f.__name__.removesuffix("_case"): f()
    for f in (
        conv_case, depthwise_case, matmul_case, add_case, fused_case, pool_case, softmax_case,
        transpose_case, concat_case,
    )
}  # fmt: skip
SRAM = {"conv": 6144, "depthwise": 6144, "matmul": 8192, "fused": 10240}


@pytest.mark.parametrize("name", CASES)
def test_a_clean_run_equals_onnx_runtime_bit_for_bit(name, tmp_path):
    proto, inputs = CASES[name]
    outcome, session = run(proto, inputs, tmp_path / "s", target=tiny(SRAM.get(name, 4096)))
    with session:
        kernels = [r for r in session.commands(0, session.n_commands) if r["kind"] == Kind.KERNEL]
        assert len({int(r["tile"]) for r in kernels}) > 1, "the case must be cut into tiles"
    np.testing.assert_array_equal(outcome.outputs["y"], reference(proto, inputs)["y"])


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_poked_byte_changes_what_the_operator_would(name, tmp_path_factory, data):
    proto, inputs = CASES[name]
    target = tiny(SRAM.get(name, 4096))
    folder = tmp_path_factory.mktemp("poke")
    _, session = run(proto, inputs, folder / "clean", target=target)
    weights = {w.name: i for i, w in enumerate(proto.graph.initializer)}
    with session:
        rows = session.commands(0, session.n_commands)
        loads = [r for r in rows if r["kind"] == Kind.DMA_LOAD and r["dst_space"] == Space.SRAM]
        load = data.draw(st.sampled_from(loads), label="load")
        record = session.tensors[int(load["tensor"])]
        box = box_slices(load, len(record.shape))
        shape = tuple(s.stop - s.start for s in box)
        # Borders first: hypothesis shrinks towards the first and last element of the tile.
        at = tuple(data.draw(st.sampled_from([0, n - 1, n // 2]), label="element") for n in shape)
        offset = int(np.ravel_multi_index(at, shape)) * 4
        value = np.float32(data.draw(st.sampled_from([3.5, -100.0, 1e6, 0.0]), label="value"))
    injection = Injection(int(load["seq"]), Space.SRAM, int(load["dst"]) + offset, value.tobytes())
    outcome, poked = run(proto, inputs, folder / "poked", target=target, injections=[injection])
    with poked:
        touched = poked.commands(0, poked.n_commands)
        readers = {
            int(a["seq"]) for a in poked.accesses(0, poked.n_commands) if a["by"] == load["seq"]
        }
        boxes = [
            (int(r["tensor"]), box_slices(r, len(poked.tensors[int(r["tensor"])].shape)))
            for r in touched
            if int(r["seq"]) in readers
        ]
        # Everything of the reading tiles, in the final tensor's coordinates.
        inside = np.zeros(outcome.outputs["y"].shape, bool)
        tiles = {int(r["tile"]) for r in touched if int(r["seq"]) in readers}
        for row in touched:
            if row["kind"] == Kind.DMA_STORE and int(row["tile"]) in tiles:
                inside[box_slices(row, inside.ndim)] = True
    assert boxes
    name_of = record.name.removesuffix("@ddr")
    where = tuple(s.start + a for s, a in zip(box, at, strict=True))
    if name_of in inputs:
        changed = {n: a.copy() for n, a in inputs.items()}
        changed[name_of][where] = value
        expected = reference(proto, changed)["y"]
    else:
        other = type(proto)()
        other.CopyFrom(proto)
        from onnx import numpy_helper

        array = numpy_helper.to_array(proto.graph.initializer[weights[name_of]]).copy()
        array[where] = value
        other.graph.initializer[weights[name_of]].CopyFrom(numpy_helper.from_array(array, name_of))
        expected = reference(other, inputs)["y"]
    clean = reference(proto, inputs)["y"]
    np.testing.assert_array_equal(
        outcome.outputs["y"], np.where(inside, expected, clean), strict=True
    )


def test_bytes_that_no_command_wrote_are_kept_as_they_were_read(tmp_path):
    proto, inputs = CASES["add"]
    _, session = run(proto, inputs, tmp_path / "clean")
    with session:
        rows = session.commands(0, session.n_commands)
        load = next(r for r in rows if r["kind"] == Kind.DMA_LOAD and r["dst_space"] == Space.SRAM)
        assert session.observations == []
    nan = np.float32(np.nan).tobytes()
    outcome, session = run(
        proto, inputs, tmp_path / "poked",
        injections=[Injection(int(load["seq"]), Space.SRAM, int(load["dst"]), nan)],
    )  # fmt: skip
    with session:
        (seen,) = session.observations
        reader = session.command(seen[0])
        assert reader["kind"] == Kind.KERNEL
        held = np.frombuffer(session.observed(*seen), "f4")
        assert np.isnan(held[0])
        assert not np.isnan(held[1:]).any()
    assert np.isnan(outcome.outputs["y"]).sum() == 1


def test_an_injection_that_changes_nothing_changes_nothing(tmp_path):
    for name, (proto, inputs) in CASES.items():
        target = tiny(SRAM.get(name, 4096))
        _, session = run(proto, inputs, tmp_path / f"{name}1", target=target)
        with session:
            rows = session.commands(0, session.n_commands)
            load = next(
                r for r in rows if r["kind"] == Kind.DMA_LOAD and r["dst_space"] == Space.SRAM
            )
            tensor = session.tensors[int(load["tensor"])]
            box = box_slices(load, len(tensor.shape))
            first = session.array(tensor)[box].reshape(-1)[:1].tobytes()
        injection = Injection(int(load["seq"]), Space.SRAM, int(load["dst"]), first)
        outcome, session = run(
            proto, inputs, tmp_path / f"{name}2", target=target, injections=[injection]
        )
        with session:
            statuses = session.commands(0, session.n_commands)["status"]
            assert (statuses == Status.OK).all()
        np.testing.assert_array_equal(outcome.outputs["y"], reference(proto, inputs)["y"])
