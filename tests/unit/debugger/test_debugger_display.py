"""display of what is not there yet: said in words, and the values as soon as there are some."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from test_debugger_set import said

from npudbg.commands.demo import run_case
from npudbg.commands.forker import Device
from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind
from npudbg.session.reader import Session


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_case("clean", save=str(tmp_path_factory.mktemp("display") / "run.npudbg")).path


def test_a_tensor_is_shown_from_the_command_that_makes_it(path: Path) -> None:
    with Session.open(path) as session:
        debugger = Interpreter(session)
        name = "logits"
        rows = session.commands(0, session.n_commands)
        made = rows[(rows["tensor"] == session.tensor(name).id) & (rows["kind"] == Kind.KERNEL)]
        first = int(made["seq"][0])
        values = ", ".join(f"{float(v):.9g}" for v in session.array(session.tensor(name))[0])
        said(debugger, "display logits")
        said(debugger, "display logits[0,2]")
        said(debugger, "display /1xw sram:0x0")
        for seq in range(1, session.n_commands):
            out = said(debugger, "s").splitlines()
            assert not debugger.failed and debugger.seq == seq
            at = next(n for n, text in enumerate(out) if text.startswith("1: p logits"))
            if seq < first:
                assert out[at] == (
                    f"1: p logits  logits 1x10 float32: not made yet; command {first} "
                    "(KERNEL of /fc) begins it"
                )
                assert out[at + 1].endswith("this element of logits has not been written yet")
            else:
                assert out[at : at + 3] == [
                    "1: p logits", "logits 1x10 float32", f"  [{values}]",
                ]  # fmt: skip
                assert " = 0.6" in out[at + 4]
        # Backward it goes away again.
        said(debugger, f"goto {first}")
        assert "begins it" in said(debugger, "rs")


def test_what_a_run_never_made_is_no_mistake(path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.npudbg"
    run.write_bytes(path.read_bytes())
    with (
        Session.open(run) as session,
        contextlib.closing(Interpreter(session, forker=Device())) as debugger,
    ):
        said(debugger, "display logits")
        said(debugger, "display scores[0,0]")
        for text in ("set fault hang:node=/fc", "s", "c"):
            out = said(debugger, text)
            assert not debugger.failed
            assert "1: p logits    tensor " in out and "stopped before any of it was made" in out
            assert "2: p scores[0,0]    no " in out


@pytest.mark.parametrize("text", ["display /4f sram:0x800", "display/4fw sram:0x800"])
def test_memory_is_displayed_with_any_format(path: Path, text: str) -> None:
    with Session.open(path) as session:
        debugger = Interpreter(session)
        assert "sram:0x00000800   --  --  --  --" in said(debugger, text)
        # An activation's input lies there from command 8 on.
        said(debugger, "goto 9")
        shown = said(debugger, "display").splitlines()[1].split()[1:]
        data = np.frombuffer(debugger.memory(3, 0x800, 16).data, "<f4")
        assert shown == [f"{float(v):.6g}" for v in data]
