"""`npudbg replay` as a process: scripts, exit codes, the plain prompt."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from npudbg.session.writer import SessionWriter


def replay(*args, stdin="", **more):
    return subprocess.run(
        [sys.executable, "-m", "npudbg", "replay", *map(str, args)],
        capture_output=True, text=True, check=False, input=stdin, timeout=60, **more,
    )  # fmt: skip


def test_commands_and_scripts_in_their_order(made, tmp_path):
    script = tmp_path / "s.gdb"
    script.write_text("# to the second node\nb node1\nc\n")
    done = replay(made.path, "--batch", "-ex", "goto 2", "-x", script, "-ex", "p node", "-ex", "q",
                  "-ex", "nonsense")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("> ") and "      2 " in lines[0]
    assert "STOP breakpoint 1" in done.stdout
    assert lines[-1] == "= node1 (1)"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-ex", "goto 2", "-ex", "nonsense"], "-ex 2: nonsense: no verb"),
        (["-x", "/nonexistent/script"], "no such script"),
        (["-ex"], "expected one argument"),
    ],
)
def test_a_failing_command_is_one_line_and_exit_2(made, args, words):
    done = replay(made.path, "--batch", *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_failing_script_says_its_line(made, tmp_path):
    script = tmp_path / "bad.gdb"
    script.write_text("where\n\np 1 +\n")
    done = replay(made.path, "-x", script)
    assert done.returncode == 2
    assert "bad.gdb:3: p 1 +: expected a value, got the end" in done.stderr


@pytest.mark.parametrize("content", [None, b"", b"text", b"SQLite format 3\0" + bytes(200)])
def test_what_is_no_session_is_one_line_and_exit_2(tmp_path, content):
    path = tmp_path / "bad.npudbg"
    if content is not None:
        path.write_bytes(content)
    done = replay(path, "--batch", "-ex", "where")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "bad.npudbg" in done.stderr


def test_commands_from_a_pipe(made):
    done = replay(made.path, stdin="goto 3\n\nwhen\n")
    assert done.returncode == 0
    assert "command 3 of 0.." in done.stdout
    done = replay(made.path, stdin="goto 3\nwhat\n")
    assert done.returncode == 2
    assert "stdin:2: what" in done.stderr


def at_the_prompt(path, keys):
    """Return what a plain prompt on a terminal shows for these keys."""
    host, guest = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "npudbg", "replay", str(path)],
        stdin=guest, stdout=guest, stderr=guest, env={**os.environ, "TERM": "dumb"},
    )  # fmt: skip
    os.close(guest)
    os.write(host, keys)
    shown = b""
    try:
        while part := os.read(host, 4096):
            shown += part
    except OSError:
        pass
    assert process.wait(30) == 0
    os.close(host)
    return shown.decode()


def test_a_dumb_terminal_gets_the_plain_prompt(made):
    text = at_the_prompt(made.path, b"s\n\np 1 +\nwhen\nq\n")
    assert "(npudbg 2) " in text
    assert "expected a value" in text
    assert "command 2 of 0.." in text
    assert "\x1b" not in text


def test_a_fork_at_the_plain_prompt(tmp_path):
    from npudbg.commands.demo import run_case

    path = run_case("clean", save=str(tmp_path / "run.npudbg")).path
    text = at_the_prompt(path, b"goto 9\nset fault hang:node=/fc\nwhen\nset clear\nq\n")
    again, fork, back = (text.index(words) for words in (
        "doing the run again; Ctrl+C stops it", "session 2  fork of 1  hung", "session 1  as rec",
    ))  # fmt: skip
    assert again < fork < text.index("command 9 of 0..49") < back
    assert text.count("doing the run again") == 1
    assert path.with_name("run.fork1.npudbg").is_file()


def test_an_empty_session(tmp_path):
    path = tmp_path / "empty.npudbg"
    SessionWriter(path).close()
    done = replay(path, "--batch", "-ex", "info findings", "-ex", "info nodes")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["no findings", "no nodes"]
    done = replay(path, "-ex", "s")
    assert done.returncode == 2
    assert "holds no commands" in done.stderr


def test_the_report_of_a_saved_run_is_the_report_of_the_run(tmp_path):
    path = tmp_path / "run.npudbg"
    demo = [sys.executable, "-m", "npudbg", "demo", "f-order", "--save", str(path)]
    ran = {
        how: subprocess.run([*demo, how], capture_output=True, text=True, check=False)
        for how in ("--headless", "--json")
    }
    for how, first in ran.items():
        again = replay(path, how)
        assert (first.returncode, again.returncode) == (1, 1)
        # Addresses are those of the second run, which was the last to be saved.
        if how == "--json":
            assert json.loads(again.stdout) == json.loads(first.stdout)
        else:
            assert again.stdout.splitlines()[1] == first.stdout.splitlines()[1]
            assert "LAYER 1 (HOST)  H101" in again.stdout
    refused = replay(path, "--json", "-ex", "where")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
