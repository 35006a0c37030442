"""The program as a user drives it, at both sizes."""

from __future__ import annotations

import pytest
from fake_debugger import FakeDebugger

from npudbg.session.reader import Session
from npudbg.tui import keymap
from npudbg.tui.help import TextScreen
from npudbg.tui.lineview import LineView
from npudbg.tui.prompt import PromptInput
from npudbg.tui.screen import DebuggerScreen

SMALL, LARGE = (80, 24), (160, 48)
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE])


def text_of(app) -> str:
    """Return what stands on the screen, as text."""
    screen = app.screen
    size = app.size
    return "\n".join(
        "".join(segment.text for segment in line) for line in screen._compositor.render_strips(size)
    )


def head(app) -> str:
    return text_of(app).split("\n")[0]


@SIZES
async def test_opens_on_the_first_fault(session_file, open_app, size):
    app = open_app(session_file)
    async with app.run_test(size=size) as pilot:
        for _ in range(3):
            await pilot.pause()
        screen = app.screen
        finding = screen.session.findings[2]
        assert screen.selection.finding == 2
        assert screen.port.seq == finding.subject.seq
        shown = text_of(app)
        assert "STOP O401" in head(app) and f"cmd {finding.subject.seq}/" in head(app)
        assert "REPLAY" in head(app)
        assert "AT FAULT: LAYER 4 (OUTPUT)" in shown
        assert "NaN begins in" in shown
        assert screen.panes[0].main.index == 0
        assert "4 Output !" in shown and "2 Input ✓" in shown and "1 Host ~" in shown
        if size == LARGE:
            for part in ("BEGINS HERE", "NaN", "engines", "memory", "DMA 64 KiB ! off"):
                assert part in shown, part
            for title in ("1 Host", "2 Input", "3 Trace", "4 Output"):
                assert shown.count(title) == 2


