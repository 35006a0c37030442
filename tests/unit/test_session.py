"""The session file: what goes in comes out, and a damaged file says so in one line."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.session import codec
from npudbg.session.commands import ACCESS, COMMAND, Kind, Space
from npudbg.session.errors import SessionError
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Meta, NodeRecord, Subject, TensorRecord, Verdict
from npudbg.session.writer import SessionWriter, pack_rows, unpack_rows


def make_rows(count: int, first: int = 0) -> np.ndarray:
    rows = np.zeros(count, COMMAND)
    rows["seq"] = np.arange(first, first + count)
    rows["start"] = rows["seq"] * 10
    rows["end"] = rows["start"] + 8
    rows["kind"] = Kind.DMA_LOAD
    rows["dst_space"] = Space.SRAM
    rows["dst"] = (rows["seq"] % 16) * 64
    rows["nbytes"] = 64
    return rows


@pytest.fixture
def session_file(tmp_path):
    path = tmp_path / "a.npudbg"
    writer = SessionWriter(path)
    x = np.arange(600_000, dtype="<f4").reshape(2, 300_000)
    writer.set_meta(Meta(target="rk3588", engines=("dma0", "mac")))
    writer.add_tensor(
        TensorRecord(
            id=0, name="x", role="input", shape=x.shape, dtype="<f4", blob=writer.put_array(x)
        )
    )
    writer.add_node(NodeRecord(index=0, name="n", op_type="Relu", inputs=(0,), outputs=(1,)))
    for at in range(0, 10_000, 2_500):
        writer.append_commands(make_rows(2_500, at))
    access = np.zeros(3, ACCESS)
    access["seq"] = (4, 4, 9)
    writer.append_accesses(access)
    writer.put_payload(7, b"\x01" * 64)
    writer.set_verdict(Verdict(layer=0, code="", summary="nothing at fault"))
    writer.close()
    return path


def test_roundtrip(session_file):
    with Session.open(session_file) as session:
        assert session.status == "complete"
        assert session.meta.target == "rk3588"
        assert session.nodes[0].op_type == "Relu"
        array = session.array(0)
        assert array.shape == (2, 300_000)
        assert array[1, 5] == 300_005
        assert session.n_commands == 10_000
        assert session.commands(4_090, 4_100)["seq"].tolist() == list(range(4_090, 4_100))
        assert session.command(9_999)["start"] == 99_990
        with pytest.raises(IndexError):
            session.command(10_000)
        assert session.accesses(4, 5)["seq"].tolist() == [4, 4]
        assert session.payload(7) == b"\x01" * 64
        assert session.payload(8) is None
        assert session.seq_at_cycle(50_001) == 5_001


def test_last_writers_of_a_range(session_file):
    with Session.open(session_file) as session:
        # Command s writes the 64 bytes at (s % 16) * 64.
        assert session.writers(Space.SRAM, 64, 64, before=9_999) == [9_985]
        assert session.writers(Space.SRAM, 32, 64, before=33) == [33, 32]
        assert session.writers(Space.SRAM, 4096, 64, before=9_999) == []


def test_equal_chunks_are_kept_once(tmp_path):
    path = tmp_path / "a.npudbg"
    writer = SessionWriter(path)
    noise = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    for _ in range(5):
        writer.put_array(noise)
    writer.close()
    assert path.stat().st_size < 2 << 20


def test_view_keeps_the_strides(tmp_path):
    base = np.arange(16, dtype="<f4").reshape(1, 4, 4)
    x = np.swapaxes(base, -1, -2)
    writer = SessionWriter(tmp_path / "a.npudbg")
    writer.add_tensor(
        TensorRecord(
            id=0,
            name="x",
            role="input",
            shape=x.shape,
            dtype="<f4",
            strides=x.strides,
            blob=writer.put_array(x),
            base_blob=writer.put_array(base),
        )
    )
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        view = session.view(0)
        assert view.strides == (64, 4, 16)
        np.testing.assert_array_equal(view, session.array(0))


def test_an_older_session_stays_whole_until_the_new_one_is(session_file):
    before = session_file.read_bytes()
    writer = SessionWriter(session_file)
    writer.put_array(np.zeros(1000))
    assert session_file.read_bytes() == before
    writer.discard()
    assert session_file.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b"", "is empty"),
        (lambda b: b"hello world" * 30, "not an npudbg session"),
        (lambda b: b[:70_000], "damaged"),
        (lambda b: b[:60] + (99).to_bytes(4, "big") + b[64:], "newer"),
        (lambda b: b[:68] + b"abcd" + b[72:], "not an npudbg session"),
    ],
)
def test_a_damaged_file_is_one_line(session_file, damage, words):
    session_file.write_bytes(damage(session_file.read_bytes()))
    with pytest.raises(SessionError, match=words) as caught, Session.open(session_file) as session:
        _ = session.tensors, session.nodes, session.array(0), session.commands(0, 10_000)
    assert "\n" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_damage_raises_nothing_else(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("s") / "a.npudbg"
    writer = SessionWriter(path)
    writer.set_meta(Meta())
    writer.add_tensor(
        TensorRecord(
            id=0,
            name="x",
            role="input",
            shape=(64,),
            dtype="<f4",
            blob=writer.put_array(np.ones(64, "f4")),
        )
    )
    writer.append_commands(make_rows(100))
    writer.close()
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 40))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        with Session.open(path) as session:
            _ = session.tensors, session.nodes, session.findings
            _ = [session.array(t) for t in session.tensors]
            _ = session.commands(0, session.n_commands)
    except SessionError:
        pass


def test_a_view_or_trigger_is_refused(session_file):
    db = sqlite3.connect(session_file)
    db.execute("CREATE VIEW evil AS SELECT 1")
    db.commit()
    db.close()
    with pytest.raises(SessionError, match="plain tables"):
        Session.open(session_file)


def test_killed_writer_leaves_the_last_commit(tmp_path):
    path = tmp_path / "k.npudbg"
    code = f"""
