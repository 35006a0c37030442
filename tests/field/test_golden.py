"""Golden comparison: where a run first differs from what it should have been, and why."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npudbg.cli import main
from npudbg.commands.pipeline import Job, run_job
from npudbg.render.golden import golden_lines, golden_record
from npudbg.render.json_report import report, schema
from npudbg.session.errors import UserError
from npudbg.session.reader import Session

DATA = Path(__file__).parents[1] / "data"
RKNN = DATA / "rknn/int8_snapshot"
RNG = np.random.default_rng(11)
X = RNG.standard_normal((1, 3, 6, 5)).astype("f4")
W = RNG.standard_normal((4, 3, 3, 3)).astype("f4")


def save(folder, nodes, outputs, weights, x=X, name="m.onnx", kind=TensorProto.FLOAT):
    """Write a model of one input `x` and its input's file; returns both paths."""
    graph = helper.make_graph(
        nodes,
        "m",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(n, kind, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, folder / name)
    np.save(folder / "x.npy", x)
    return str(folder / name), str(folder / "x.npy")


@pytest.fixture
def overflowing(tmp_path):
    """Conv, Relu, times 100, squared (beyond 65504), root (back within)."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Mul", ["r", "hundred"], ["m"], name="mul"),
        helper.make_node("Pow", ["m", "two"], ["p"], name="pow"),
        helper.make_node("Sqrt", ["p"], ["y"], name="sqrt"),
    ]
    weights = {"w": W, "hundred": np.float32(100), "two": np.float32(2)}
    return save(tmp_path, nodes, ["y"], weights)


@pytest.fixture
def plain(tmp_path):
    """Conv and Relu."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    return save(tmp_path, nodes, ["y"], {"w": W})


def compare(paths, golden, tmp_path, **options):
    """Run; returns the finding of the first divergence (or None) and the table by name."""
    model, x = paths
    job = Job(
        model=model, feeds=[x], golden=str(golden), save=str(tmp_path / "s.npudbg"), **options
    )
    judged = run_job(job)
    (found,) = [f for f in judged.findings if f.code == "O419"] or [None]
    with Session.open(judged.path) as session:
        record = golden_record(session)
        jsonschema.validate(report(session), schema())
    assert record is not None
    assert (found is None) == (record.first == -1)
    return found, record


def rows(record):
    return {r.name: r for r in record.rows}


def test_fp16_run_differs_first_where_it_overflows(overflowing, tmp_path):
    found, record = compare(overflowing, "ort", tmp_path, precision="fp16")
    assert found is not None and found.subject.name == "p" and found.severity == "error"
    assert found.evidence["reason"] == "range" and found.certainty == "proven"
    reference = np.square(100 * np.maximum(convolved(), 0))
    assert found.evidence["largest_golden"] == pytest.approx(reference.max(), rel=1e-5)
    beyond = int(np.count_nonzero(reference > 65520))  # what rounds to 65504 is finite
    assert found.evidence["nonfinite"] == pytest.approx(beyond, abs=1)
    assert [r.name for r in record.rows] == ["c", "r", "m", "p", "y"]
    assert [r.differs for r in record.rows] == [False, False, False, True, True]
    # Where a value is lost no mean over the rest may say that all is well.
    assert rows(record)["p"].entire.cosine is None
    assert (record.optimised, record.origin) == (False, "measured")


def test_fp32_run_differs_nowhere(overflowing, tmp_path):
    found, record = compare(overflowing, "ort", tmp_path, precision="fp32", golden_mode="both")
    assert found is None and record.compared == 5 and record.differing == 0
    assert all(r.entire.max_abs == 0 == r.single.max_abs for r in record.rows)
    assert all(r.entire.snr == float("inf") for r in record.rows)


def convolved():
    padded = np.pad(X[0].astype("f8"), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.einsum("chwij,ocij->ohw", windows, W.astype("f8"))[None]


def test_metrics_are_those_of_the_definition(plain, tmp_path):
    _, record = compare(plain, "ort", tmp_path, precision="fp16", atol=2e-3, rtol=0.0)
    with Session.open(tmp_path / "s.npudbg") as session:
        got = session.array(session.tensor("c")).astype("f8")
    golden = convolved().astype("f4").astype("f8")
    error = got - golden
    row = rows(record)["c"].entire
    assert row.max_abs == pytest.approx(np.abs(error).max(), rel=1e-2)
    cosine = (got * golden).sum() / np.linalg.norm(got) / np.linalg.norm(golden)
    assert row.cosine == pytest.approx(cosine, abs=1e-9)
    snr = 10 * np.log10(np.square(golden).sum() / np.square(error).sum())
    assert row.snr == pytest.approx(snr, abs=0.05)
    assert row.mismatches == pytest.approx(np.count_nonzero(np.abs(error) > 2e-3), abs=1)
    assert 0 < row.mismatches < row.count


def test_a_cancelled_difference_is_an_error_of_precision(tmp_path):
    nodes = [
        helper.make_node("Add", ["x", "large"], ["a"], name="add"),
        helper.make_node("Sub", ["a", "large"], ["y"], name="sub"),
    ]
    paths = save(tmp_path, nodes, ["y"], {"large": np.float32(4096)})
    found, _ = compare(paths, "ort", tmp_path, precision="fp16", golden_mode="both")
    assert found.subject.name == "y" and found.evidence["reason"] == "precision"
    assert compare(paths, "ort", tmp_path, precision="fp32")[0] is None


def test_single_mode_clears_the_nodes_that_only_hand_an_error_down(tmp_path):
    nodes = [
        helper.make_node("Add", ["x", "large"], ["a"], name="add"),
        helper.make_node("Sub", ["a", "large"], ["d"], name="sub"),
        helper.make_node("Mul", ["d", "half"], ["y"], name="mul"),
    ]
    weights = {"large": np.float32(4096), "half": np.float32(0.5)}
    paths = save(tmp_path, nodes, ["y"], weights)
    options = {"precision": "fp16", "golden_mode": "both", "fused": False}
    _, record = compare(paths, "ort", tmp_path, **options)
    table = rows(record)
    assert table["y"].differs and table["y"].entire.mismatches and not table["y"].single.mismatches
    found, single = compare(paths, "ort", tmp_path, **{**options, "golden_mode": "single"})
    assert found.subject.name == "d" and rows(single)["y"].entire is None


def test_single_mode_takes_the_operands_of_the_dumps(tmp_path):
    """The board's first node is off; its second is right for what it was given."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"], name="mul"),
        helper.make_node("Neg", ["a"], ["y"], name="neg"),
    ]
    paths = save(tmp_path, nodes, ["y"], {"two": np.float32(2)})
    board = 2 * np.load(paths[1]) + 1
    (tmp_path / "dumps").mkdir()
    np.save(tmp_path / "dumps" / "a.npy", board)
    np.save(tmp_path / "dumps" / "y.npy", -board)
    options = {"precision": "fp32", "golden_mode": "both", "fused": False}
    found, record = compare(paths, str(tmp_path / "dumps"), tmp_path, **options)
    table = rows(record)
    assert found.subject.name == "a"
    assert table["a"].single.max_abs == pytest.approx(1, rel=1e-6)
    assert table["y"].entire.max_abs == pytest.approx(1, rel=1e-6)
    assert table["y"].single.max_abs == 0
    assert any("2 tensors" in note for note in record.notes)


def test_a_model_of_fp16_is_held_against_fp32(tmp_path):
    """Its own type would overflow in the reference too."""
    paths = save(
        tmp_path,
        [
            helper.make_node("Mul", ["x", "k"], ["m"], name="mul"),
            helper.make_node("Mul", ["m", "k"], ["y"], name="again"),
        ],
        ["y"],
        {"k": np.float16(300)},
        x=np.full((1, 4), 2, "f2"),
        kind=TensorProto.FLOAT16,
    )
    found, record = compare(paths, "ort", tmp_path)
    assert found.subject.name == "y" and found.evidence["largest_golden"] == 180_000
    assert not rows(record)["m"].differs


def test_rknn_snapshot_reads_with_its_names(tmp_path):
    mean = np.array([123.7, 116.3, 103.5], "f4").reshape(1, 3, 1, 1)
    std = np.array([58.4, 57.1, 57.4], "f4").reshape(1, 3, 1, 1)
    np.save(tmp_path / "in.npy", ((np.load(RKNN / "acc_nchw.npy") - mean) / std).astype("f4"))
    paths = str(RKNN / "tiny.onnx"), str(tmp_path / "in.npy")
    found, record = compare(paths, RKNN, tmp_path, precision="fp32")
    assert found is None
    table = rows(record)
    # Renamed by the toolkit: fc1_mm, fc1r-rs (of rank 4), logits_mm.
    assert set(table) == {"input", "pool1", "bn2_out", "gap", "fc1", "fc1r", "logits", "prob"}
    assert all(r.entire.max_abs < 1e-4 for r in table.values())
    assert set(record.unmatched) == {"GAP_2conv0", "logits_mm__float16", "prob-rs"}
    assert record.origin == "imported" and record.optimised is None


def test_the_wrong_input_is_the_first_to_differ(tmp_path):
    """The snapshot's golden run was fed a normalised image."""
    paths = str(RKNN / "tiny.onnx"), str(RKNN / "acc_nchw.npy")
    found, _ = compare(paths, RKNN / "golden", tmp_path, precision="fp32")
    assert found.subject.name == "input" and found.subject.node is None


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 2, 1)])
def test_a_transposed_output_file_is_told_as_a_layout(plain, order, tmp_path):
    golden = np.maximum(convolved(), 0).astype("f4")
    # The same bytes in the shape that was expected are silent without the values.
    for wrong in (golden.transpose(order), golden.transpose(order).reshape(golden.shape)):
        np.save(tmp_path / "out.npy", wrong)
        found, _ = compare(plain, tmp_path / "out.npy", tmp_path, precision="fp32")
        assert found.subject.name == "y" and found.evidence["reason"] == "layout"
        assert found.evidence["permutation"] == list(order) or wrong.shape != golden.shape
        assert found.evidence["equal_after"] == 1 and found.certainty == "proven"


