"""Frames between a program and its debugger: bounded, versioned, never trusted.

A frame is a 16-byte head (magic, header length, payload length), a JSON object
and binary payloads one after the other.  The object's ``type`` says what it is
and its ``payloads`` lists their sizes.  The two sides speak in turn: the agent
sends an event, the debugger answers with one command.

Events: ``hello``, ``session``, ``before-call``, ``after-call``.
Answers: ``hello``, ``continue``, ``abort``, ``detach``.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

VERSION = 1
MAGIC = b"npuD"
MAX_HEADER = 4 << 20
MAX_PAYLOADS = 4096
MAX_FRAME = 1 << 30
"""Most payload bytes in one frame that a debugger takes."""

_HEAD = struct.Struct("<4sIQ")
_CHUNK = 1 << 20

Payload = bytes | bytearray | memoryview


class ProtocolError(Exception):
    """The other side sent something that is no frame of this protocol."""


class ClosedError(Exception):
    """The other side is gone, or did not answer in time."""


@dataclass(frozen=True)
class Message:
    """One frame: a JSON object with a ``type``, and binary payloads."""

    header: dict[str, Any]
    payloads: tuple[memoryview, ...] = field(default=(), repr=False)

    @property
    def type(self) -> str:
        """What the frame is."""
        return str(self.header["type"])


def encode(header: dict[str, Any], payloads: Sequence[Payload] = ()) -> bytes:
    """Return the head and JSON part of a frame; the payloads follow it as they are.

    Raises:
        ProtocolError: The frame is larger than the protocol allows.
    """
    sizes = [memoryview(p).nbytes for p in payloads]
    text = json.dumps({**header, "payloads": sizes}, separators=(",", ":")).encode()
    if len(text) > MAX_HEADER or len(sizes) > MAX_PAYLOADS or sum(sizes) > MAX_FRAME:
        raise ProtocolError(f"frame too large: {len(text)} + {sum(sizes)} bytes")
    return _HEAD.pack(MAGIC, len(text), sum(sizes)) + text


def send(
    sock: socket.socket,
    header: dict[str, Any],
    payloads: Sequence[Payload] = (),
    timeout: float | None = None,
) -> None:
    """Send one frame.

    Args:
        sock: A connected stream socket.
        header: JSON-ready; ``type`` is required.
        payloads: Sent without being copied.
        timeout: Seconds without progress after which the other side counts as gone.

    Raises:
        ClosedError: The other side is gone or does not read.
        ProtocolError: The frame is larger than the protocol allows.
    """
    head = encode(header, payloads)
    try:
        sock.settimeout(timeout)
        sock.sendall(head)
        for payload in payloads:
            view = memoryview(payload).cast("B")
            for at in range(0, len(view), _CHUNK):
                # A chunk at a time: the timeout is for progress, not for the whole.
                sock.sendall(view[at : at + _CHUNK])
    except (OSError, ValueError) as error:
        raise ClosedError(f"cannot send: {error}") from None


def receive(
    sock: socket.socket,
    timeout: float | None = None,
    *,
    max_header: int = MAX_HEADER,
    max_payload: int = MAX_FRAME,
) -> Message:
    """Receive one frame.

    Args:
        sock: A connected stream socket.
        timeout: Seconds for the frame's head to arrive, and then for the rest;
            None waits for ever.
        max_header: Longest JSON part taken.
        max_payload: Most payload bytes taken.

    Raises:
        ClosedError: End of stream, a reset, or the timeout.
        ProtocolError: Not a frame, or one out of bounds.
    """
    magic, text_size, payload_size = _HEAD.unpack(_exactly(sock, _HEAD.size, timeout))
    if magic != MAGIC:
        raise ProtocolError("not an npudbg frame")
    if text_size > max_header or payload_size > max_payload:
        raise ProtocolError(f"frame out of bounds: {text_size} + {payload_size} bytes")
    header = _parse(bytes(_exactly(sock, text_size, timeout)))
    sizes = header.pop("payloads", [])
    if (
        not isinstance(sizes, list)
        or len(sizes) > MAX_PAYLOADS
        or not all(type(n) is int and n >= 0 for n in sizes)
        or sum(sizes) != payload_size
    ):
        raise ProtocolError("payload sizes do not add up")
    rest = memoryview(_exactly(sock, payload_size, timeout)).toreadonly()
    payloads = []
    at = 0
    for size in sizes:
        payloads.append(rest[at : at + size])
        at += size
    return Message(header, tuple(payloads))


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("header is not JSON") from None
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise ProtocolError("header is not an object with a type")
    return header


def _exactly(sock: socket.socket, size: int, timeout: float | None) -> bytearray:
    """Read ``size`` bytes; memory grows with what arrives, not with what is claimed."""
    deadline = None if timeout is None else time.monotonic() + timeout
    data = bytearray()
    while len(data) < size:
        try:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ClosedError("the other side does not answer")
                sock.settimeout(left)
            else:
                sock.settimeout(None)
            part = sock.recv(min(_CHUNK, size - len(data)))
        except (OSError, ValueError) as error:
            raise ClosedError(f"cannot receive: {error}") from None
        if not part:
            raise ClosedError("the other side has gone")
        data += part
    return data


def check_hello(message: Message) -> None:
    """Check the first frame of either side.

    Raises:
        ProtocolError: It is no hello, or of another version.
    """
    version = message.header.get("version")
    if message.type != "hello" or version != VERSION:
        raise ProtocolError(f"expected hello of protocol {VERSION}, got {message.type} {version}")
