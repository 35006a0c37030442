"""The command line: verbs, exit codes, one line for whatever goes wrong, and what it imports."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import types
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from npudbg import __version__, cli
from npudbg.commands import table
from npudbg.session.errors import UserError

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "onnx", "onnxruntime", "textual", "rich", "msgspec", "pluggy", "sqlite3")


def npudbg(
    *argv: str, env: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npudbg", *argv],
        env={**os.environ, **(env or {})},
        capture_output="stdout" not in options,
        text=True,
        check=False,
        timeout=120,
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A verb `fake` whose behaviour a test sets."""
    module = types.ModuleType("fake_verb")
    module.prepare_parser = lambda parser: parser.add_argument("files", nargs="*")  # type: ignore[attr-defined]
    module.run = lambda args: 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_verb", module)
    monkeypatch.setitem(table.VERBS, "fake", ("fake_verb", "a verb"))
    return module


def raising(error: BaseException) -> object:
    def run(args: argparse.Namespace) -> int:
        raise error

    return run


class TestVerbs:
    @pytest.mark.parametrize("name", table.VERBS)
    def test_each_verb_is_there_and_shows_its_help(self, name: str, capsys: object) -> None:
        module = import_module(table.VERBS[name][0])
        assert callable(module.prepare_parser) and callable(module.run)
        assert cli.main([name, "--help"]) == 0
        assert f"usage: npudbg {name}" in capsys.readouterr().out  # type: ignore[attr-defined]

    def test_help_lists_each_verb_and_those_of_plugins(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main(["--help"]) == 0
        out = capsys.readouterr().out
        for name in (*table.VERBS, "elf", "graph"):
            assert f"\n  {name} " in out
        assert max(map(len, out.splitlines())) <= 88

    def test_nothing_at_all_is_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main([]) == 2
        assert "usage: npudbg" in capsys.readouterr().out

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["--version"]) == 0
        assert capsys.readouterr().out == f"npudbg {__version__}\n"

    def test_a_plugin_verb_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["elf", "--help"]) == 0
        assert "usage: npudbg elf" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("word", "said"),
        [
            ("chekc", "did you mean check?"),
            ("zzzz", "there are run, check"),
            ("--frobnicate", "no such option"),
            ("README.md", "a file, not a verb"),
            ("\x1b[31mred", "?[31mred"),
            ("", "no such verb"),
        ],
    )
    def test_unknown_words(
        self, word: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: object
    ) -> None:
        monkeypatch.chdir(ROOT)  # type: ignore[attr-defined]
        assert cli.main([word]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1 and err.startswith("npudbg: ")


class TestErrors:
    def run(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        code = cli.main(["fake"])
        return code, capsys.readouterr().err

    def test_of_the_user(self, verb: object, capsys: pytest.CaptureFixture[str]) -> None:
        verb.run = raising(UserError("x.npy: cut after 3 bytes"))  # type: ignore[attr-defined]
        assert self.run(capsys) == (2, "npudbg: x.npy: cut after 3 bytes\n")

    def test_names_cannot_move_the_cursor(
        self, verb: object, capsys: pytest.CaptureFixture[str]
    ) -> None:
        verb.run = raising(UserError("a\x1b[2J\nb\u202e"))  # type: ignore[attr-defined]
        assert self.run(capsys) == (2, "npudbg: a?[2J?b?\n")

    def test_of_the_machine(self, verb: object, capsys: pytest.CaptureFixture[str]) -> None:
        verb.run = raising(OSError(28, "No space left on device", "s.npudbg"))  # type: ignore[attr-defined]
        assert self.run(capsys) == (2, "npudbg: s.npudbg: No space left on device\n")

    def test_a_missing_package(self, verb: object, capsys: pytest.CaptureFixture[str]) -> None:
        verb.run = raising(ModuleNotFoundError("No module named 'onnx'", name="onnx"))  # type: ignore[attr-defined]
        code, err = self.run(capsys)
        assert code == 2 and "package onnx is not installed" in err

    def test_of_npudbg_itself(
        self,
        verb: object,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        verb.run = raising(IndexError("list\nindex"))  # type: ignore[attr-defined]
        monkeypatch.delenv("NPUDBG_DEBUG", raising=False)
        code, err = self.run(capsys)
        assert code == 70
        assert err.count("\n") == 1
        assert "internal error, IndexError: list?index" in err and "NPUDBG_DEBUG=1" in err
        monkeypatch.setenv("NPUDBG_DEBUG", "1")
        code, err = self.run(capsys)
        assert code == 70 and "Traceback" in err and "internal error" in err

    @pytest.mark.parametrize(
        ("error", "code"),
        [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141), (SystemExit(3), 3)],
    )
    def test_silent_ends(
        self, verb: object, error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        verb.run = raising(error)  # type: ignore[attr-defined]
        assert self.run(capsys) == (code, "")

    def test_wrong_arguments_are_one_line(
        self, verb: object, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main(["fake", "--what\x07"]) == 2
        err = capsys.readouterr().err
        assert err == "npudbg fake: unrecognized arguments: --what?; see npudbg fake --help\n"

    def test_warnings_for_programmers_are_not_shown(
        self, verb: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "warnoptions", [])
        verb.run = lambda args: warnings.warn("overflow in exp", RuntimeWarning, 1) or 0  # type: ignore[attr-defined]
        with warnings.catch_warnings(record=True) as seen:
            assert self.run(capsys) == (0, "")
            assert seen == []

    def test_the_exit_code_is_the_verbs(
        self, verb: object, capsys: pytest.CaptureFixture[str]
    ) -> None:
        verb.run = lambda args: 1  # type: ignore[attr-defined]
        assert self.run(capsys) == (1, "")


class TestProcess:
    def test_a_reader_that_leaves_is_no_error(self) -> None:
        read, write = os.pipe()
        os.close(read)
        try:
            done = npudbg("explain", "--list", stdout=write, stderr=subprocess.PIPE)
        finally:
            os.close(write)
        assert (done.returncode, done.stderr) == (141, "")

    def test_closed_stdout(self) -> None:
        line = f'"{sys.executable}" -m npudbg explain --list >&-'
        done = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, check=False, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
    def test_terminals_that_are_not_utf8(self, encoding: str) -> None:
        done = npudbg("explain", "--list", env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
        assert done.returncode == 0 and done.stdout.isascii()

    @pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
    def test_completion(self, shell: str) -> None:
        done = npudbg("--print-completion", shell)
        assert done.returncode == 0, done.stderr
        assert "replay" in done.stdout and "elf" in done.stdout

    def test_completion_is_correct_bash(self) -> None:
        script = npudbg("--print-completion=bash").stdout
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0

    def test_completion_for_an_unknown_shell(self) -> None:
        done = npudbg("--print-completion", "fish")
        assert done.returncode == 2 and "bash, zsh, tcsh" in done.stderr


def imported(code: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has after running ``code``."""
    script = f"import sys\n{code}\nprint('\\n'.join({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.rsplit("=====\n", 1)[-1].split())


class TestImports:
    @pytest.mark.parametrize("argv", [["--help"], ["--version"]])
    def test_help_and_version_load_nothing_heavy(self, argv: list[str]) -> None:
        loaded = imported(f"from npudbg.cli import main\nmain({argv!r})\nprint('=====')")
        assert not loaded.intersection((*HEAVY, "argparse", "typing", "npudbg_elf"))
        assert "npudbg" in loaded

    @pytest.mark.parametrize("name", table.VERBS)
    def test_a_verbs_help_loads_nothing_heavy(self, name: str) -> None:
        loaded = imported(
            f"from npudbg.cli import main\nassert main([{name!r}, '--help']) == 0\nprint('=====')"
        )
        assert not loaded.intersection(HEAVY)

    def test_replay_needs_no_model_runtime(self, tmp_path: Path) -> None:
        from npudbg.session.records import Meta
        from npudbg.session.writer import SessionWriter

        path = tmp_path / "empty.npudbg"
        writer = SessionWriter(path)
        writer.set_meta(Meta())
        writer.close()
        argv = ["replay", str(path), "--batch", "-ex", "info findings"]
        loaded = imported(
            f"from npudbg.cli import main\nassert main({argv!r}) == 0\nprint('=====')"
        )
        assert "numpy" in loaded
        assert not loaded.intersection(("onnx", "onnxruntime", "textual"))
