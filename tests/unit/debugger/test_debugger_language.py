"""The language: verbs, formats, completion, scripts; a mistake is a line, never an exception."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.debugger.interpreter import Interpreter, ScriptError
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session
from npudbg.session.records import Meta, NodeRecord, TensorRecord
from npudbg.session.writer import SessionWriter


def kernel(made, node):
    return next(r for r in made.rows if r[9] == Kind.KERNEL and r[6] == node)


def test_out_and_operands_are_what_the_command_wrote_and_read(made, debugger, run):
    row = kernel(made, 4)
    run(f"goto {row[0]}")
    box = tuple(slice(a, b) for a, b in row[16][:3])
    tile = made.arrays[row[7]][box]
    want = float(np.max(np.abs(tile.astype(np.float64))))
    assert float(run("p max(abs(out))").split()[-1]) == pytest.approx(want, rel=1e-8)
    assert run("p shape(out)") == f"= ({', '.join(map(str, tile.shape))})"
    source = next(r for r in made.reads if r[0] == row[0] and r[4] == 0)[3]
    want = float(made.arrays[source][box].astype(np.float64).sum())
    assert float(run("p sum(in0)").split()[-1]) == pytest.approx(want, rel=1e-6)
    assert run("p shape(in1)") == "= (4, 5)"
    load = next(r for r in made.rows if r[9] == Kind.DMA_LOAD and r[6] == 4 and r[7] == source)
    debugger.goto(load[0])
    assert "only loads" in debugger.execute("p out")[0].text
    assert run("p sum(data)") == run("p sum(in0)")
    assert "read no operand 7" in debugger.execute("p in7")[0].text


def test_a_payload_is_what_out_shows(made, debugger, run):
    seq, data = next((s, d) for s, d in made.payloads.items() if made.rows[s][9] == Kind.KERNEL)
    run(f"goto {seq}")
    array = made.arrays[made.rows[seq][7]]
    want = np.frombuffer(data, array.dtype)
    got = run("p out[0,0,0]").removeprefix("= ")
    assert float(got) == pytest.approx(float(want[0]), rel=1e-6, nan_ok=True)


def test_an_operand_that_was_poked_shows_what_was_read(made, debugger, run):
    (seq, operand), data = next(iter(made.observed.items()))
    run(f"goto {seq}")
    source = next(r for r in made.reads if r[0] == seq and r[4] == operand)[3]
    want = np.frombuffer(data, made.arrays[source].dtype)
    assert float(run(f"p in{operand}[0,0,1]")[2:]) == pytest.approx(float(want[1]), rel=1e-6)
    assert "no command had written" in run("info command")


@pytest.mark.parametrize(
    ("form", "dtype", "show"),
    [
        ("8xb", "u1", "{:02x}"),
        ("4xh", "<u2", "{:04x}"),
        ("4xw", "<u4", "{:08x}"),
        ("2xg", "<u8", "{:016x}"),
        ("4dh", "<i2", "{}"),
        ("4uw", "<u4", "{}"),
        ("4fw", "<f4", "{:.6g}"),
        ("4fh", "<f2", "{:.6g}"),
        ("2fg", "<f8", "{:.6g}"),
    ],
)
def test_x_formats(made, run, form, dtype, show):
    row = kernel(made, 0)
    run(f"goto {row[0]}")
    data = made.memory(Space.SRAM, row[4], 32, row[0])[0]
    values = np.frombuffer(data, dtype)[: int(form[0])]
    lines = run(f"x/{form} sram:{row[4]:#x}").splitlines()
    shown = " ".join(line.split(" ", 1)[1] for line in lines[:-1]).replace("*", " ").split()
    want = [show.format(float(v) if "f" in form else int(v)) for v in values]
    assert shown == want
    assert f"by command {row[0]} KERNEL" in lines[-1]
    assert lines[-1].endswith("simulated")


def test_x_goes_on_where_it_ended_and_marks_what_is_not_written(run):
    run("goto 0")
    first = run("x/16xb sram:0x100")
    assert first.count("--") == 17  # 16 bytes and the note
    assert run("").startswith("sram:0x00000110")
    assert run("x").startswith("sram:0x00000120")


def test_x_on_a_tensor_shows_its_values(made, run):
    number = next(n for n, t in made.tensors.items() if t.name == "t0")
    run(f"goto {made.tensors[number].last_seq}")
    want = f"{float(made.arrays[number][0, 0, 0]):.6g}"
    assert run("x t0").splitlines()[0].replace("*", " ").split()[1] == want
    assert run("x/4i 3").count("cycle") == 4


def test_names_that_look_like_divisions(made, run):
    weight = next(t for t in made.tensors.values() if t.name == "/w1")
    assert run("p /w1[2,3]")[2:] == f"{float(made.arrays[weight.id][2, 3]):.9g}"
    assert "4x5 float32" in run("p /w1")
    assert run('p tensor("/w1")[2,3]') == run("p /w1[2,3]")
    assert run("x /w1").startswith(f"ddr:{weight.address:#010x}")
    assert "there from the start" in run("x/2fw /w1")


def test_print_says_how_much_is_written(made, run, failed):
    run("goto 0")
    number = next(n for n, t in made.tensors.items() if t.name == "t0")
    first = made.history[number][0][0]
    assert f"not made yet; command {first} (KERNEL of node0) begins it" in run("p t0")
    assert "has not been written" in failed("p t0[0,0,0]")
    raw, known = made.values(number, first)
    array = raw.view(made.arrays[number].dtype)
    some = int(known[:: array.itemsize].sum())
    text = run(f"goto {first}", "p t0")
    assert f"{some} of {array.size} elements written" in text and 0 < some < array.size


def test_display_shows_at_every_stop_and_survives_what_is_absent(run):
    run("goto 0")
    run("display max(abs(out))")
    run("display/4xb sram:0x180")
    text = run("s")
    assert "1: p max(abs(out))" in text and "2: x/4xb sram:0x180" in text
    run("undisplay 1")
    assert "1: p" not in run("s")
    run("undisplay")
    assert "nothing is displayed" in run("display")


def test_backtrace_up_and_down(made, run, failed):
    row = kernel(made, 5)
    run(f"goto {row[0]}")
    text = run("bt")
    frames = re.findall(r"^#\d+ +(\S+)", text, re.MULTILINE)
    assert frames == ["t5", "t4", "t3", "t2", "t1", "t0", "image@ddr"]
    assert "also reads weight /w5" in text
    assert "t4" in run("up")
    assert "t3" in run("")
    assert run("info tensor").startswith("tensor ") and "t3" in run("info tensor").splitlines()[0]
    assert "t4" in run("down")
    assert "input" in run("bt image@ddr")
    assert "expected 1 to" in failed("up 0")


def test_bt_names_where_dirt_begins(tmp_path):
    from fake_device import build

    from npudbg.session.scan import scan

    fake = build(tmp_path / "d.npudbg", seed=5, nodes=5)
    for name in ("t3", "t4"):
        number = next(n for n, t in fake.tensors.items() if t.name == name)
        array = fake.arrays[number].astype("<f4")
        array[0, 0, 0] = np.nan
        fake.change(number, stats=scan(array))
    fake.save()
    with Session.open(fake.path) as session:
        text = "\n".join(each.text for each in Interpreter(session).execute("bt t4"))
    assert "clean in, dirty out: it begins at node 3" in text
    assert "1 NaN of 96" in text


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("registers", ["seq", "cycle", "mac", "simulated"]),
        ("nodes", ["node0", "Conv"]),
        ("node node1", ["node 1 Relu node1", "commands", "tiles"]),
        ("tensors", ["t0", "weight"]),
        ("tensor t1", ["ddr:", "elements written", "made by"]),
        ("commands", ["> "]),
        ("command 9", ["command 9", "cyc"]),
        ("breakpoints", ["no breakpoints"]),
        ("findings", ["O401", "command 9"]),
        ("engines", ["dma0", "% of", "simulated"]),
        ("counters", ["pe_utilisation", "36.0%"]),
        ("memory", ["ddr", "0x40000000", "in sram"]),
        ("life t1", ["1 allocate", "5 DMA", "→", "7 execute, synchronise", "read as an operand"]),
        ("bookmarks", ["no bookmarks"]),
        ("display", ["nothing is displayed"]),
        ("", ["info life"]),
        ("b", ["no breakpoints"]),
        ("n node2", ["node 2"]),
        ("eng", ["dma1"]),
    ],
)
def test_info(run, topic, words):
    run("goto 20")
    text = run(f"info {topic}")
    for word in words:
        assert word in text


def test_bookmarks_goto_and_when(run, debugger, failed):
    run("goto 7", "bookmark here", "goto 20", "goto here")
    assert debugger.seq == 7 and debugger.reason == ""
    assert "command 7 of 0.." in run("when") and "simulated" in run("when")
    run("goto +3")
    assert debugger.seq == 10
    run("goto cycle 0")
    assert debugger.seq == 0
    row = debugger.context.row(15)
    run(f"goto cycle {int(row['start'])}")
    assert debugger.seq == 15
    run("goto finding O401")
    assert debugger.seq == 9
    run("bookmark delete here")
    assert "no command" in failed("goto 99999")
    assert "end" in run("help goto")
    run("start")
    assert debugger.seq == 0
    run("end")
    assert debugger.seq == debugger.context.cursor.last


def test_list_find_and_repeat(run, debugger):
    run("goto 20")
    first = run("list")
    assert first.count("cycle") == 11 and ">      20" in first
    assert ">" not in run("")
    assert "node 2" in re.sub(" +", " ", run("find node2"))
    assert "next command" in run("find KERNEL")
    assert "nothing is called" in run("find zzzz")
    run("s", "", "")
    assert debugger.seq == 23


def test_golden_values(tmp_path, made, run, failed):
    number = next(n for n, t in made.tensors.items() if t.name == "t4")
    np.savez(tmp_path / "g.npz", t4=made.arrays[number], other=np.zeros(3))
    row = kernel(made, 4)
    run(f"goto {row[0]}")
    assert "no golden values are loaded" in failed("p golden")
    assert "1 have no tensor" in run(f"golden {tmp_path / 'g.npz'}")
    assert run("p allclose(out, golden)") == "= true"
    assert run("p snr(out, golden)") == "= inf"
    assert "no such file" in failed(f"golden {tmp_path / 'none.npz'}")


def test_unique_beginnings_aliases_and_mistakes(run, failed):
    run("goto 3", "reverse-s")
    assert "can be" in failed("reverse")
    assert "did you mean" in failed("stpe")
    assert "no verb" in failed("x16 3")
    assert "0 to" in failed("b 99999")
    assert "no node" in failed("b nosuch")
    assert "did you mean node1" in failed("info node node11x")
    text = failed("p 1 + (2 *").splitlines()
    assert text[2].index("^") - 2 == text[1].index("(2") - 2 + 4
    assert "after if" in failed("b node1 if")
    assert "no space" in failed("x vram:0x0")
    assert "say which" in failed("x 0xdeadbeef00")
    assert "no node Nope" in failed("b op Nope")


def test_completion(debugger):
    assert "step" in debugger.completions("st")
    assert debugger.completions("info tensor t") == [f"info tensor t{i}" for i in range(6)]
    assert "b node1" in debugger.completions("b no")
    assert "p max(abs(" in debugger.completions("p max(ab")
    assert debugger.completions("info li") == ["info life"]
    assert debugger.completions("zzz") == []
    assert "quit" in debugger.completions("")
    for text in ("b ", "info node ", "help s", "x ", "watch t"):
        for found in debugger.completions(text):
            assert found.startswith(text)


def test_help_covers_every_verb(run, debugger):
    text = run("help")
    for name in debugger.registry.names():
        assert name in text
        assert run(f"help {name}").startswith(debugger.registry.verbs[name].usage)


def test_scripts(tmp_path, debugger, run, failed):
    script = tmp_path / "s.gdb"
    script.write_text("# comment\n\ngoto 4\nwhen\n")
    assert "command 4" in run(f"source {script}")
    script.write_text("goto 4\nnonsense\n")
    with pytest.raises(ScriptError, match=r"s\.gdb:2: nonsense: no verb"):
        list(debugger.run_script(script))
    script.write_text(f"source {script}\n")
    assert "deep" in failed(f"source {script}")
    script.write_bytes(b"\xff\xfe")
    assert "UTF-8" in failed(f"source {script}")
    assert "no such script" in failed(f"source {tmp_path / 'none'}")
    assert "not a regular file" in failed(f"source {tmp_path}")


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.tuples(
            st.sampled_from(
                [
                    "b",
                    "watch",
                    "rwatch -l",
                    "p",
                    "x/8xb",
                    "x",
                    "info",
                    "goto",
                    "until",
                    "display",
                    "list",
                    "find",
                    "bt",
                    "up",
                    "ignore",
                    "condition",
                    "delete",
                    "help",
                    "s",
                    "info life",
                    "info node",
                    "info tensor",
                    "x/3i",
                    "p/x",
                    "undisplay",
                    "bookmark",
                    "tb",
                ]
            ),
            st.one_of(
                st.text(max_size=30),
                st.sampled_from(
                    [
                        "t1",
                        "t1[0,0,0]",
                        "/w1",
                        "0",
                        "-1",
                        "99999999999999999999",
                        "1 if",
                        "sram:0",
                        "sram:0x100+99999999",
                        "ddr:0x40000000..0x3",
                        "host:0x7000",
                        "#1",
                        "#99",
                        "[",
                        "t1[",
                        "t1[0:",
                        "out",
                        "node1 if nan(",
                        "cycle 1",
                        "cycle x",
                        "*",
                        "kind",
                        "if 1",
                        "if out",
                        "tensor('t1')",
                        "t1[9,9,9]",
                        "'",
                        "finding #0",
                        "engine mac",
                    ]
                ),
            ),
        ).map(" ".join),
    )
)
def test_no_line_raises(made, text):
    if "source" in text or "golden" in text:
        return
    with Session.open(made.path) as session:
        debugger = Interpreter(session)
        debugger.goto(30)
        for each in debugger.execute(text):
            assert "\n" not in each.text and "\x1b" not in each.text
            assert "contradicts itself" not in each.text, text
        debugger.completions(text)


def test_a_session_without_commands(tmp_path):
    writer = SessionWriter(tmp_path / "a.npudbg")
    x = np.arange(6, dtype="<f4").reshape(2, 3)
    writer.set_meta(Meta(backend="attached"))
    writer.add_tensor(
        TensorRecord(
            id=0,
            name="x",
            role="input",
            shape=(2, 3),
            dtype="<f4",
            address=0x5000,
            space="host",
            blob=writer.put_array(x),
        )
    )
    writer.add_node(NodeRecord(index=0, name="call", op_type="Run", inputs=(0,)))
    writer.close()
    with Session.open(tmp_path / "a.npudbg") as session:
        debugger = Interpreter(session)
        for text in ("s", "rc", "b call", "goto 0", "where", "info registers"):
            lines = debugger.execute(text)
            assert "no commands" in lines[0].text
        assert debugger.execute("p x[1,2]")[0].text == "= 5"
        assert "5" in debugger.execute("x/1fw host:0x5014")[0].text
        assert "life of x" in debugger.execute("info life x")[0].text
        assert not debugger.failed
        debugger.goto(5)
        assert debugger.seq == 0
