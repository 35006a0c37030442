"""`set`: what it asks of a forker, and what a forker makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from npudbg import cli
from npudbg.commands.demo import run_case
from npudbg.commands.forker import forker, free_name
from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.teaching import CASES, load
from npudbg.debugger.forks import Forked
from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind
from npudbg.session.errors import UserError
from npudbg.session.lines import line
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
    """A forker that keeps what it was asked, and refuses the fault `no`."""

    def __init__(self) -> None:
        self.changes: list[Changes] = []

    def __call__(self, changes: Changes) -> Forked:
        if "no" in changes.faults:
            raise UserError("no such fault")
        self.changes.append(changes)
        return Forked(Path("x.npudbg"), (line("what differs"),))


def said(interpreter: Interpreter, text: str) -> str:
    return "\n".join(each.text for each in interpreter.execute(text))


def test_changes_add_up_until_they_are_cleared(session: Session, tmp_path: Path) -> None:
    asked = Asked()
    debugger = Interpreter(session, forker=asked)
    said(debugger, "goto 9")
    out = said(debugger, "set sram:0x100 = 01 02")
    assert "what differs" in out and "x.npudbg" in out and not debugger.failed
    poke = Poke(after=9, space="sram", address=0x100, data=b"\1\2")
    assert asked.changes[-1] == Changes(pokes=(poke,))
    said(debugger, "goto 12")
    said(debugger, "set ddr:0x40000000+4 = ^f32:-0")
    flip = Poke(after=12, space="ddr", address=0x4000_0000, data=b"\0\0\0\x80", flip=True)
    assert asked.changes[-1].pokes == (poke, flip)
    said(debugger, "set precision /stem/bn fp32")
    said(debugger, "set fault hang:node=/fc")
    np.save(tmp_path / "gap.npy", np.ones((1, 32, 1, 1), "f4"))
    said(debugger, f"set tensor gap = {tmp_path / 'gap.npy'}")
    said(debugger, f"set tensor image@ddr = {tmp_path / 'gap.npy'}")
    last = asked.changes[-1]
    assert (last.pokes, last.raised) == ((poke, flip), {"/stem/bn"})
    assert last.faults == ("hang:node=/fc",)
    assert list(last.replace) == ["gap", "image"]
    listed = said(debugger, "set")
    for part in ("sram:0x00000100 = 01 02 after command 9", "^= 00 00 00 80", "/stem/bn", "gap"):
        assert part in listed
    said(debugger, "set nofault hang")
    assert (asked.changes[-1].faults, asked.changes[-1].without) == ((), ())
    said(debugger, "set nofault lost-interrupt")
    assert asked.changes[-1].without == ("lost-interrupt",)
    said(debugger, "set clear")
    assert "no changes" in said(debugger, "set")
    assert len(asked.changes) == 8


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
def test_mistakes_change_nothing(session: Session, text: str, error: str) -> None:
    asked = Asked()
    debugger = Interpreter(session, forker=asked)
    assert error in said(debugger, text)
    assert debugger.failed and not asked.changes
    assert debugger.context.changes == Changes()


def test_without_a_forker_it_says_so(session: Session) -> None:
    debugger = Interpreter(session)
    assert "npudbg fork" in said(debugger, "set sram:0x100 = 01")
    assert debugger.failed


def test_replay_forks_beside_the_session(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["replay", str(session.path), "-ex", "set fault hang:node=/fc", "-ex", "set nofault"]
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    assert "status complete | hung" in out and "T310" in out
    assert "equal: 54 commands" in out  # without it again
    first, second = (session.path.with_name(f"run.fork{n}.npudbg") for n in (1, 2))
    with Session.open(first) as hung, Session.open(second) as clean:
        assert hung.status == "hung" and clean.status == "complete"


def test_names_of_forks(tmp_path: Path, session: Session) -> None:
    assert free_name(session.path) == tmp_path / "run.fork1.npudbg"
    (tmp_path / "run.fork1.npudbg").touch()
    assert free_name(session.path) == tmp_path / "run.fork2.npudbg"


def test_only_the_simulated_device_runs_again(session: Session) -> None:
    import msgspec

    assert forker(session) is not None
    session.__dict__["meta"] = msgspec.structs.replace(session.meta, backend="attached")
    assert forker(session) is None


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