import numpy as np, time
from npudbg.session.writer import SessionWriter
from npudbg.session.records import Meta, TensorRecord
w = SessionWriter({str(path)!r})
w.set_meta(Meta(target="killed"))
i = 0
while True:
    a = np.random.default_rng(i).standard_normal(1 << 20)
    w.add_tensor(TensorRecord(id=i, name=str(i), role="activation", shape=a.shape, dtype="<f8",
                              blob=w.put_array(a)))
    i += 1
    time.sleep(0.01)
"""
    child = subprocess.Popen([sys.executable, "-c", code])
    part = tmp_path / "k.npudbg.part"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (part.exists() and part.stat().st_size > 90 << 20):
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with Session.open(part) as session:
        assert session.status == "interrupted"
        assert session.meta.target == "killed"
        tensors = session.tensors
        assert len(tensors) >= 4
        for tensor in tensors:
            expected = np.random.default_rng(tensor.id).standard_normal(1 << 20)
            np.testing.assert_array_equal(session.array(tensor), expected)


@given(st.integers(0, 50), st.integers(0, 2**32 - 1))
def test_rows_survive_packing(count, seed):
    raw = np.random.default_rng(seed).integers(0, 256, count * COMMAND.itemsize, dtype=np.uint8)
    rows = raw.view(COMMAND)
    assert unpack_rows(pack_rows(rows), COMMAND).tobytes() == rows.tobytes()


@given(st.binary(max_size=5000), st.integers(1, 200))
def test_codec_roundtrip(data, times):
    kind, stored = codec.encode(data * times)
    assert codec.decode(kind, bytes(stored), len(data) * times) == data * times


def test_a_bomb_is_not_expanded():
    from npudbg.session.codec import zstd

    bomb = zstd.compress(bytes(50 << 20))
    with pytest.raises(SessionError, match="where 100 were recorded"):
        codec.decode(codec.ZSTD, bomb, 100)


def test_findings_keep_their_evidence(tmp_path):
    writer = SessionWriter(tmp_path / "a.npudbg")
    finding = Finding(
        code="H101",
        name="x",
        layer=1,
        severity="error",
        certainty="proven",
        subject=Subject(kind="tensor", name="x", tensor=0),
        message="m",
        evidence={"wrong": 12},
    )
    writer.add_findings([finding])
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        assert session.findings == [finding]