def test_a_native_buffer_of_the_board_is_told_with_its_padding(plain, tmp_path):
    """NC1HWC2 of 8 channels, 4 of them padding: twice the elements."""
    golden = np.maximum(convolved(), 0).astype("f4")
    native = np.zeros((1, 1, 6, 5, 8), "f4")
    native[0, 0, :, :, :4] = golden[0].transpose(1, 2, 0)
    np.save(tmp_path / "out.npy", native)
    found, _ = compare(plain, tmp_path / "out.npy", tmp_path, precision="fp32")
    assert found.evidence["reason"] == "layout" and found.evidence["side"] == "golden file"


def test_a_flat_dump_in_order_is_as_good(plain, tmp_path):
    np.save(tmp_path / "y.npy", np.maximum(convolved(), 0).astype("f4").reshape(-1))
    assert compare(plain, tmp_path / "y.npy", tmp_path, precision="fp32")[0] is None


def test_noise_is_no_layout(plain, tmp_path):
    golden = np.maximum(convolved(), 0).astype("f4")
    np.save(tmp_path / "out.npy", golden)
    assert compare(plain, tmp_path / "out.npy", tmp_path, precision="fp32")[0] is None
    noisy = golden + RNG.normal(0, 1, golden.shape).astype("f4")
    np.save(tmp_path / "out.npy", noisy)
    found, _ = compare(plain, tmp_path / "out.npy", tmp_path, precision="fp32")
    assert found.evidence["reason"] not in ("layout", "scale", "collapse")


