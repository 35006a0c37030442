"""Frames: what is sent arrives; what is no frame is refused, never waited for."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.agent import place, protocol
from npudbg.agent.protocol import ClosedError, Message, ProtocolError
from npudbg.agent.snapshot import snapshot
from npudbg.backends.attached_events import (
    Program,
    contract_dtype,
    parse_call,
    parse_program,
    parse_session,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def feed(data: bytes) -> Message:
    """Receive from a peer that sends ``data`` and goes."""
    ours, theirs = socket.socketpair()
    with ours:
        sender = threading.Thread(target=lambda: (theirs.sendall(data), theirs.close()))
        sender.start()
        try:
            return protocol.receive(ours, 5.0)
        finally:
            ours.close()
            sender.join()


@given(st.dictionaries(st.text(), JSON, max_size=4), st.lists(st.binary(max_size=200), max_size=4))
@settings(max_examples=100, deadline=None)
def test_roundtrip(extra, payloads):
    header = {**extra, "type": "t"}
    header.pop("payloads", None)
    got = feed(protocol.encode(header, payloads) + b"".join(payloads))
    assert got.header == header
    assert [bytes(p) for p in got.payloads] == payloads


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_noise_is_refused(noise):
    with pytest.raises((ClosedError, ProtocolError)):
        feed(noise)


@given(st.binary(min_size=1, max_size=60), st.integers(0, 400), st.booleans())
@settings(max_examples=200, deadline=None)
def test_changed_frames_never_crash(noise, at, cut):
    frame = protocol.encode({"type": "t", "a": [1, 2]}, [b"x" * 50]) + b"x" * 50
    at %= len(frame)
    changed = frame[:at] + noise + (b"" if cut else frame[at + len(noise) :])
    with contextlib.suppress(ClosedError, ProtocolError):
        assert isinstance(feed(changed).type, str)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack("<4sIQ", b"npuD", 0xFFFFFFFF, 0),
        struct.pack("<4sIQ", b"npuD", 2, 1 << 60) + b"{}",
        struct.pack("<4sIQ", b"npuD", 2, 0) + b"{}",
        struct.pack("<4sIQ", b"npuD", 2, 0) + b"[]",
        struct.pack("<4sIQ", b"npuD", 200_000, 0) + b"[" * 200_000,
        struct.pack("<4sIQ", b"npuD", 30, 0) + b'{"type":"t","payloads":[-1,1]}',
        struct.pack("<4sIQ", b"npuD", 29, 1) + b'{"type":"t","payloads":true }' + b"x",
    ],
)
def test_hostile_heads(frame):
    with pytest.raises(ProtocolError):
        feed(frame)


def test_a_silent_or_slow_peer_is_not_waited_for():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        begun = time.monotonic()
        with pytest.raises(ClosedError):
            protocol.receive(ours, 0.2)
        theirs.sendall(protocol.encode({"type": "t"})[:10])
        with pytest.raises(ClosedError):
            protocol.receive(ours, 0.2)
        with pytest.raises(ClosedError):  # it does not read either
            protocol.send(ours, {"type": "t"}, [bytes(64 << 20)], timeout=0.2)
        assert time.monotonic() - begun < 5


def test_too_large_a_frame_is_not_sent():
    with pytest.raises(ProtocolError):
        protocol.encode({"type": "t", "a": "x" * protocol.MAX_HEADER})


def test_versions():
    protocol.check_hello(Message({"type": "hello", "version": protocol.VERSION}))
    for header in ({"type": "hello", "version": 2}, {"type": "hello"}, {"type": "bye"}):
        with pytest.raises(ProtocolError):
            protocol.check_hello(Message(header))


def call_of(array, **changes):
    facts, data = snapshot("x", array, 1 << 30)
    facts["payload"] = 0
    facts.update(changes)
    header = {"type": "before-call", "session": 1, "call": 1, "feeds": [facts]}
    return Message(json.loads(json.dumps(header)), (data,))


def test_an_array_arrives_as_it_lay():
    x = np.arange(24, dtype=">f4").reshape(2, 3, 4).transpose(2, 0, 1)[::-2]
    value = parse_call(call_of(x), Program(), {}).values[0]
    assert value.array.strides == x.strides
    assert value.array.dtype == x.dtype
    assert (value.array == x).all()
    assert not value.array.flags.writeable
    assert value.facts["address"] == x.ctypes.data


def test_a_window_of_a_huge_base():
    base = np.arange(6 << 20, dtype="<f4")  # 24 MB
    x = base[1_000_000:1_000_016].reshape(4, 4).T
    message = call_of(x)
    assert len(message.payloads[0]) == 64
    value = parse_call(message, Program(), {}).values[0]
    assert (value.array == x).all()
    assert value.facts["offset"] == 4_000_000
    assert value.facts["base_nbytes"] == base.nbytes


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [1 << 40, 4]},
        {"strides": [1 << 40, 4]},
        {"strides": [-16, 4]},
        {"strides": [4]},
        {"offset": -4},
        {"offset": 1 << 70},
        {"window": [0, 1 << 40]},
        {"window": [4, 68]},
        {"window": [1, 2, 3]},
        {"payload": 1},
        {"payload": -1},
        {"nbytes": 60},
        {"itemsize": -4},
        {"shape": "abc"},
        {"address": -1},
        {"name": 7},
    ],
)
def test_claims_that_do_not_add_up(change):
    with pytest.raises(ProtocolError):
        parse_call(call_of(np.zeros((4, 4), "f4"), **change), Program(), {})


def test_claims_that_would_cost_memory_or_types():
    one = np.zeros(1, "f4")
    huge = {"shape": [1 << 40], "strides": [0], "size": 1 << 40, "nbytes": 1 << 42}
    assert parse_call(call_of(one, **huge), Program(), {}).values[0].array is None
    for dtype in ("|O", "lol", "<f8", "<U1", "i4,i4"):
        assert parse_call(call_of(one, dtype=dtype), Program(), {}).values[0].array is None


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_events_of_any_json(junk):
    for kind in ("session", "before-call", "after-call", "hello"):
        header = junk if isinstance(junk, dict) else {"feeds": junk, "session": junk, "argv": junk}
        message = Message({**header, "type": kind})
        for parse in (
            lambda m: parse_session(m, Program()),
            lambda m: parse_call(m, Program(), {}),
            lambda m: parse_program(m, 1),
        ):
            with contextlib.suppress(ProtocolError):
                parse(message)


def test_the_pid_is_the_kernels_word():
    assert parse_program(Message({"type": "hello", "pid": 1}), 77).pid == 77


def test_contract_types():
    assert contract_dtype("tensor(float)") == ("<f4", "tensor")
    assert contract_dtype("tensor(bfloat16)") == ("bfloat16", "tensor")
    assert contract_dtype("seq(tensor(float))") == ("sequence", "sequence")
    assert contract_dtype("optional(tensor(float))") == ("optional", "optional")
    assert contract_dtype("") == ("", "")


def test_private_place(monkeypatch):
    # A socket's path is short: a deep test folder would send this to the shared one.
    with tempfile.TemporaryDirectory(prefix="n") as folder:
        _private_place(Path(folder), monkeypatch)


def _private_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = place.directory()
    assert made.stat().st_mode & 0o777 == 0o700
    with place.listen(made / "a.sock"):
        assert (made / "a.sock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(OSError):
            place.listen(made / "a.sock")  # somebody lives there
    with place.listen(made / "a.sock"):  # nobody does any more
        pass
    made.chmod(0o755)
    with pytest.raises(place.RefusedError, match="open to others"):
        place.directory()
    (made / "a.sock").unlink()
    made.rmdir()
    (tmp_path / "else").mkdir(mode=0o700)
    made.symlink_to(tmp_path / "else")
    with pytest.raises(place.RefusedError):
        place.directory()


def test_a_foreign_peer_is_refused_on_both_sides(tmp_path, monkeypatch):
    with place.listen(tmp_path / "a.sock") as listener:
        place.connect(tmp_path / "a.sock", 1.0).close()
        listener.accept()[0].close()
        true_peer = place.peer
        monkeypatch.setattr(place, "peer", lambda s: (true_peer(s)[0], true_peer(s)[1] + 1))
        with pytest.raises(place.RefusedError, match="uid"):
            place.connect(tmp_path / "a.sock", 1.0)
        sock, _ = listener.accept()
        with sock, pytest.raises(place.RefusedError):
            place.check_peer(sock)
