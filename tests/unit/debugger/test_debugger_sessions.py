"""A session and its forks: what comes along, and how one goes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_debugger_set import said

from npudbg.commands.demo import run_case
from npudbg.commands.forker import Device
from npudbg.debugger.alike import Alike
from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind
from npudbg.session.reader import Session


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_case("clean", save=str(tmp_path_factory.mktemp("sessions") / "run.npudbg")).path


@pytest.fixture
def debugger(folder: Path, tmp_path: Path) -> Iterator[Interpreter]:
    path = tmp_path / "run.npudbg"
    path.write_bytes(folder.read_bytes())
    with (
        Session.open(path) as session,
        contextlib.closing(Interpreter(session, forker=Device())) as interpreter,
    ):
        yield interpreter


def test_what_was_set_up_comes_along(debugger: Interpreter) -> None:
    for text in (
        "goto 9", "break /pool", "b 30 if nbytes > 0", "watch scores", "ignore 1 2",
        "watch -l sram:0x100+4", "display max(abs(out))", "bookmark here", "disable 4",
    ):  # fmt: skip
        said(debugger, text)
        assert not debugger.failed, text
    before = said(debugger, "info breakpoints")
    parent = debugger.context
    shown = said(debugger, "set sram:0x100 = f32:nan")
    assert debugger.session is not parent.session
    assert debugger.seq == 9 and "1: p max(abs(out))  = " in shown
    assert said(debugger, "info breakpoints") == before
    assert said(debugger, "info bookmarks") == "       9  here"
    # They stand on the fork, not on the parent: the stop is met there.
    said(debugger, "ignore 1 0")
    assert "STOP breakpoint 1: node 7 /pool" in said(debugger, "c")
    assert parent.cursor.seq == 9
    # What is set in the fork goes back with one; the parent's cursor is where it was.
    said(debugger, "b kind DMA_STORE")
    said(debugger, "undisplay")
    out = said(debugger, "session parent")
    assert debugger.context is parent and debugger.seq == 9
    assert "session 1  as recorded" in out and "p max" not in out
    assert "5 breakpoint kind DMA_STORE" in said(debugger, "info breakpoints")
    assert said(debugger, "b 3") == "breakpoint 6: command 3"


def test_the_list_of_sessions(debugger: Interpreter) -> None:
    run = debugger.session.path
    said(debugger, "set fault hang:node=/fc")
    said(debugger, "set clear")
    said(debugger, "goto 9")
    said(debugger, "set sram:0x6c00 = f32:nan")
    listed = said(debugger, "info sessions").splitlines()
    assert listed[:2] == [
        "  session 1  as recorded  complete  nothing at fault",
        f"    file {run}",
    ]
    assert listed[2].startswith("  session 2  fork of 1  hung  layer 3: T310 ")
    assert len(listed[2]) <= 100
    assert listed[3:5] == [
        "    set fault hang:node=/fc",
        f"    file {run.with_name('run.fork1.npudbg')}",
    ]
    # A NaN written into the batch norm's output becomes every score's.
    assert listed[5].startswith("> session 3  fork of 1  complete  layer 3: T34")
    assert "    set sram:0x00006c00 = 00 00 c0 7f after command 9" in listed
    assert len(listed) == 8
    assert said(debugger, "session").startswith("session 3  fork of 1")
    assert said(debugger, "info se") == "\n".join(listed)


def test_a_command_that_the_fork_does_not_have(debugger: Interpreter) -> None:
    # The softmax's kernel: a device that hung before it never got there.
    last = 51
    said(debugger, f"goto {last}")
    said(debugger, "bookmark done")
    said(debugger, "b")
    assert Kind(int(debugger.context.row()["kind"])) == Kind.KERNEL
    out = said(debugger, "set fault hang:node=/fc")
    assert f"the fork has no command such as {last}: you stand at " in out
    assert "bookmarks without a command in the fork: done" in out
    assert f"breakpoint 1 stops nowhere here: no command does what {last} did" in out
    # The last one that both have: from there on they part.
    with Session.open(debugger.sessions.get(1).context.session.path) as a:
        b = debugger.session
        at = debugger.seq
        for column in ("kind", "node", "tensor", "src", "dst", "nbytes"):
            assert a.commands(0, at + 1)[column].tolist() == b.commands(0, at + 1)[column].tolist()
        assert at + 1 == b.n_commands or int(a.command(at + 1)["kind"]) != int(
            b.command(at + 1)["kind"]
        )
    assert "not in this session" in said(debugger, "info breakpoints")
    said(debugger, "session 1")
    assert debugger.seq == last and debugger.context.cursor.bookmarks == {"done": last}
    assert f"breakpoint command {last}" in said(debugger, "info breakpoints")
    assert "not in this session" not in said(debugger, "info breakpoints")


def test_commands_are_found_where_their_numbers_moved(debugger: Interpreter) -> None:
    said(debugger, "set precision /stem/bn fp32")
    a, b = debugger.sessions.get(1).context.session, debugger.session
    alike = Alike(a, b)
    found = [alike.counterpart(seq) for seq in range(a.n_commands)]
    assert [f for f in found if f is None] == [] or alike.parting < a.n_commands
    for seq, other in enumerate(found):
        if other is None:
            continue
        one, two = a.command(seq), b.command(other)
        assert int(one["kind"]) == int(two["kind"])
        assert int(one["tile"]) == int(two["tile"])
        names = [
            (
                s.nodes[int(r["node"])].label if int(r["node"]) >= 0 else "",
                s.tensors[int(r["tensor"])].name if int(r["tensor"]) >= 0 else "",
            )
            for s, r in ((a, one), (b, two))
        ]
        assert names[0] == names[1]
    # Each is found once, and a session's own commands are themselves.
    there = [f for f in found if f is not None]
    assert len(there) == len(set(there))
    assert [Alike(a, a).counterpart(n) for n in (0, 7, a.n_commands - 1)] == [
        0, 7, a.n_commands - 1,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("session 2", "no session 2; there is only 1; set makes forks"),
        ("session x", "expected a whole number"),
        ("session parent", "it has no parent"),
        ("compare", "compare with which session?"),
        ("compare 1", "compare with which session?"),
    ],
)
def test_mistakes(debugger: Interpreter, text: str, error: str) -> None:
    assert error in said(debugger, text)
    assert debugger.failed


def test_help_and_completion(debugger: Interpreter) -> None:
    assert "this is a fork of" in said(debugger, "help session")
    assert "the parent, without a number" in said(debugger, "help compare")
    assert "info sessions" in said(debugger, "info")
    assert debugger.completions("session ") == []
    said(debugger, "set sram:0x100 = 00")
    assert debugger.completions("session ") == ["session 1", "session parent"]
    assert debugger.completions("compare p") == ["compare parent"]
    assert debugger.completions("info ses") == ["info sessions"]
    assert debugger.completions("set precision /fc") == ["set precision /fc fp32"]
    assert debugger.completions("set tensor lo") == ["set tensor logits"]
