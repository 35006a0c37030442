"""The plugins' verbs through the real command line: exit codes, one line for an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from graph_session import write

DATA = Path(__file__).parents[2] / "data" / "elf"


def npudbg(*args) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npudbg", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_elf_exit_codes(tmp_path):
    page = tmp_path / "lib.so"
    page.write_text("<!DOCTYPE html><title>404</title>")
    assert npudbg("elf", DATA / "brisc.elf").returncode == 0
    assert npudbg("elf", DATA / "brisc.elf", page).returncode == 1
    wrong = npudbg("elf", tmp_path / "none")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.count("\n") == 1 and "Traceback" not in wrong.stderr


def test_graph_exit_codes(tmp_path):
    bad = npudbg("graph", write(tmp_path / "bad.npudbg"))
    assert bad.returncode == 1 and "NaN origin" in bad.stdout
    assert npudbg("graph", write(tmp_path / "ok.npudbg", nan=())).returncode == 0
    cut = tmp_path / "cut.npudbg"
    data = (tmp_path / "ok.npudbg").read_bytes()
    cut.write_bytes(data[: len(data) // 4])
    wrong = npudbg("graph", cut)
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1 and "Traceback" not in wrong.stderr


@pytest.mark.parametrize("verb", ["elf", "graph"])
def test_help_of_a_plugin_verb(verb):
    done = npudbg(verb, "--help")
    assert done.returncode == 0 and f"npudbg {verb}" in done.stdout


def test_a_closed_pipe_is_quiet():
    done = subprocess.run(
        f"{sys.executable} -m npudbg elf --sections {DATA / 'brisc.elf'} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ELF32 RISCV EXEC" in done.stdout and done.stderr == ""
