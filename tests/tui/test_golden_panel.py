"""The golden table in the output pane: figures, first divergence, worst channels, way back."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_real import settle
from test_screen import LARGE, SIZES, SMALL, text_of

from npudbg.commands.pipeline import Job, run_job
from npudbg.render.golden_row import first_mismatch, golden_detail
from npudbg.session.commands import box_slices
from npudbg.session.golden import Closeness, GoldenRecord, GoldenRow
from npudbg.session.reader import Session
from npudbg.tui.app import make_screen
from npudbg.tui.application import NpudbgApp
from npudbg.tui.lineview import LineView
from npudbg.tui.output import mismatch_subject
from npudbg.tui.selection import resolve

RNG = np.random.default_rng(5)
X = RNG.standard_normal((1, 3, 6, 5)).astype("f4")
W = RNG.standard_normal((4, 3, 1, 1)).astype("f4")
MADE = np.einsum("oi,nihw->nohw", W[:, :, 0, 0], X)
WRONG = (0, 2, 3, 1)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A run whose Conv differs from its golden dump in channel 2, from row 3 on."""
    folder = tmp_path_factory.mktemp("golden")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Neg", ["r"], ["y"], name="neg"),
    ]
    graph = helper.make_graph(
        nodes, "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(W, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "m.onnx")
    np.save(folder / "x.npy", X)
    dumps = folder / "dumps"
    dumps.mkdir()
    golden = MADE.copy()
    golden[0, 2].reshape(-1)[3 * 5 + 1 :] += 7
    np.save(dumps / "c.npy", golden)
    np.save(dumps / "r.npy", np.maximum(MADE, 0))
    np.save(dumps / "y.npy", -np.maximum(MADE, 0))
    job = Job(
        model=str(folder / "m.onnx"), feeds=[str(folder / "x.npy")], golden=str(dumps),
        golden_mode="both", precision="fp32", save=str(folder / "s.npudbg"),
    )  # fmt: skip
    return run_job(job).path


def the_row(pane, name: str) -> str:
    names = [row.name for row in pane.record.rows]
    source = pane.main.source
    return source.line(names.index(name), pane.text_width).text


@SIZES
async def test_the_table_opens_where_it_is_the_gravest_thing_found(compared, size):
    with Session.open(compared) as session:
        assert [f.severity for f in session.findings if f.code == "O419"] == ["warning"]
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await pilot.press("4")
            await settle(pilot)
            pane = app.screen.panes[4]
            assert pane.main.index == pane.record.first == 0
            await pilot.press("down", "up")
            await settle(pilot)
            shown = text_of(app)
            assert "1 of 3 tensors beyond tolerance; first c" in shown
            assert the_row(pane, "c").startswith("> c")
            assert the_row(pane, "r").startswith("  r")
            # 14 of 120 elements are off by 7.
            assert f"{14 / 120:.0%}" in the_row(pane, "c") and " 7 " in the_row(pane, "c")
            noise = 14 * 49.0
            golden = MADE.copy()
            golden[0, 2].reshape(-1)[16:] += 7
            level = 10 * math.log10(float(np.square(golden).sum()) / noise)
            assert f"{level:.1f}" in the_row(pane, "c")
            (relu,) = [row for row in pane.record.rows if row.name == "r"]
            assert not relu.differs and relu.entire.snr > 100
            detail = pane.query_one("#output-detail", LineView).source.lines
            told = " ".join(" ".join(row.text.split()) for row in detail)
            for part in ("entire 7 ", "single ", "first mismatch [0,2,3,1]", "[:,2] 7 "):
                assert part in told, part
            assert "worst entire" in shown


async def test_both_modes_stand_side_by_side_where_there_is_room(compared):
    with Session.open(compared) as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            await pilot.press("4")
            await settle(pilot)
            assert "single dB" in text_of(app) and "single abs" not in text_of(app)
            await pilot.press("z")
            await settle(pilot)
            assert "single abs" in text_of(app)
            assert "2 dumps" not in text_of(app)
            assert "dumps in" in text_of(app) and "imported" in text_of(app)


async def test_t_turns_to_values_and_back(compared):
    with Session.open(compared) as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=SMALL) as pilot:
            await settle(pilot)
            await pilot.press("4")
            await settle(pilot)
            assert "max rel" in text_of(app)
            await pilot.press("down", "up", "t")
            await settle(pilot)
            assert "max rel" not in text_of(app) and "t: golden" in text_of(app)
            assert "made by Conv" in text_of(app)
            await pilot.press("down", "t")
            await settle(pilot)
            pane = app.screen.panes[4]
            assert "max rel" in text_of(app)
            assert pane.record.rows[pane.main.index].tensor == app.screen.selection.tensor