def test_collapsed_channels_and_scale(plain, tmp_path):
    golden = np.maximum(convolved(), 0).astype("f4")
    np.savez(tmp_path / "g.npz", y=golden * 255)
    found, _ = compare(plain, tmp_path / "g.npz", tmp_path, precision="fp32")
    assert found.evidence["reason"] == "scale"
    assert found.evidence["factor"] == pytest.approx(255, rel=1e-4)
    dead = W.copy()
    dead[2] = 0
    np.savez(tmp_path / "g.npz", c=convolved().astype("f4"), y=golden)
    found, _ = compare(plain, tmp_path / "g.npz", tmp_path, replace={"w": dead})
    assert found.subject.name == "c" and found.evidence["reason"] == "dead-channels"
    assert found.evidence["channels"] == [2]


def test_what_if_is_held_against_the_model_as_it_is(plain, tmp_path):
    found, _ = compare(plain, "ort", tmp_path, precision="fp32", replace={"w": W * 2})
    assert found.subject.name == "c" and found.evidence["factor"] == pytest.approx(0.5)


def test_against_a_session(overflowing, tmp_path):
    first = tmp_path / "golden.npudbg"
    model, x = overflowing
    run_job(Job(model=model, feeds=[x], precision="fp32", save=str(first)))
    found, record = compare(overflowing, first, tmp_path, precision="fp16")
    assert found.subject.name == "p" and record.origin == "simulated"
    assert compare(overflowing, first, tmp_path, precision="fp32")[1].differing == 0


