"""Steps, breakpoints and watchpoints: the same stops forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
from fake_device import SRAM
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session


def stops(debugger, verb, start):
    """All commands at which a verb stops, from one end to the other."""
    debugger.execute(start)
    found = []
    end = debugger.context.cursor.last if verb == "c" else 0
    while True:
        debugger.execute(verb)
        if "of the record" in debugger.reason:
            return found
        found.append(debugger.seq)
        if debugger.seq == end:
            return found


LOCATIONS = [
    "node1",
    "op Conv",
    "tensor t2",
    "kind KERNEL",
    "engine dma1",
    "17",
    "KERNEL if tile == 1",
    "if cost > 40 and kind == 'store'",
    "node2 if max(abs(out)) > 100",
    "op Relu if tile > 0",
    "sram:0x180+64",
    "t1 if nan(out) == 0",
    "finding O401",
    "cycle 300",
    "*0x40000000",
    "DMA_LOAD if addr % 64 == 0",
]
WATCHES = [
    "watch sram:0x180+16",
    "rwatch sram:0x180+16",
    "awatch sram:0x180+16",
    "watch t1",
    "watch t1[0,3,2]",
    "rwatch t0[1,5,7]",
    "awatch t2[0]",
    "watch -l t4[0,0,0]",
    "watch t4",
    "rwatch /w1",
    "watch sram:0x180 if tile == 0",
]


@pytest.mark.parametrize("text", [*(f"b {where}" for where in LOCATIONS), *WATCHES])
def test_the_same_stops_forward_and_backward(debugger, run, text):
    run(text)
    forward = stops(debugger, "c", "goto 0")
    backward = stops(debugger, "rc", "end")
    # Where one stands is not met again: the ends belong to one direction each.
    last = debugger.context.cursor.last
    inner = [s for s in forward if 0 < s < last]
    assert inner == [s for s in reversed(backward) if 0 < s < last]
    assert forward == sorted(set(forward))
    assert len(forward) + len(backward) > 0


def changes(made, space, address, nbytes):
    before, found = None, []
    for seq in range(-1, len(made.rows)):
        data, known, _ = made.memory(space, address, nbytes, seq)
        if before is not None and (data, known.tobytes()) != before:
            found.append(seq)
        before = (data, known.tobytes())
    return found


@pytest.mark.parametrize("offset", [0, 40, 128, 528, 900, 1400])
def test_watch_stops_exactly_where_the_oracles_bytes_change(made, debugger, run, offset):
    run(f"watch sram:{SRAM + offset:#x}+24")
    found = stops(debugger, "c", "goto 0")
    assert [s for s in found if s] == [s for s in changes(made, Space.SRAM, SRAM + offset, 24) if s]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_watch_on_ddr_stops_where_the_oracles_bytes_change(made, data):
    tensor = data.draw(st.sampled_from(sorted(made.tensors)))
    record = made.tensors[tensor]
    offset = data.draw(st.integers(0, made.arrays[tensor].nbytes - 1))
    size = data.draw(st.integers(1, 40))
    address = record.address + offset
    with Session.open(made.path) as session:
        debugger = Interpreter(session)
        debugger.execute(f"watch ddr:{address:#x}+{size}")
        assert not debugger.failed
        found = stops(debugger, "c", "goto 0")
    assert [s for s in found if s > 0] == [
        s for s in changes(made, Space.DDR, address, size) if s > 0
    ]


def test_watch_on_an_element_stops_at_its_maker_and_its_evictor(made, debugger, run):
    number = next(n for n, t in made.tensors.items() if t.name == "t1")
    array = made.arrays[number]
    at = (0, 3, 2)
    offset = int(np.ravel_multi_index(at, array.shape)) * array.itemsize
    want, before = [], None
    for seq in range(len(made.rows)):
        raw, known = made.values(number, seq)
        now = (raw[offset : offset + array.itemsize].tobytes(), bool(known[offset]))
        if before is not None and now != before:
            want.append(seq)
        before = now
    run("watch t1[0,3,2]")
    assert stops(debugger, "c", "goto 0") == want
    assert want


def test_reverse_continue_goes_to_the_writer_of_a_byte(made, debugger, run):
    place = SRAM + 128 + 400
    last = len(made.rows) - 1
    writer = int(made.memory(Space.SRAM, place, 1, last)[2][0])
    run("end", f"watch sram:{place:#x}")
    text = run("rc")
    assert debugger.seq == writer
    assert "watch 1" in debugger.reason and "->" in text
    assert run("x/1xb addr").split()[0] == f"sram:{place:#010x}"


def test_rwatch_finds_the_readers_of_an_element_only(made, debugger, run):
    number = next(n for n, t in made.tensors.items() if t.name == "t0")
    box_of = {}
    want = set()
    for row in made.rows:
        if row[9] == Kind.DMA_LOAD and row[7] == number:
            (a, b), (c, d), (e, f) = row[16][:3]
            if a <= 1 < b and c <= 5 < d and e <= 7 < f:
                want.add(row[0])
                box_of[row[0]] = row[16][:3]
        if row[9] == Kind.DMA_STORE and row[7] == number:
            (a, b), (c, d), (e, f) = row[16][:3]
            if a <= 1 < b and c <= 5 < d and e <= 7 < f:
                want.add(row[0])
    for read in made.reads:
        if read[3] == number and read[4] >= 0 and read[7] in want:
            want.add(read[0])
    run("rwatch t0[1,5,7]")
    assert set(stops(debugger, "c", "goto 0")) == want


def test_steps_lead_where_nodes_begin_and_end(made, debugger, run):
    begins = [n.first_seq for n in made.nodes]
    ends = [n.last_seq for n in made.nodes]
    run("goto 0", "n")
    for first, last in zip(begins, ends, strict=True):
        assert debugger.seq == first
        run("fin")
        assert debugger.seq == last
        run("rfin")
        assert debugger.seq == first
        run("n")
    run("end")
    for first in [ends[-1] + 1, *reversed(begins), 0]:
        if debugger.seq != first:
            run("rn")
        assert debugger.seq == first


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["s", "rs", "n", "rn", "fin", "rfin", "s 5", "rs 3"]), max_size=25))
def test_random_walks_stay_inside_and_steps_undo_one_another(made, verbs):
    with Session.open(made.path) as session:
        debugger = Interpreter(session)
        debugger.goto(len(made.rows) // 2)
        for verb in verbs:
            before = debugger.seq
            debugger.execute(verb)
            assert not debugger.failed
            assert 0 <= debugger.seq < len(made.rows)
            if verb == "s" and debugger.seq != before:
                debugger.execute("rs")
                assert debugger.seq == before


def test_a_breakpoint_stops_a_longer_step(debugger, run):
    run("goto 0", "b 5", "s 20")
    assert debugger.seq == 5
    run("goto 0", "n 3")
    assert debugger.seq == 5


def test_temporary_ignore_disable_and_conditions(debugger, run):
    run("tb 5", "goto 0", "c")
    assert debugger.seq == 5
    assert "no breakpoints" in run("info b")
    run("b kind KERNEL", "goto 0", "c")
    first = debugger.seq
    run("ignore 2 2", "goto 0", "c")
    assert debugger.seq > first
    assert "hit 4x" in run("info breakpoints")
    run("disable 2", "goto 0", "c")
    assert debugger.reason == "end of the record"
    run("enable", "condition 2 tile == 1", "goto 0", "c")
    assert int(debugger.context.row()["tile"]) == 1
    run("condition 2", "goto 0", "c")
    assert debugger.seq == first
    run("delete")
    assert not debugger.context.table.stops


def test_a_condition_that_cannot_be_judged_stops_and_says_so(debugger, run):
    run("b kind KERNEL if out", "goto 0")
    assert "cannot be judged" in run("c")
    # What a command does not have is no mistake: there the condition is false.
    run("delete", "b if nan(in1) >= 0", "goto 0", "c")
    assert int(debugger.context.row()["kind"]) == Kind.KERNEL


def test_until(debugger, run):
    run("goto 0", "until node2")
    assert debugger.context.cursor.node(debugger.seq).index == 2
    run("until if kind == 'store'")
    assert int(debugger.context.row()["kind"]) == Kind.DMA_STORE
    assert "not met" in run("until node0")
    run("reverse-until node1")
    assert debugger.context.cursor.node(debugger.seq).index == 1


def test_toggle_for_the_screen(debugger, run):
    line = debugger.toggle_break(2)
    run(line)
    assert debugger.break_nodes() == frozenset({2})
    run(debugger.toggle_break(2))
    assert debugger.break_nodes() == frozenset()


CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(
            st.sampled_from(
                ["seq", "cycle", "cost", "nbytes", "tile", "addr", "end", "dst", "node"]
            ),
            st.sampled_from(["", " % 3", " - 20", " // 7", " + seq", " * 2", " % 0"]),
            st.sampled_from(["<", ">", "==", "!=", ">="]),
            st.integers(-2, 400),
        ).map(lambda t: f"{t[0]}{t[1]} {t[2]} {t[3]}"),
        st.sampled_from(
            [
                "kind == 'KERNEL'",
                "'load' == kind",
                "engine != 'mac'",
                "op == 'Conv'",
                "nan(out) == 0",
                "node == 'node1'",
                "status == 'HUNG'",
                "space == 'sram'",
                "max(data) > 20",
                "name == 't1'",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map(
            lambda t: f"({''.join(t)})"
        ),
        inner.map(lambda t: f"not ({t})"),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONDITIONS)
def test_what_columns_rule_out_is_never_true(made, text):
    from npudbg.debugger.errors import DebuggerError
    from npudbg.debugger.expressions import evaluate, parse
    from npudbg.debugger.expressions.values import truth
    from npudbg.debugger.possible import possible
    from npudbg.debugger.scope import CommandScope

    with Session.open(made.path) as session:
        context = Interpreter(session).context
        rows = session.commands(0, session.n_commands)
        tree = parse(text)
        mask = possible(context, tree, rows)
        for row, may in zip(rows, mask, strict=True):
            try:
                holds = truth(evaluate(tree, CommandScope(context, int(row["seq"]), row), text))
            except DebuggerError:
                holds = False
            assert may or not holds, (text, int(row["seq"]))


def test_columns_rule_out_most(session):
    from npudbg.debugger.expressions import parse
    from npudbg.debugger.possible import possible

    context = Interpreter(session).context
    rows = session.commands(0, session.n_commands)
    mask = possible(context, parse("kind == 'KERNEL' and tile % 2 == 1 and nan(out)"), rows)
    assert np.array_equal(mask, (rows["kind"] == Kind.KERNEL) & (rows["tile"] % 2 == 1))
    assert possible(context, parse("nan(out)"), rows).all()