@SIZES
async def test_enter_goes_to_the_command_and_the_bytes_of_the_first_mismatch(compared, size):
    with Session.open(compared) as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await pilot.press("4", "enter")
            await settle(pilot)
            screen = app.screen
            tensor = session.tensor("c")
            row = session.command(screen.port.seq)
            assert screen.active == 3 and int(row["tensor"]) == tensor.id
            chosen = screen.selection
            data = screen.port.memory(chosen.space, chosen.address, 4).data
            made = session.array(tensor)[WRONG]
            assert np.frombuffer(bytes(data), "<f4")[0] == made
            assert made == pytest.approx(MADE[WRONG], rel=1e-5)


async def test_without_a_golden_comparison_t_says_how_to_get_one(clean_file, open_app):
    app = open_app(clean_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("4", "t")
        await settle(pilot)
        assert "run with --golden" in text_of(app)


def test_the_first_mismatch_leads_to_its_tile_and_its_bytes(session):
    """Every tensor of a tiled run, at random elements, against the array itself."""
    from fake_debugger import FakeDebugger

    debugger = FakeDebugger(session)
    rng = np.random.default_rng(3)
    tiles = set()
    for tensor in [t for t in session.tensors if t.producer >= 0][:6]:
        array = session.array(tensor)
        for first in rng.integers(0, array.size, 5).tolist():
            row = GoldenRow(
                name=tensor.name, tensor=tensor.id, node=tensor.producer, shape=tensor.shape,
                entire=Closeness(count=array.size, mismatches=1, first=first), differs=True,
            )  # fmt: skip
            where = first_mismatch(row)
            assert where == tuple(int(n) for n in np.unravel_index(first, array.shape))
            subject = mismatch_subject(session, row)
            made = session.command(subject.seq)
            box = box_slices(made, len(tensor.shape))
            assert all(s.start <= at < s.stop for s, at in zip(box, where, strict=True))
            tiles.add(int(made["tile"]))
            chosen = resolve(session, subject)
            debugger.seq = subject.seq
            data, written, _ = debugger.memory(chosen.space, chosen.address, 2)
            assert all(written)
            np.testing.assert_equal(np.frombuffer(data, "<f2")[0], array[where])
    assert len(tiles) > 5


def test_rows_that_point_nowhere_are_harmless(session):
    for number in (-1, 10**6):
        row = GoldenRow(
            name="\x1b[2Jx", tensor=number, node=number, shape=(4,),
            entire=Closeness(count=4, first=2, mismatches=1),
        )  # fmt: skip
        subject = mismatch_subject(session, row)
        assert resolve(session, subject).tensor is None
        lines = golden_detail(session, GoldenRecord(what="w"), row, 60)
        assert all(line.text.isprintable() and len(line.text) <= 60 for line in lines)


@pytest.mark.parametrize("width", [40, 77, 120])
def test_the_detail_fits(compared, width):
    from npudbg.render.golden import golden_record

    with Session.open(compared) as session:
        record = golden_record(session)
        for row in record.rows:
            lines = golden_detail(session, record, row, width)
            assert max(len(each.text) for each in lines) <= width
            assert all(each.subject is not None for each in lines)
