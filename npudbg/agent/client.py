"""The agent's side of the talk: joined to a debugger, or not, and never in the way.

Two ways to be joined: the agent connects to the debugger that started the
program, or it listens and a debugger joins later.  Whatever goes wrong (no
debugger, a dead one, one that does not read) leaves the program running as if
there were none.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import place, protocol, start

CONNECT_SECONDS = 5.0
HELLO_SECONDS = 10.0
SEND_SECONDS = 60.0
BUSY_SECONDS = 1.0
"""How long a second debugger is kept waiting before it is told that there is one."""

_REPLY_LIMIT = 64 << 10


class Channel:
    """A debugger that has said hello."""

    def __init__(self, sock: socket.socket, reply: dict[str, Any]) -> None:
        self.sock = sock
        self.max_bytes = _number(reply.get("max_bytes"), 256 << 20)
        pause = reply.get("pause_seconds")
        self.pause = None if pause is None else float(_number(pause, 60))
        self.sessions: set[int] = set()
        """Sessions that this debugger has been told of."""

    def ask(self, header: dict[str, Any], payloads: list[memoryview]) -> dict[str, Any]:
        """Send an event and return the debugger's answer."""
        protocol.send(self.sock, header, payloads, SEND_SECONDS)
        answer = protocol.receive(
            self.sock, self.pause, max_header=_REPLY_LIMIT, max_payload=_REPLY_LIMIT
        )
        return answer.header


class Client:
    """Finds the debugger and carries events to it, one at a time."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.close)

    def _reset(self) -> None:
        """Begin anew, as a forked child must: threads and the talk stay with the parent."""
        self.lock = threading.RLock()
        self._channel: Channel | None = None
        self._tried = False
        self._joined = threading.Event()
        self._path: Path | None = None
        self._waited = False
        # In a child the sockets are copies: closing them says nothing to the debugger.
        for name in ("_listener", "_sock"):
            old = self.__dict__.get(name)
            if old is not None:
                with suppress(OSError):
                    old.close()
        self._listener: socket.socket | None = None
        self._sock: socket.socket | None = None

    @property
    def channel(self) -> Channel | None:
        """The debugger, joined on first use; None when there is none."""
        if self._channel is None and not self._tried:
            with self.lock:
                if not self._tried:
                    self._tried = True
                    with suppress(Exception):
                        self._begin()
        return self._channel

    def wait(self) -> None:
        """Wait, once and as long as the environment says, for a debugger to join."""
        if self._waited or self._listener is None:
            return
        self._waited = True
        with suppress(ValueError):
            seconds = float(os.environ.get(start.WAIT, "") or 0)
            if seconds > 0:
                self._joined.wait(min(seconds, 86400.0))

    def ask(self, header: dict[str, Any], payloads: list[memoryview]) -> dict[str, Any] | None:
        """Send an event, return the answer; None when there is no debugger (any more)."""
        channel = self._channel
        if channel is None:
            return None
        try:
            answer = channel.ask(header, payloads)
        except (protocol.ClosedError, protocol.ProtocolError):
            self.drop()
            return None
        except BaseException:
            # Interrupted in the middle of a frame: the two sides are out of step.
            self.drop()
            raise
        if answer.get("type") == "detach":
            self.drop()
        return answer

    def drop(self) -> None:
        """Leave the debugger; a listening agent can be joined again."""
        channel, self._channel, self._sock = self._channel, None, None
        self._joined.clear()
        if channel is not None:
            with suppress(OSError):
                channel.sock.close()

    def close(self) -> None:
        """Leave the debugger and remove the socket, at the program's end."""
        self.drop()
        if self._listener is not None and self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
                self._listener.close()

    def _begin(self) -> None:
        path = os.environ.get(start.SOCKET)
        if path:
            sock = place.connect(Path(path), CONNECT_SECONDS)
            self._greet(sock)
            return
        asked = os.environ.get(start.LISTEN, "")
        # "1" gives each process a socket of its own, so children can listen too.
        self._path = (
            place.directory() / f"{os.getpid()}.sock" if asked in ("1", "yes") else Path(asked)
        )
        self._listener = place.listen(self._path)
        thread = threading.Thread(
            target=self._accept, args=(self._listener,), name="npudbg-agent", daemon=True
        )
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while listener is self._listener:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            try:
                place.check_peer(sock)
                if self._taken():
                    protocol.send(
                        sock,
                        {"type": "busy", "version": protocol.VERSION, "pid": os.getpid()},
                        timeout=HELLO_SECONDS,
                    )
                    sock.close()
                    continue
                self._greet(sock)
            except Exception:
                sock.close()

    def _taken(self) -> bool:
        """Tell whether a debugger that still lives is joined; leave one that does not."""
        deadline = time.monotonic() + BUSY_SECONDS
        while self._channel is not None and time.monotonic() < deadline:
            # While the lock is held a call waits for its answer, and sees the end itself.
            if not self.lock.acquire(timeout=0.05):
                continue
            try:
                if self._sock is not None and _gone(self._sock):
                    self.drop()
                return self._channel is not None
            finally:
                self.lock.release()
        return self._channel is not None

    def _greet(self, sock: socket.socket) -> None:
        try:
            protocol.send(sock, _hello(), timeout=HELLO_SECONDS)
            answer = protocol.receive(
                sock, HELLO_SECONDS, max_header=_REPLY_LIMIT, max_payload=_REPLY_LIMIT
            )
            protocol.check_hello(answer)
        except BaseException:
            sock.close()
            raise
        self._sock = sock
        self._channel = Channel(sock, answer.header)
        self._joined.set()


def _gone(sock: socket.socket) -> bool:
    """Tell whether the peer has closed; between calls it has nothing to say."""
    try:
        sock.setblocking(False)
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _hello() -> dict[str, Any]:
    runtime = sys.modules.get("onnxruntime")
    return {
        "type": "hello",
        "version": protocol.VERSION,
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "argv": [str(a)[:500] for a in getattr(sys, "argv", [])[:50]],
        "executable": sys.executable,
        "cwd": os.getcwd(),  # noqa: PTH109
        "python": sys.version.split()[0],
        "numpy": str(getattr(sys.modules.get("numpy"), "__version__", "")),
        "onnxruntime": str(getattr(runtime, "__version__", "")),
    }


def _number(value: Any, default: int) -> int:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if good and 0 <= value <= 1 << 40 else default
