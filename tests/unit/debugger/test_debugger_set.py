"""`set`: what it asks of a forker, and what a forker makes of it."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from npudbg import cli
from npudbg.commands.demo import run_case
from npudbg.commands.forker import Device, free_name
from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.teaching import CASES, load
from npudbg.debugger.forks import Forked
from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind
from npudbg.session.errors import CancelledError, UserError
from npudbg.session.lines import Line, line
from npudbg.session.reader import Session
from npudbg.session.rerun import Changes, Poke
from npudbg.targets.loader import load as target_named


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A clean run of today's libraries: saved ones may differ in the last bits."""
    path = run_case("clean", save=str(tmp_path_factory.mktemp("made") / "run.npudbg")).path
    return path.read_bytes()


@pytest.fixture
def session(tmp_path: Path, made: bytes) -> Iterator[Session]:
    path = tmp_path / "run.npudbg"
    path.write_bytes(made)
    with Session.open(path) as opened:
        yield opened


class Asked:
    """A forker that keeps what it was asked, and refuses the fault `no`.

    Its forks are the session again.
    """

    keep = True

    def __init__(self) -> None:
        self.changes: list[Changes] = []
        self.of: list[str] = []

    def fork(self, session: Session, changes: Changes, **_: object) -> Forked:
        if "no" in changes.faults:
            raise UserError("no such fault")
        self.changes.append(changes)
        self.of.append(session.path.name)
        path = session.path.with_name(f"x{len(self.changes)}.npudbg")
        shutil.copyfile(session.path, path)
        return Forked(path, (line("what differs"),))

    def compare(self, a: Session, b: Session) -> list[Line]:
        return [line(f"{a.path.name} beside {b.path.name}")]


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def debugger(session: Session, asked: Asked) -> Iterator[Interpreter]:
    with contextlib.closing(Interpreter(session, forker=asked)) as interpreter:
        yield interpreter


def said(interpreter: Interpreter, text: str) -> str:
    return "\n".join(each.text for each in interpreter.execute(text))


def test_each_set_forks_where_one_stands(
    debugger: Interpreter, asked: Asked, tmp_path: Path
) -> None:
    said(debugger, "goto 9")
    out = said(debugger, "set sram:0x100 = 01 02")
    assert "what differs" in out and "x1.npudbg" in out and not debugger.failed
    poke = Poke(after=9, space="sram", address=0x100, data=b"\1\2")
    assert asked.changes[-1] == Changes(pokes=(poke,))
    said(debugger, "goto 12")
    said(debugger, "set ddr:0x40000000+4 = ^f32:-0")
    flip = Poke(after=12, space="ddr", address=0x4000_0000, data=b"\0\0\0\x80", flip=True)
    assert asked.changes[-1] == Changes(pokes=(flip,))
    said(debugger, "set precision /stem/bn fp32")
    assert asked.changes[-1].raised == {"/stem/bn"}
    np.save(tmp_path / "gap.npy", np.ones((1, 32, 1, 1), "f4"))
    said(debugger, f"set tensor gap = {tmp_path / 'gap.npy'}")
    assert list(asked.changes[-1].replace) == ["gap"]
    said(debugger, f"set tensor image@ddr = {tmp_path / 'gap.npy'}")
    assert list(asked.changes[-1].replace) == ["image"]
    said(debugger, "set fault hang:node=/fc")
    assert asked.changes[-1] == Changes(faults=("hang:node=/fc",))
    said(debugger, "set nofault hang")
    assert asked.changes[-1] == Changes(without=("hang",))
    said(debugger, "set nofault")
    assert asked.changes[-1] == Changes(without=("all",))
    # Each is a fork of the one before, so that what was changed stays changed.
    assert asked.of == ["run.npudbg", *(f"x{n}.npudbg" for n in range(1, 8))]
    listed = said(debugger, "set").splitlines()
    assert listed == [
        "changes to the recorded run",
        "  sram:0x00000100 = 01 02 after command 9",
        "  ddr:0x40000000 ^= 00 00 00 80 after command 12",
        "  precision /stem/bn fp32",
        "  tensor gap = values of a file",
        "  tensor image = values of a file",
        "  fault hang:node=/fc",
        "  nofault hang",
        "  nofault all",
    ]
    assert "session 1  as recorded" in said(debugger, "set clear")
    assert "no changes" in said(debugger, "set")
    assert debugger.seq == 9 and len(asked.changes) == 8


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("set sram:0x100", "set what?"),
        ("set sram:0x100 =", "expected bytes"),
        ("set sram:0x100+4 = 01", "1 bytes for a range of 4"),
        ("set host:0x100 = 01", "only sram and ddr"),
        ("set bogus = 1", "set what?"),
        ("set tensor gap", "expected set tensor"),
        ("set tensor gapp = x.npy", "did you mean gap"),
        ("set tensor gap[0] = x.npy", "only a whole tensor"),
        ("set tensor gap = /no/x.npy", "x.npy"),
        ("set precision /stem/bn fp64", "expected set precision"),
        ("set precision /stem fp32", "no node"),
        ("set fault", "set fault what?"),
        ("set fault no", "no such fault"),
    ],
)
def test_mistakes_change_nothing(
    debugger: Interpreter, asked: Asked, text: str, error: str
) -> None:
    assert error in said(debugger, text)
    assert debugger.failed and not asked.changes
    assert len(debugger.sessions.all) == 1