def test_shapes_that_differ(plain, tmp_path):
    np.save(tmp_path / "y.npy", np.zeros((1, 4, 5, 5), "f4"))
    found, record = compare(plain, tmp_path / "y.npy", tmp_path)
    assert found.evidence["reason"] == "shape" and rows(record)["y"].entire is None


def test_report_lines(overflowing, tmp_path):
    compare(overflowing, "ort", tmp_path, precision="fp16", golden_mode="both")
    with Session.open(tmp_path / "s.npudbg") as session:
        for width in (40, 80, 160):
            lines = golden_lines(session, width)
            assert all(len(each.text) <= width for each in lines)
        texts = [each.text for each in lines]
        few = [each.text for each in golden_lines(session, 100, limit=2)]
    assert "2 of 5 tensors beyond tolerance; first p (range)" in texts[1]
    assert [t.split()[1] for t in texts if t.startswith(">")] == ["p"]
    assert any(t.startswith(">") for t in few) and any("within tolerance" in t for t in few)


def test_from_the_command_line(overflowing, tmp_path, capsys):
    model, x = overflowing
    assert main(["check", model, x, "--golden", "ort", "--precision", "fp32", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema())
    assert document["golden"]["first"] is None and len(document["golden"]["tensors"]) == 5
    assert main(["check", model, x, "--precision", "fp32", "--json"]) == 0
    assert "golden" not in json.loads(capsys.readouterr().out)
    argv = ["check", model, x, "--golden", "ort", "--precision", "fp16", "--atol", "1e-9"]
    assert main(argv) == 1
    assert "first c" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--golden", "nowhere.npy"], "no such file"),
        (["--golden", "EMPTY"], "holds no .npy file"),
        (["--golden", "other.npz"], "none of its 1 tensors"),
        (["--golden", "model.npudbg"], "no such session file"),
        (["--golden", ""], "--golden: expected"),
        (["--golden", "ort", "--atol", "nan"], "--atol nan"),
        (["--golden", "ort", "--rtol", "-1"], "--rtol -1"),
        (["--atol", "1"], "without --golden"),
        (["--golden-mode", "both"], "without --golden"),
    ],
)
def test_refusals(plain, options, told, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "EMPTY").mkdir()
    np.savez(tmp_path / "other.npz", elsewhere=X)
    model, x = plain
    options = [f"{options[0]}={options[1]}", *options[2:]] if len(options) == 2 else [
        *options[:2], f"{options[2]}={options[3]}"
    ]  # fmt: skip
    assert main(["check", model, x, *options]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert told in line
    assert sorted(p.name for p in tmp_path.glob("*.part")) == []


def test_two_outputs_need_a_name(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Neg", ["x"], ["z"]),
    ]
    paths = save(tmp_path, nodes, ["y", "z"], {})
    np.save(tmp_path / "board.npy", -X)
    with pytest.raises(UserError, match="of which tensor"):
        compare(paths, tmp_path / "board.npy", tmp_path)
    assert compare(paths, f"z={tmp_path / 'board.npy'}", tmp_path, precision="fp32")[0] is None


def test_a_collapse_that_cosine_hides(tmp_path):
    """Boxes of hundreds and scores below one joined in one int8 tensor."""
    nodes = [
        helper.make_node("Mul", ["x", "large"], ["boxes"], name="boxes"),
        helper.make_node("Sigmoid", ["x"], ["scores"], name="scores"),
        helper.make_node("Concat", ["boxes", "scores"], ["y"], name="join", axis=1),
    ]
    paths = save(tmp_path, nodes, ["y"], {"large": np.float32(500)})
    found, record = compare(paths, "ort", tmp_path, precision="int8", target="rk3588")
    row = rows(record)["y"]
    assert row.entire.cosine > 0.9999 and row.entire.mismatches == 0
    assert found.subject.name == "y" and found.evidence["reason"] == "collapse"
    assert found.evidence["channels"] == [3, 4, 5]
    # One scale for both: the whole range in 255 steps, and the scores within two of them.
    low, high = found.evidence["range"]
    assert found.evidence["scale"] == pytest.approx((high - low) / 255, rel=0.02)
    assert found.evidence["span"] < 2 * found.evidence["scale"]
    assert low == pytest.approx(500 * X.min(), rel=1e-3)
    equal = save(tmp_path, nodes, ["y"], {"large": np.float32(1)})
    assert compare(equal, "ort", tmp_path, precision="int8", target="rk3588")[0] is None


def test_the_verdict_names_golden_values_that_agree(plain, tmp_path):
    compare(plain, "ort", tmp_path, precision="fp32")
    with Session.open(tmp_path / "s.npudbg") as session:
        agreed = [t for t in session.verdict.ruled_out if t.startswith("golden: ")]
    assert len(agreed) == 1 and "2 tensors within tolerance of ONNX Runtime" in agreed[0]
    compare(plain, "ort", tmp_path, precision="fp32", replace={"w": W * 2})
    with Session.open(tmp_path / "s.npudbg") as session:
        assert not [t for t in session.verdict.ruled_out if t.startswith("golden")]


def test_figures_of_an_output_beside_those_that_hide_it(plain, tmp_path):
    """One channel's sign is wrong: the worst channel is named, with its own signal to noise."""
    golden = np.maximum(convolved(), 0).astype("f4")
    wrong = golden.copy()
    wrong[:, 1] *= -1
    np.save(tmp_path / "y.npy", wrong)
    found, record = compare(plain, tmp_path / "y.npy", tmp_path, precision="fp32")
    figures = rows(record)["y"].entire
    one = wrong[:, 1].astype("f8")
    error = np.sqrt(np.square(2 * one).mean())
    assert (figures.channel, figures.channel_axis) == (1, 1)
    assert figures.channel_snr == pytest.approx(20 * np.log10(one.std() / error), abs=1e-3)
    assert figures.channel_max_abs == pytest.approx(2 * np.abs(one).max(), rel=1e-5)
    # The others are as they should be: this one alone is kept.
    assert [c.index for c in figures.channels if c.max_abs > 1e-4] == [1]
    assert figures.channels[0].snr == figures.channel_snr
    assert figures.channels[0].cosine == pytest.approx(-1) and not figures.channels[0].constant
    assert found.evidence["entire"]["worst_channel"]["channel"] == 1
    with Session.open(tmp_path / "s.npudbg") as session:
        told = " ".join(each.text.strip() for each in golden_lines(session, 80))
    assert "worst channel 1 of axis 1" in told and figures.argmax_equal is None


def test_which_class_wins(tmp_path):
    """Every score is nearly right, cosine is 0.9999, and another class wins in two of four rows."""
    x = np.full((4, 5), 10, "f4")
    x[np.arange(4), [0, 1, 2, 3]] = 10.05
    paths = save(tmp_path, [helper.make_node("Identity", ["x"], ["y"])], ["y"], {}, x=x)
    other = x.copy()
    other[:2, 4] = 10.2
    np.save(tmp_path / "y.npy", other)
    _, record = compare(paths, tmp_path / "y.npy", tmp_path, precision="fp32")
    figures = rows(record)["y"].entire
    assert figures.cosine > 0.9999 and figures.argmax_equal == 0.5


@pytest.mark.parametrize(
    ("turned", "kind", "fix"),
    [
        (lambda y: y[:, ::-1], "channel-order reversed", "channels of one side"),
        (lambda y: y.byteswap(), "byte-swapped", "byte order"),
        (lambda y: np.pad(y.reshape(-1), (10, 0))[: y.size].reshape(y.shape), "shifted", "offset"),
    ],
)
def test_a_layout_comes_with_its_own_fix(plain, turned, kind, fix, tmp_path):
    golden = np.maximum(convolved(), 0).astype("f4")
    np.save(tmp_path / "y.npy", np.ascontiguousarray(turned(golden)))
    found, _ = compare(plain, tmp_path / "y.npy", tmp_path, precision="fp32")
    assert found.evidence["reason"] == "layout" and found.evidence["kind"] in kind
    assert fix in found.fix