async def test_a_clean_session_opens_on_its_verdict(clean_file, open_app):
    app = open_app(clean_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        assert "NOTHING AT FAULT" in text_of(app)
        await pilot.press("o")
        assert "nothing is at fault" in text_of(app)


async def test_selecting_a_finding_moves_trace_memory_output_and_graph(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=LARGE) as pilot:
        await pilot.press("5")
        await pilot.pause()
        screen = app.screen
        assert [p.id for p in screen.panels[:1]] == ["graph"]
        await pilot.press("right_square_bracket")
        await pilot.pause()
        finding = screen.session.findings[3]
        node = screen.session.nodes[-1]
        assert screen.selection.finding == 3
        assert screen.selection.tensor == finding.subject.tensor
        assert screen.port.seq == screen.session.tensors[finding.subject.tensor].first_seq
        panes = {p.id: p for p in screen.panes}
        assert panes["trace"].main.index == screen.port.seq
        assert panes["output"].main.index == len(panes["output"].tensors) - 1
        graph = panes["plugin5"].main
        assert graph.subject_at(graph.index).node == node.index
        row = screen.session.command(screen.port.seq)
        assert f"0x{int(row['dst']):08x}" in text_of(app)


async def test_from_the_nan_to_its_node_in_two_keys(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("4", "end")
        assert app.screen.selection.node == 23
        await pilot.press("o", "5")
        await pilot.pause()
        assert app.screen.selection.node == 18
        view = app.screen.panes[5].main
        assert view.subject_at(view.index).node == 18
        assert "/backbone/blocks.4/conv2/Conv" in text_of(app)


@SIZES
async def test_keys_step_both_ways_and_all_panes_follow(session_file, open_app, size):
    app = open_app(session_file)
    async with app.run_test(size=size) as pilot:
        screen, port = app.screen, app.screen.port
        await pilot.press("3")
        start = port.seq
        for key, verb in [
            ("s", "s"),
            ("S", "rs"),
            ("n", "n"),
            ("N", "rn"),
            ("f", "fin"),
            ("F", "rfin"),
            ("f11", "s"),
            ("shift+f11", "rs"),
            ("f23", "rs"),
            ("f10", "n"),
            ("f5", "c"),
            ("f17", "rc"),
            ("c", "c"),
            ("C", "rc"),
        ]:
            await pilot.press(key)
            await pilot.pause()
            assert port.executed[-1] == verb, key
        await pilot.pause()
        assert port.seq != start
        trace = screen.panes[3]
        assert trace.main.index == port.seq
        assert trace.commands.cursor == port.seq
        assert screen.selection.node == int(screen.session.command(port.seq)["node"])
        assert f"cmd {port.seq}/" in head(app)


async def test_moving_in_the_trace_moves_the_cursor_and_enter_goes_to_the_output(
    session_file, open_app
):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("3", "g")
        screen = app.screen
        assert screen.port.seq == 0
        await pilot.press("down", "down", "pagedown")
        await pilot.pause()
        assert screen.port.seq > 2
        await pilot.press("G")
        assert screen.port.seq == screen.session.n_commands - 1
        await pilot.press("enter")
        assert screen.active == 4
        await pilot.press("enter")
        assert screen.active == 3
        before = screen.port.seq
        await pilot.press("g", "backspace")
        assert screen.port.seq == before


async def test_memory_is_shown_as_it_was(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("3")
        await pilot.pause()
        shown = text_of(app)
        assert "*00*7E" in shown and "NaN" in shown
        await pilot.press("S")
        await pilot.pause()
        await pilot.press("v")
        assert "NaN" not in text_of(app).split("memory")[1]


async def test_up_and_down_walk_along_the_graph(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        screen = app.screen
        await pilot.press("3", "u")
        assert screen.selection.node == 17
        await pilot.press("d", "d")
        assert screen.selection.node == 19
        await pilot.press("backspace")
        assert screen.selection.node == 18


async def test_break_key_marks_the_node(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=LARGE) as pilot:
        await pilot.press("3", "b")
        await pilot.pause()
        assert app.screen.port.breaks == {18}
        assert "B> " in text_of(app) or "B>" in text_of(app)
        await pilot.press("b")
        assert app.screen.port.breaks == set()


@SIZES
async def test_prompt_executes_completes_remembers_and_leaves(session_file, open_app, size):
    app = open_app(session_file)
    async with app.run_test(size=size) as pilot:
        screen, port = app.screen, app.screen.port
        await pilot.press("colon")
        await pilot.pause()
        assert isinstance(app.focused, PromptInput)
        await pilot.press(*"goto", "space", *"7", "enter")
        assert port.executed[-1] == "goto 7" and port.seq == 7
        await pilot.press("up")
        assert app.focused.value == "goto 7"
        await pilot.press("down", *"inf", "tab")
        assert app.focused.value == "info "
        assert "tensors" in text_of(app)
        await pilot.press("tab", "tab")
        assert app.focused.value == "info nodes"
        await pilot.press("enter")
        await pilot.pause()
        assert port.executed[-1] == "info nodes"
        assert "row 29" in text_of(app)
        await pilot.press("enter")
        assert port.executed[-1] == ""
        await pilot.press("escape")
        await pilot.pause()
        assert not screen.query_one("PromptBar").display
        await pilot.press("escape")
        await pilot.pause()
        assert "row 29" not in text_of(app)
        assert isinstance(app.focused, LineView)
        assert screen.port.seq == 7


async def test_search_finds_forward_and_backward(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        screen = app.screen
        await pilot.press("3", "g", "slash", *"blocks.2/add", "enter")
        first = screen.port.seq
        assert first == screen.session.nodes[11].first_seq
        await pilot.press("full_stop")
        assert screen.port.seq == first + 1
        await pilot.press("comma")
        assert screen.port.seq == first
        await pilot.press("slash", *"no such thing", "enter")
        assert "not found here" in text_of(app)
        await pilot.press("4", "slash", *"blocks.1/relu", "enter")
        assert screen.selection.node == 5


async def test_search_by_address_and_number(session):
    from npudbg.tui.sources import Commands

    source = Commands(session)
    row = session.command(100)
    found = source.find(hex(int(row["dst"])), 90, 1)
    assert found is not None
    hit = session.command(found)
    assert int(hit["dst"]) <= int(row["dst"]) < int(hit["dst"]) + int(hit["nbytes"])
    assert source.find("123", 0, 1) == 123
    assert source.find("mac", 100, -1) < 100
    assert source.find("zzz", 0, 1) is None


async def test_help_palette_and_explain(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("question_mark")
        assert isinstance(app.screen, TextScreen)
        assert "step: one command" in text_of(app)
        await pilot.press("escape", "e")
        assert isinstance(app.screen, TextScreen)
        await pilot.press("q", "p")
        await pilot.pause()
        assert not isinstance(app.screen, DebuggerScreen)
        await pilot.press(*"blocks.4/conv2")
        await pilot.pause(0.3)
        assert "/backbone/blocks.4/conv2/Conv" in text_of(app)
        await pilot.press("escape", "escape")


async def test_palette_goes_to_a_node(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("p", *"node /backbone/blocks.0/relu1")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert isinstance(app.screen, DebuggerScreen)
        assert app.screen.selection.node == 1


@SIZES
async def test_quit(session_file, open_app, size):
    app = open_app(session_file)
    async with app.run_test(size=size) as pilot:
        await pilot.press("q")
    assert not app.is_running
    app = open_app(session_file)
    async with app.run_test(size=size) as pilot:
        await pilot.press("colon", "q", "enter")
    assert not app.is_running


async def test_resize_goes_from_tabs_to_grid_and_back(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL) as pilot:
        assert sum(p.display for p in app.screen.panes) == 1
        await pilot.resize_terminal(*LARGE)
        await pilot.pause()
        assert sum(p.display for p in app.screen.panes) == 5
        await pilot.press("z")
        assert sum(p.display for p in app.screen.panes) == 1
        await pilot.press("z")
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert sum(p.display for p in app.screen.panes) == 1
        for number in "0123456":
            await pilot.press(number)
            await pilot.pause()


@SIZES
async def test_hostile_names_are_data(hostile_file, open_app, size):
    app = open_app(hostile_file)
    async with app.run_test(size=size) as pilot:
        for keys in ("0", "1", "2", "3", "4", "home", "5", "right_square_bracket",
                     "question_mark", "escape", "p", "escape"):  # fmt: skip
            await pilot.press(keys)
            await pilot.pause()
            shown = text_of(app)
            assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
        await pilot.press("0", "end")
        await pilot.pause()
        assert "[red]x[/]" in text_of(app)


async def test_every_key_has_an_action_and_an_id_of_its_own(session_file, open_app):
    app = open_app(session_file)
    async with app.run_test(size=SMALL):
        screen = app.screen
        assert len({k.id for k in keymap.KEYS}) == len(keymap.KEYS)
        for key in keymap.KEYS:
            name = key.action.split("(")[0]
            owner = app if name.startswith("app.") else screen
            assert hasattr(owner, "action_" + name.removeprefix("app.")), key.action


def test_no_function_key_is_the_only_way():
    for key in keymap.KEYS:
        names = key.keys.split(",")
        assert any(not (n.split("+")[-1][:1] == "f" and n.split("+")[-1][1:].isdigit())
                   for n in names)  # fmt: skip


async def test_a_users_keymap(session_file, open_app):
    app = open_app(session_file, keys={"step": "x"})
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("x")
        assert app.screen.port.executed == ["s"]


class Broken(FakeDebugger):
    def memory(self, space, address, nbytes):
        raise ValueError("no such memory \x1b[2J")


async def test_a_failing_memory_is_a_line(session_file, open_app):
    with Session.open(session_file) as session:
        app = open_app(session_file, port=Broken(session))
        async with app.run_test(size=SMALL) as pilot:
            await pilot.press("3")
            await pilot.pause()
            assert "no such memory ?[2J" in text_of(app)


async def test_a_session_without_commands(tmp_path, open_app):
    from npudbg.session.records import Meta, Verdict
    from npudbg.session.writer import SessionWriter

    writer = SessionWriter(tmp_path / "empty.npudbg")
    writer.set_meta(Meta(target="generic"))
    writer.set_verdict(Verdict(layer=2, code="I210", summary="rank 3 where 4 is expected"))
    path = writer.close(status="not-run")
    for size in (SMALL, LARGE):
        app = open_app(path)
        async with app.run_test(size=size) as pilot:
            for key in "0123456snScbwtuo.]e":
                await pilot.press({".": "full_stop", "]": "right_square_bracket"}.get(key, key))
                await pilot.pause()
            await pilot.press("escape", "escape", "3")
            assert "no commands" in head(app)
