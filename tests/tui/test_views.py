"""Views of a session: right figures, any width, hostile names as data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npudbg.render import (
    commands,
    counters,
    findings,
    host,
    inputs,
    memory,
    outputs,
    report,
    timeline,
    verdict,
)
from npudbg.render.fit import cells
from npudbg.session.reader import Session
from npudbg.session.records import Counter, TensorRecord
from npudbg.tui.app import target_of

WIDTHS = [20, 37, 40, 79, 80, 120, 160, 300]


def every_view(session: Session, width: int):
    target = target_of(session)
    rows = session.commands(0, 40)
    yield from report.report_lines(session, width=max(width, 40), path="/tmp/a.npudbg")[:-3]
    yield from verdict.verdict_lines(session, width)
    yield from host.host_lines(session, target, width)
    yield from inputs.input_lines(session, width)
    yield from inputs.inputs_table(session, width)
    yield from counters.counter_lines(session.counters, width)
    for each in session.findings:
        yield findings.finding_line(each, width)
        yield from findings.finding_detail(each, width)
    yield outputs.header(width)
    for tensor in outputs.shown_tensors(session):
        yield outputs.tensor_line(tensor, width)
        yield from outputs.tensor_detail(session, tensor, width)
    yield commands.header(session, width)
    for row in rows:
        yield commands.command_line(session, row, width)
        yield from commands.command_detail(session, row, width)
    yield from timeline.timeline(session, 0, session.n_cycles, width, cycle=100)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_and_is_clean(session, hostile_file, width):
    with Session.open(hostile_file) as hostile:
        for opened in (session, hostile):
            for each in every_view(opened, width):
                # Frames and charts cannot be narrower than their smallest form.
                assert cells(each.text) <= max(width, 40), each.text
                assert each.text.isprintable()
                assert "\u202e" not in each.text


def test_the_report_says_layer_code_numbers_and_the_next_commands(session):
    text = "\n".join(r.text for r in report.report_lines(session, path="my run.npudbg"))
    assert "AT FAULT: LAYER 4 (OUTPUT)  O401" in text
    assert "simulated  nan = 2,  pos_inf = 0" in text
    assert "first = [0, 5, 12, 7]" in text
    assert "ruled out  layer 1 host" in text
    assert "npudbg replay 'my run.npudbg'" in text
    assert "npudbg explain O401" in text
    assert "! O402" in text
    assert "pe_utilisation" in text and "dangerous" in text


def test_the_report_of_a_clean_run(clean_file):
    with Session.open(clean_file) as session:
        text = "\n".join(r.text for r in report.report_lines(session, again=["npudbg", "run", "m"]))
    assert "NOTHING AT FAULT" in text
    assert "findings  none" in text
    assert "npudbg run m --save run.npudbg" in text


@pytest.mark.parametrize(
    ("value", "healthy", "dangerous", "word"),
    [(0.8, "> 70%", "< 40%", "healthy"), (0.5, "> 70%", "< 40%", "watch"),
     (0.1, "> 70%", "< 40%", "dangerous"), (0.99, "< 60%", "> 95%", "dangerous"),
     (0.3, "", "", ""), (0.3, "rubbish", "%", "watch")],
)  # fmt: skip
def test_counters_are_judged_by_their_thresholds(value, healthy, dangerous, word):
    counter = Counter(name="c", value=value, healthy=healthy, dangerous=dangerous)
    assert counters.judged(counter)[0] == word


def test_host_pane_compares_address_and_strides_with_the_demand(session):
    text = "\n".join(r.text for r in host.host_lines(session, target_of(session), 100))
    assert "DMA 64 KiB ! off by 0x5000" in text
    assert "line 64 B ✓" in text
    assert "= C order ✓" in text
    turned = TensorRecord(
        id=0, name="t", role="input", shape=(4, 3), dtype="<f4", strides=(4, 16), address=64
    )
    text = "\n".join(r.text for r in host.tensor_block(turned, [], None, 100))
    assert "! C order is 12,4" in text
    empty = TensorRecord(
        id=0, name="t", role="input", shape=(0, 3), dtype="<f4", strides=(4, 16), address=64
    )
    text = "\n".join(r.text for r in host.tensor_block(empty, [], None, 100))
    assert "carry no meaning" in text


def test_command_line_says_where_what_and_how_it_ended(session):
    seq = session.findings[2].subject.seq
    row = session.command(seq).copy()
    text = commands.command_line(session, row, 100, current=True, breakpoint_=True).text
    assert text.startswith("B>")
    assert f"{seq} " in text and " mac " in text and "Conv" in text
    assert f"0x{int(row['dst']):08x}" in text
    row["status"] = 1
    assert commands.command_line(session, row, 100).text.endswith("!")
    detail = "\n".join(r.text for r in commands.command_detail(session, row, 100))
    assert "never ended" in detail
    assert "put there by command" in detail
    row["node"], row["tensor"], row["engine"] = 10**6, -7, 99
    assert commands.command_line(session, row, 60).text


def test_tensor_detail_names_the_origin_and_its_bytes(session):
    tensor = session.tensors[session.findings[2].subject.tensor]
    text = "\n".join(r.text for r in outputs.tensor_detail(session, tensor, 100))
    assert "BEGINS HERE" in text
    assert "[0,5,12,7] = nan  bytes 00 7E" in text
    after = session.tensors[session.nodes[19].outputs[0]]
    text = "\n".join(r.text for r in outputs.tensor_detail(session, after, 100))
    assert "BEGINS" not in text
    assert "1 of 1 operands hold NaN or Inf" in text


@given(st.lists(st.sampled_from([0.0, 1.0, np.nan, np.inf, -np.inf]), max_size=60))
def test_first_bad_equals_numpy(values):
    array = np.array(values, np.float32).reshape(-1, 1)
    want = [tuple(i) for i in np.argwhere(~np.isfinite(array))[:4].tolist()]
    assert outputs.first_bad(array) == want


@given(
    st.binary(min_size=1, max_size=200),
    st.integers(0, 2**40),
    st.integers(40, 120),
    st.sampled_from([None, "<f4", "<f2", "|i1", "<i8", "bfloat16", "float8_e4m3fn", "<c8"]),
)
def test_hexdump_shows_every_byte_once(data, base, width, dtype):
    rows = memory.hexdump(base, data, width, dtype=dtype)
    seen = bytearray()
    for row in rows:
        count = memory.bytes_per_row(width, dtype)
        address, rest = row.text.split(" ", 1)
        assert int(address, 16) == base + len(seen)
        left = min(count, len(data) - len(seen))
        cut = 3 * left + (left > 8)
        seen += bytes.fromhex(rest[:cut].replace("*", " "))
        assert cells(row.text) <= max(width, memory.row_width(4, dtype))
    assert bytes(seen) == data


def test_hexdump_marks_unwritten_and_changed_bytes_without_colour():
    data = np.array([np.nan, 1.5], np.float16).tobytes() + b"\0\0"
    row = memory.hexdump(
        0x100, data, 80, written=[True] * 4 + [False] * 2, changed=[True] * 2 + [False] * 4,
        dtype="<f2",
    )[0]  # fmt: skip
    assert row.text.startswith("0x00000100 *00*7E 00 3E -- --")
    assert row.text.split()[-3:] == ["NaN", "1.5", "--"]


def test_timeline_share_equals_a_count_of_cycles(tmp_path):
    """Busy cycles by brute force, cycle by cycle, against the running sums."""
    from npudbg.session.commands import COMMAND
    from npudbg.session.records import Meta
    from npudbg.session.writer import SessionWriter

    @given(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 12)), max_size=12),
        st.integers(0, 30),
        st.integers(1, 40),
        st.integers(1, 12),
    )
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def check(items, low, size, columns):
        free = [0, 0]
        rows = np.zeros(len(items), COMMAND)
        covered = np.zeros((2, 2000))
        for seq, (engine, gap, cost) in enumerate(items):
            start = free[engine] + gap
            free[engine] = start + cost
            rows[seq]["seq"], rows[seq]["engine"] = seq, engine
            rows[seq]["start"], rows[seq]["end"] = start, start + cost
            covered[engine, start : start + cost] = 1
        path = tmp_path / "t.npudbg"
        writer = SessionWriter(path)
        writer.set_meta(Meta(engines=("a", "b")))
        if len(rows):
            writer.append_commands(rows)
        writer.close()
        with Session.open(path) as session:
            got = timeline.busy(session, low, low + size, columns)
        # Each cycle is split finely, so that a column's edge inside it counts its part.
        fine = np.repeat(covered[:, low : low + size], columns, axis=1)
        want = fine.reshape(2, columns, size).mean(axis=2)
        np.testing.assert_allclose(got.share, want, atol=1e-9)
        np.testing.assert_allclose(got.total, covered[:, low : low + size].mean(axis=1), atol=1e-9)

    check()


def test_the_writer_of_what_is_shown():
    shown = memory.writer_line([7, 7, 9, -1], [True] * 4, {9: "STORE"}, 200).text
    assert shown == "written by command 9 (STORE): 1 of 4 B; and 1 earlier"
    assert memory.writer_line([-1], [True], {}, 200).text == "there from the start"
    assert memory.writer_line([-2], [False], {}, 200).text == "no command has written here yet"
