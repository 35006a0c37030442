"""The debugger's side of an attached program: listen or join, and talk in turn.

A :class:`Handler` is told what happens and answers; this module knows nothing of
rules, files or terminals.  Each program (a child process is one too) has a
thread of its own here, and one lock lets them speak to the handler one at a
time, so that a pause of one is never mixed with a question of another.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Any, Literal, Protocol

from npudbg.agent import place, protocol
from npudbg.agent.protocol import ClosedError, Message, ProtocolError
from npudbg.backends.attached_events import (
    AttachedCall,
    AttachedSession,
    Program,
    parse_call,
    parse_program,
    parse_session,
)
from npudbg.session.errors import UserError
from npudbg.session.text import safe

Answer = Literal["continue", "abort", "detach"]

HELLO_SECONDS = 10.0
MAX_BYTES = 512 << 20
"""Most bytes an agent is asked to send with one event."""

MAX_SESSIONS = 10_000


class Handler(Protocol):
    """What a front end does with an attached program's events."""

    def joined(self, program: Program) -> None:
        """A program (or a child of one) has joined."""

    def created(self, session: AttachedSession) -> None:
        """A session was created, or existed already when the program joined."""

    def before(self, call: AttachedCall) -> Answer:
        """A call is about to be made; the program waits for the answer."""

    def after(self, call: AttachedCall) -> Answer:
        """A call has returned; the program waits for the answer."""

    def left(self, program: Program, problem: str) -> None:
        """A program has ended or was left; ``problem`` says what broke the talk, if it did."""


def talk(
    sock: socket.socket,
    handler: Handler,
    *,
    lock: Any = None,
    pause_seconds: float | None = None,
) -> bool:
    """Talk with one agent until it ends or is detached.

    Args:
        sock: Connected; the peer has been checked.
        handler: Told of each event.
        lock: Held while the handler is at work.
        pause_seconds: How long the program shall wait for an answer; None for ever.

    Returns:
        Whether it was a program of ours (it said hello as expected).
    """
    lock = lock or contextlib.nullcontext()
    pid, _ = place.peer(sock)
    try:
        hello = protocol.receive(sock, HELLO_SECONDS)
        if hello.type == "busy":
            raise UserError(
                f"program {pid} is attached to another debugger already; detach there first"
            )
        protocol.check_hello(hello)
        program = parse_program(hello, pid)
        protocol.send(sock, _greeting(pause_seconds), timeout=HELLO_SECONDS)
    except (ClosedError, ProtocolError):
        return False
    with lock:
        handler.joined(program)
    problem = ""
    try:
        _events(sock, program, handler, lock)
    except ProtocolError as error:
        problem = safe(error)
    except ClosedError:
        pass
    finally:
        sock.close()
        with lock:
            handler.left(program, problem)
    return True


def _events(sock: socket.socket, program: Program, handler: Handler, lock: Any) -> None:
    sessions: dict[int, AttachedSession] = {}
    while True:
        message = protocol.receive(sock, None)
        with lock:
            answer = _dispatch(message, program, sessions, handler)
        protocol.send(sock, {"type": answer}, timeout=HELLO_SECONDS)
        if answer == "detach":
            # Until it has left us, so that another debugger may join at once.
            with contextlib.suppress(ClosedError, ProtocolError):
                protocol.receive(sock, HELLO_SECONDS)
            return


def _dispatch(
    message: Message, program: Program, sessions: dict[int, AttachedSession], handler: Handler
) -> Answer:
    if message.type == "session":
        session = parse_session(message, program)
        if len(sessions) >= MAX_SESSIONS:
            raise ProtocolError(f"more than {MAX_SESSIONS} sessions")
        sessions[session.number] = session
        handler.created(session)
        return "continue"
    if message.type == "before-call":
        return handler.before(parse_call(message, program, sessions))
    if message.type == "after-call":
        return handler.after(parse_call(message, program, sessions))
    raise ProtocolError(f"unknown event {message.type!r}")


def _greeting(pause_seconds: float | None) -> dict[str, Any]:
    return {
        "type": "hello",
        "version": protocol.VERSION,
        "max_bytes": MAX_BYTES,
        "pause_seconds": pause_seconds,
    }


class Server:
    """Takes in every agent that connects to a socket, each in a thread of its own."""

    def __init__(self, path: Path, handler: Handler, *, pause_seconds: float | None = None) -> None:
        """Listen at ``path``; nothing is accepted before :meth:`start`.

        Raises:
            UserError: The socket cannot be made.
        """
        self.path = path
        self.joined = 0
        self.refused: list[str] = []
        self.failures: list[Exception] = []
        self._handler = handler
        self._pause = pause_seconds
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        try:
            self._listener = place.listen(path)
        except OSError as error:
            raise UserError(f"{path}: cannot listen for the program ({error})") from None

    def start(self) -> None:
        """Begin to accept agents."""
        thread = threading.Thread(target=self._accept, name="npudbg-attached", daemon=True)
        thread.start()

    def close(self, seconds: float = 10.0) -> None:
        """Accept no more, give the talks in progress ``seconds`` to end, remove the socket."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        deadline = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            try:
                place.check_peer(sock)
            except (place.RefusedError, OSError) as error:
                self.refused.append(str(error))
                sock.close()
                continue
            thread = threading.Thread(target=self._talk, args=(sock,), daemon=True)
            self._threads = [t for t in self._threads if t.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _talk(self, sock: socket.socket) -> None:
        with sock:
            try:
                ours = talk(sock, self._handler, lock=self._lock, pause_seconds=self._pause)
                self.joined += ours
            except Exception as error:
                # The program goes on without us; the command says why at its end.
                self.failures.append(error)


def join(path: Path, handler: Handler, *, pause_seconds: float | None = None) -> None:
    """Join a listening program and talk until it ends or is detached.

    Raises:
        UserError: Nobody listens there, or it is not a program of this user.
    """
    try:
        sock = place.connect(path, HELLO_SECONDS)
    except place.RefusedError as error:
        raise UserError(f"{path}: refused, {error}") from None
    except OSError as error:
        raise UserError(
            f"{path}: no program listens there ({error.strerror or error}); "
            "see `npudbg attach --list`"
        ) from None
    with sock:
        if not talk(sock, handler, pause_seconds=pause_seconds):
            raise UserError(f"{path}: what listens there is no npudbg agent of this version")


def listening() -> list[tuple[int, Path]]:
    """Return pid and socket of this user's programs that listen for a debugger.

    Raises:
        UserError: The directory of the sockets is not private.
    """
    found = []
    for path in sorted(directory().glob("*.sock")):
        if path.stem.isdigit() and path.is_socket() and Path(f"/proc/{path.stem}").exists():
            found.append((int(path.stem), path))
    return found


def directory() -> Path:
    """Return the private directory of the sockets.

    Raises:
        UserError: It is not private, or cannot be made.
    """
    try:
        return place.directory()
    except (place.RefusedError, OSError) as error:
        raise UserError(f"no private place for sockets: {error}") from None