def test_without_a_forker_it_says_so(session: Session) -> None:
    debugger = Interpreter(session)
    assert "npudbg fork" in said(debugger, "set sram:0x100 = 01")
    assert debugger.failed


def test_replay_forks_beside_the_session(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["replay", str(session.path), "-ex", "set fault hang:node=/fc", "-ex", "set nofault",
            "-ex", "compare 1"]  # fmt: skip
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    assert "status complete | hung" in out and "T310" in out
    assert "status hung | complete" in out
    assert "session 1 | session 3\nequal: 54 commands" in out  # without it again
    first, second = (session.path.with_name(f"run.fork{n}.npudbg") for n in (1, 2))
    with Session.open(first) as hung, Session.open(second) as clean:
        assert hung.status == "hung" and clean.status == "complete"


def test_an_interrupt_leaves_nothing(session: Session) -> None:
    def progress(done: int, total: int, label: str) -> None:
        if done == 6:
            raise KeyboardInterrupt

    before = sorted(session.path.parent.iterdir())
    with pytest.raises(KeyboardInterrupt):
        Device().fork(session, Changes(), progress=progress)
    assert sorted(session.path.parent.iterdir()) == before


def test_forks_of_a_run_that_is_not_kept_go_with_it(session: Session) -> None:
    device = Device(keep=False)
    with contextlib.closing(Interpreter(session, forker=device)) as debugger:
        out = said(debugger, "set fault hang:node=/fc")
        fork = session.path.with_name("run.fork1.npudbg")
        assert f"file {fork}  removed at the end; --save keeps a run and its forks" in out
        assert fork.is_file()
    device.forget()
    assert sorted(session.path.parent.iterdir()) == [session.path]


def test_names_of_forks(tmp_path: Path, session: Session) -> None:
    assert free_name(session.path) == tmp_path / "run.fork1.npudbg"
    (tmp_path / "run.fork1.npudbg").touch()
    assert free_name(session.path) == tmp_path / "run.fork2.npudbg"
    assert free_name(tmp_path / "run.fork1.npudbg") == tmp_path / "run.fork2.npudbg"


def test_only_the_simulated_device_runs_again(session: Session) -> None:
    import msgspec

    session.__dict__["meta"] = msgspec.structs.replace(session.meta, backend="attached")
    with pytest.raises(UserError, match="recorded from attached"):
        Device().fork(session, Changes())


def test_a_run_that_is_stopped_leaves_nothing(session: Session) -> None:
    cancel, seen = threading.Event(), []

    def progress(done: int, total: int, label: str) -> None:
        seen.append((done, total))
        if done == 6:
            cancel.set()

    before = sorted(session.path.parent.iterdir())
    with pytest.raises(CancelledError, match="nothing of the run was kept"):
        Device().fork(session, Changes(), progress=progress, cancel=cancel)
    assert sorted(session.path.parent.iterdir()) == before
    # It ended before the next of the 15 nodes.
    assert seen[-1] == (6, 15)
    forked = Device().fork(session, Changes(), progress=lambda *_: None, cancel=threading.Event())
    assert forked.path.is_file() and forked.lines[0].text.startswith("equal: 54 commands")


def test_a_damaged_weight_is_shown_where_it_is_first_loaded(tmp_path: Path) -> None:
    graph, arrays = load(CASES["clean"])
    fault = "nan-weight:tensor=fc.weight,index=3"
    job = Job(model="demo:clean", faults=(fault,), save=str(tmp_path / "w.npudbg"))
    path = judge_run(job, graph, target_named("generic"), arrays).path
    with Session.open(path) as damaged:
        inside = Interpreter(damaged)
        inside.execute("goto finding T347")
        rows = damaged.commands(0, damaged.n_commands)
        mine = rows[rows["tensor"] == damaged.tensor("fc.weight").id]
        assert inside.seq == mine["seq"][0]
        assert mine["kind"][0] == Kind.DMA_LOAD
