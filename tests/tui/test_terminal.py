"""The program on a real pseudo-terminal: bytes that it sends, and colours that it does not."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("idle_program.py")


class Terminal:
    def __init__(self, master: int) -> None:
        self.master = master

    def read(self, quiet: float, limit: float = 20.0) -> bytes:
        """Read until nothing came for ``quiet`` seconds."""
        data, end = b"", time.monotonic() + limit
        while time.monotonic() < end:
            if not select.select([self.master], [], [], quiet)[0]:
                return data
            try:
                part = os.read(self.master, 1 << 16)
            except OSError:
                return data
            if not part:
                return data
            data += part
        raise AssertionError("the program never came to rest")

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)


@contextmanager
def terminal(session: Path, columns: int, rows: int, **environ: str):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TEXTUAL", "NO_COLOR", "SSH"))}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environ}
    child = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(session)],
        stdin=slave, stdout=slave, stderr=subprocess.STDOUT, env=env, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        shown = Terminal(master)
        first = b""
        end = time.monotonic() + 30
        # Until the last line of the first picture has come.
        while b"help" not in first and time.monotonic() < end:
            first += shown.read(0.5)
        shown.first = first + shown.read(1.0)
        yield shown, child
    finally:
        child.kill()
        child.wait()
        os.close(master)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 48)])
def test_idle_sends_not_one_byte(session_file, columns, rows):
    with terminal(session_file, columns, rows) as (shown, child):
        assert b"O401" in shown.first
        assert not select.select([shown.master], [], [], 2.5)[0], shown.read(0.2)
        # With the prompt open there is no blinking either.
        shown.type(b":")
        shown.read(0.5)
        assert not select.select([shown.master], [], [], 1.5)[0], shown.read(0.2)
        shown.type(b"\x1b")
        time.sleep(0.3)
        shown.read(0.5)
        shown.type(b"q")
        shown.read(0.5)
        assert child.wait(timeout=10) == 0


def test_a_step_and_a_page_are_cheap(session_file):
    with terminal(session_file, 80, 24) as (shown, _):
        shown.type(b"3")
        shown.read(0.5)
        shown.type(b"j")
        step = shown.read(0.5)
        shown.type(b"\x1b[6~")
        page = shown.read(0.5)
        assert 0 < len(step) < 6_000
        assert 0 < len(page) < 12_000


def test_no_color_sends_no_colour(session_file):
    with terminal(session_file, 80, 24, NO_COLOR="1") as (shown, _):
        sequences = re.findall(rb"\x1b\[([0-9;:]*)m", shown.first)
        assert sequences
        for each in sequences:
            codes = [int(c or 0) for c in re.split(rb"[;:]", each)]
            # 39 and 49 are the terminal's own colours; 0-9, 22-29 are attributes.
            assert all(c < 30 or c in (39, 49) for c in codes), each
        assert b"AT FAULT" in shown.first


def test_ctrl_c_leaves_and_restores_the_screen(session_file):
    with terminal(session_file, 80, 24) as (shown, child):
        shown.type(b"\x03")
        rest = shown.read(0.5)
        assert child.wait(timeout=10) == 0
        assert b"\x1b[?1049l" in rest


def test_a_line_in_one_packet_is_a_line(session_file):
    # Over a slow line the keys that were typed come together; none of them is a pane's key.
    with terminal(session_file, 80, 24) as (shown, child):
        shown.type(b":goto 17\rgoto 12\r")
        assert b"cmd 12/" in shown.read(0.7)
        for keys in (b"goto 9:", b"\x7f", b"\r"):  # at the prompt a colon is a colon
            shown.type(keys)
            after = shown.read(0.7)
        assert b"cmd 9/" in after
        shown.type(b"\x1b")
        time.sleep(0.3)
        shown.read(0.5)
        shown.type(b"q")
        shown.read(0.5)
        assert child.wait(timeout=10) == 0
