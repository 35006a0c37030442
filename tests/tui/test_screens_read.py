"""What a user must be able to read on each screen without scrolling, at both sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_real import settle
from test_screen import LARGE, SIZES, SMALL, text_of

from npudbg.render import inputs, outputs, overview
from npudbg.render.fit import cells
from npudbg.session.reader import Session
from npudbg.session.records import (
    Finding,
    Meta,
    ModelRecord,
    NodeRecord,
    Subject,
    TensorRecord,
    ValueContract,
    Verdict,
)
from npudbg.session.scan import scan
from npudbg.session.writer import SessionWriter
from npudbg.tui import keymap
from npudbg.tui.app import make_screen
from npudbg.tui.application import NpudbgApp
from npudbg.tui.lineview import LineView
from npudbg.tui.selection import resolve, tensor_at

SESSIONS = Path(__file__).parents[2] / "sessions"
FAULTY = ("f-order", "fp16-overflow", "misaligned-dma", "missing-device", "torn-line",
          "unnormalised", "unsupported-operator", "never-started")  # fmt: skip


def words_of(text: str) -> str:
    return " ".join(text.split())


@SIZES
@pytest.mark.parametrize("name", FAULTY)
async def test_the_fix_is_on_the_first_screen(name, size):
    with Session.open(SESSIONS / f"{name}.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            detail = app.screen.query_one("#findings-detail", LineView)
            height = detail.scrollable_content_region.height
            seen = [detail.source.line(n, 999).text for n in range(min(height, len(detail.source)))]
            finding = session.findings[session.verdict.finding]
            assert any(row.startswith("fix  ") for row in seen), seen
            assert words_of(finding.fix)[:30] in words_of(text_of(app))


def test_long_evidence_does_not_hide_the_fix(tmp_path):
    finding = Finding(
        code="O419", name="n", layer=4, severity="error", certainty="proven",
        subject=Subject(kind="tensor", name="t", tensor=0), message="differs", fix="raise it",
        evidence={f"figure_{n}": {f"part_{i}": i / 7 for i in range(8)} for n in range(6)},
    )  # fmt: skip
    writer = SessionWriter(tmp_path / "a.npudbg")
    writer.set_meta(Meta(target="generic"))
    writer.add_findings([finding])
    writer.set_verdict(Verdict(layer=4, code="O419", finding=0, summary="differs"))
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        rows = [row.text for row in overview.overview_lines(session, 80)]
        fix = next(n for n, row in enumerate(rows) if row.startswith("fix"))
        assert fix <= 7
        assert "more lines with the finding itself" in rows[fix - 1]


async def test_a_run_with_nothing_at_fault_tells_its_warnings_and_counters():
    with Session.open(SESSIONS / "serial-chain.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=SMALL) as pilot:
            await settle(pilot)
            shown = text_of(app)
            warning = next(f for f in session.findings if f.severity == "warning")
            assert f"~ {warning.code}" in shown
            assert words_of(warning.message) in words_of(shown.replace(f"~ {warning.code}", ""))
            assert f"{session.n_commands:,} commands" in shown
            for counter in session.counters[:4]:
                assert counter.name in shown


@SIZES
async def test_explain_and_help_are_wrapped_to_the_frame(size):
    with Session.open(SESSIONS / "misaligned-dma.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            for key in ("e", "question_mark"):
                await pilot.press(key)
                await settle(pilot)
                view = app.screen.query_one(LineView)
                width = view.scrollable_content_region.width
                rows = [view.source.line(n, width) for n in range(len(view.source))]
                assert rows
                assert max(cells(row.text) for row in rows) <= width
                await pilot.press("escape")
                await settle(pilot)


def test_help_says_all_of_each_key_at_any_width():
    text = words_of(" ".join(row.text for row in keymap.help_lines(40)))
    for key in keymap.KEYS:
        if key.id not in keymap._HIDDEN:
            assert words_of(key.help) in text


async def test_the_host_pane_tells_the_seven_steps_to_the_device():
    with Session.open(SESSIONS / "torn-line.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=SMALL) as pilot:
            await settle(pilot)
            await pilot.press("1")
            await settle(pilot)
            assert "life of left" in text_of(app)
            source = app.screen.panes[1].main.source
            rows = [source.line(n, 80).text for n in range(len(source))]
            for name in ("left", "right"):
                start = next(n for n, row in enumerate(rows) if row.startswith(f"life of {name}"))
                steps = [row[1] for row in rows[start + 1 :] if row[:1] == " " and row[1:2] > "0"]
                assert steps[:7] == list("1234567")


def test_names_of_open_axes_are_told_apart():
    contract = ValueContract(
        name="x", dtype="<f4", shape=("p2o.DynamicDimension.0", 3, "p2o.DynamicDimension.1", 8)
    )
    text = words_of(" ".join(row.text for row in inputs._contract(contract, 40)))
    assert text == "model [p2o.DynamicDimension.0, 3, p2o.DynamicDimension.1, 8] <f4"
    short = ValueContract(name="x", dtype="<f4", shape=("N", 3, 8))
    assert inputs._contract(short, 80)[0].text.strip() == "model  Nx3x8 <f4"


async def test_memory_is_read_as_the_copy_that_lies_there():
    """The host keeps fp32, the device's copy of the same input is fp16."""
    with Session.open(SESSIONS / "torn-line.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            screen = app.screen
            assert session.tensors[screen.selection.tensor].dtype == "<f2"
            lies = tensor_at(session, screen.selection)
            assert lies is not None and lies.dtype == "<f4" and lies.space == "host"
            view = screen.port.memory(screen.selection.space, screen.selection.address, 8)
            values = np.frombuffer(bytes(view.data), "<f4")
            shown = screen.query_one("#trace-memory", LineView).source.line(0, 80).text
            assert [float(word) for word in shown.split()[-2:]] == pytest.approx(values, rel=1e-3)


async def test_what_is_not_in_the_list_leaves_no_line_highlighted():
    with Session.open(SESSIONS / "torn-line.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            pane = app.screen.panes[4]
            assert app.screen.selection.tensor not in pane.row_of
            assert not pane.main.show_highlight
            await pilot.press("4", "down")
            await settle(pilot)
            assert pane.main.show_highlight
            assert app.screen.selection.tensor in pane.row_of


def test_operands_with_infinities_are_named(tmp_path):
    writer = SessionWriter(tmp_path / "a.npudbg")
    weight, made = np.array([1, np.inf, np.inf], "<f2"), np.zeros(3, "<f2")
    for number, (name, role, array) in enumerate(
        [("var", "constant", weight), ("y", "output", made)]
    ):
        writer.add_tensor(
            TensorRecord(
                id=number, name=name, role=role, shape=(3,), dtype="<f2", strides=(2,),
                blob=writer.put_array(array), stats=scan(array), producer=number - 1,
            )
        )  # fmt: skip
    writer.add_node(NodeRecord(index=0, name="bn", op_type="Norm", inputs=(0,), outputs=(1,)))
    writer.set_meta(Meta(model=ModelRecord(name="m")))
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        rows = outputs.tensor_detail(session, session.tensors[1], 80)
        (row,) = [r for r in rows if "reads" in r.text]
        assert "var (constant): 2 Inf of 3" in row.text
        assert row.subject.tensor == 0
        assert resolve(session, row.subject).tensor == 0


async def test_the_grid_shows_every_engine_and_its_cursor():
    """What the findings take must not be taken from the engines' chart."""
    with Session.open(SESSIONS / "torn-line.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            shown = text_of(app)
            for engine in session.meta.engines:
                assert f"{engine:<5}" in shown
            assert "▲" in shown and "cycles shown" in shown


async def test_a_run_that_stopped_opens_at_its_last_command_and_lists_no_weights(tmp_path):
    """The node at fault was never reached: where the run stopped is the nearest place."""
    from npudbg.session.commands import COMMAND, Kind, Space

    writer = SessionWriter(tmp_path / "a.npudbg")
    weight = np.ones(3, "<f4")
    writer.add_tensor(
        TensorRecord(
            id=0, name="w", role="constant", shape=(3,), dtype="<f4", strides=(4,),
            blob=writer.put_array(weight), stats=scan(weight), producer=0,
        )
    )  # fmt: skip
    writer.add_node(NodeRecord(index=0, name="c", op_type="Constant", outputs=(0,)))
    writer.add_node(
        NodeRecord(index=1, name="ran", op_type="Neg", inputs=(0,), first_seq=0, last_seq=2)
    )
    writer.add_node(NodeRecord(index=2, name="lstm", op_type="LSTM", inputs=(0,)))
    rows = np.zeros(3, COMMAND)
    rows["seq"], rows["kind"], rows["node"], rows["tensor"] = np.arange(3), Kind.DMA_LOAD, 1, 0
    rows["dst_space"], rows["dst"], rows["nbytes"] = Space.SRAM, 64, 12
    writer.append_commands(rows)
    writer.add_findings(
        [
            Finding(
                code="T311", name="n", layer=3, severity="error", certainty="proven",
                subject=Subject(kind="node", name="lstm", node=2), message="lstm failed",
            )
        ]
    )  # fmt: skip
    writer.set_verdict(Verdict(layer=3, code="T311", finding=0, summary="lstm failed"))
    writer.set_meta(Meta(engines=("dma0",)))
    writer.close(status="failed")
    with Session.open(tmp_path / "a.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=LARGE) as pilot:
            await settle(pilot)
            assert app.screen.port.seq == 2
            assert "no node has made a result" in text_of(app)
        # A constant that was folded away is no place at which the run stopped.
        assert resolve(session, Subject(kind="node", node=0)).seq is None


def test_a_comparison_of_nothing_does_not_read_as_agreement():
    from npudbg.render.golden import golden_summary
    from npudbg.session.golden import GoldenRecord

    (span, *more) = golden_summary(GoldenRecord(what="w"), 80).spans
    assert "no tensor was compared" in span.text and span.style == "warn" and not more


@SIZES
@pytest.mark.parametrize("key", list("0123456"))
async def test_one_pane_alone_takes_the_whole_body(key, size):
    with Session.open(SESSIONS / "torn-line.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await pilot.press(key, "z")
            await settle(pilot)
            pane = app.screen.panes[int(key)].region
            body = app.screen.query_one("#body").region
            assert pane == body
            await pilot.press("z")
            await settle(pilot)
            assert (app.screen.panes[int(key)].region == body) == (size == SMALL)


async def test_what_commands_print_is_never_cut():
    with Session.open(SESSIONS / "misaligned-dma.npudbg") as session:
        app = NpudbgApp(screen=make_screen(session))
        async with app.run_test(size=SMALL) as pilot:
            await settle(pilot)
            await pilot.press("colon", *"info dma", "enter")
            await settle(pilot)
            # One line that is too long for the bar stands in the console, whole.
            assert app.screen.query_one("#console-box").display
            shown = words_of(text_of(app))
            assert "which has no DMA descriptor; expected a LOAD or STORE of a tensor" in shown
            await pilot.press(*"info life image", "enter")
            await settle(pilot)
            view = app.screen.query_one("#console", LineView)
            width = view.scrollable_content_region.width
            rows = [view.source.line(n, width).text for n in range(len(view.source))]
            assert max(map(cells, rows)) <= width
            assert "…" not in "".join(rows)


@pytest.mark.parametrize("key", list("0123456"))
async def test_the_grid_leaves_room_for_commands_whatever_is_open(key):
    """Four commands around the cursor, all engines, and a plugin's panel of ten lines."""
    for name in ("torn-line", "clean"):
        with Session.open(SESSIONS / f"{name}.npudbg") as session:
            app = NpudbgApp(screen=make_screen(session))
            async with app.run_test(size=LARGE) as pilot:
                await settle(pilot)
                await pilot.press(key)
                await settle(pilot)
                trace = app.screen.panes[3]
                assert trace.list_of_commands.size.height >= 4
                assert trace.query_one("#trace-timeline").region.bottom <= trace.region.bottom
                assert int(key) < 5 or app.screen.panes[int(key)].main.size.height >= 10
