"""Comparison of sessions: where two runs part, by values that can be worked out by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from npudbg import cli
from npudbg.commands.comparing.sessions import compare
from npudbg.commands.demo import run_case
from npudbg.commands.forking import fork
from npudbg.render.comparison import comparison_lines, short_lines
from npudbg.session.commands import COMMAND, Kind, Space
from npudbg.session.comparison import Comparison
from npudbg.session.reader import Session
from npudbg.session.records import (
    Counter,
    Finding,
    Meta,
    NodeRecord,
    Stats,
    Subject,
    TensorRecord,
    Verdict,
)
from npudbg.session.rerun import Changes, Poke
from npudbg.session.writer import SessionWriter

SAVED = Path(__file__).parents[3] / "sessions"
X = np.arange(8, dtype="f4")
NOTHING = [[0, 0]] * 5
Make = Callable[..., Session]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a session of `y = x` in two tiles; keywords change it."""
    count = iter(range(100))

    def made(
        y: Any = X,
        *,
        rows: dict[int, dict[str, Any]] | None = None,
        length: int = 6,
        findings: tuple[Finding, ...] = (),
        utilisation: float = 0.5,
        strides: tuple[int, ...] = (4,),
        status: str = "complete",
        payloads: dict[int, bytes] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Session:
        path = tmp_path / f"{next(count)}.npudbg"
        writer = SessionWriter(path)
        y = np.asarray(y)
        facts: dict[str, Any] = {"shape": (8,), "dtype": "<f4", "stats": Stats(count=8)}
        writer.add_tensor(
            TensorRecord(
                id=0, name="x", role="input", address=0x5000, space="host", owner="npudbg",
                strides=strides, consumers=(0,), blob=writer.put_array(X), **facts,
            )
        )  # fmt: skip
        writer.add_tensor(
            TensorRecord(
                id=1, name="y", role="output", address=0x100, space="ddr", producer=0,
                strides=(4,), first_seq=1, last_seq=5, blob=writer.put_array(y),
                **{**facts, "shape": y.shape, "dtype": y.dtype.str},
            )
        )  # fmt: skip
        writer.add_node(
            NodeRecord(index=0, name="/same", op_type="Identity", inputs=(0,), outputs=(1,))
        )
        table = np.zeros(length, COMMAND)
        for seq in range(length):
            row = table[seq]
            tile = seq // 3
            row["seq"], row["start"], row["end"] = seq, 10 * seq, 10 * seq + 9
            row["kind"] = (Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE)[seq % 3]
            row["tensor"], row["tile"], row["nbytes"] = (0 if seq % 3 == 0 else 1), tile, 16
            row["dst_space"] = Space.DDR if seq % 3 == 2 else Space.SRAM
            row["dst"] = 0x100 + 16 * tile if seq % 3 == 2 else 64 * (seq % 3)
            if seq % 3 == 0:
                row["src_space"], row["src"] = Space.HOST, 0x5000 + 16 * tile
            row["box"][0] = 4 * tile, 4 * tile + 4
            for name, value in (rows or {}).get(seq, {}).items():
                row[name] = value
        writer.append_commands(table)
        for seq, data in (payloads or {}).items():
            writer.put_payload(seq, data)
        writer.set_meta(Meta(target="t", engines=("dma0",), **(meta or {})))
        writer.finish(status=status)
        code = findings[0].code if findings else ""
        writer.amend(
            findings, Verdict(layer=0, code=code, summary=""),
            [Counter(name="pe", value=utilisation, unit="fraction")],
        )  # fmt: skip
        writer.publish()
        return Session.open(path)

    return made


def text(found: Comparison) -> str:
    lines = comparison_lines(found, 100)
    assert max(len(each.text) for each in lines) <= 100
    return "\n".join(each.text for each in lines)


def found(code: str, name: str = "y") -> Finding:
    return Finding(
        code=code, name="n", layer=4, severity="error", certainty="proven",
        subject=Subject(kind="tensor", name=name), message=f"{code} of {name}",
    )  # fmt: skip


def test_equal(make: Make) -> None:
    result = compare(make(), make())
    assert result.equal and result.command is None and result.compared == 2
    assert "equal: 6 commands, 2 tensors" in text(result)


def test_a_value_in_the_second_tile(make: Make) -> None:
    other = X.copy()
    other[6] = 8.0  # 6 before
    result = compare(make(), make(other))
    assert not result.equal and result.differing == 1
    (tensor,) = result.tensors
    assert (tensor.name, tensor.node, tensor.reason) == ("y", "/same", "values")
    m = tensor.metrics
    assert (m.max_abs, m.mismatches, m.count, m.first) == (2.0, 1, 8, 6)
    assert m.cosine == pytest.approx(
        float(X @ other) / float(np.linalg.norm(X) * np.linalg.norm(other))
    )
    # Command 4 is the kernel of tile 1: elements 4 to 7; 8.0 and 6.0 differ in one byte or more.
    assert (result.command.seq, result.command.kind, result.command.node) == (4, "KERNEL", "/same")
    differ = sum(a != b for a, b in zip(struct.pack("<f", 6), struct.pack("<f", 8), strict=True))
    assert result.command.wrote == differ
    assert result.outputs == result.tensors
    assert "they part at command 4" in text(result)


@pytest.mark.parametrize(
    ("seq", "column", "value", "shown"),
    [
        (2, "end", 31, ("end", 29, 31)),
        (5, "dst", 0x200, ("dst", 0x110, 0x200)),
        (1, "kind", Kind.HOST, ("kind", "KERNEL", "HOST")),
        (3, "status", 1, ("status", "ok", "hung")),
        (0, "box", [[0, 2], *NOTHING], ("box", [[0, 4], *NOTHING], [[0, 2], *NOTHING])),
    ],
)  # fmt: skip
def test_a_row(make: Make, seq: int, column: str, value: Any, shown: tuple[Any, ...]) -> None:
    result = compare(make(), make(rows={seq: {column: value}}))
    assert not result.equal and not result.tensors
    assert result.command.seq == seq
    (pair,) = result.command.fields
    assert (pair.name, pair.a, pair.b) == shown


def test_where_npudbg_put_its_own_copy_of_an_input_means_nothing(make: Make) -> None:
    assert compare(make(), make(rows={0: {"src": 0x9000}, 3: {"src": 0x9010}})).equal


def test_more_commands(make: Make) -> None:
    result = compare(make(), make(length=7))
    assert result.command.seq == 6
    assert [(p.name, p.a, p.b) for p in result.command.fields] == [("there", False, True)]
    assert (result.commands.a, result.commands.b) == (6, 7)


def test_a_kept_payload_goes_before_what_the_tensor_says(make: Make) -> None:
    """B's command 1 wrote something else than what its tensor holds in the end."""
    clean = X[:4].tobytes()
    result = compare(make(), make(payloads={1: b"\x01" + clean[1:]}))
    assert result.command.seq == 1 and result.command.wrote == 1
    # Changed after command 2 had stored it: the kernel before wrote the same.
    other = X.copy()
    other[0] = 5
    result = compare(make(), make(other, payloads={1: clean}))
    assert result.command.seq == 2


def test_strides_are_a_difference_of_their_own(make: Make) -> None:
    result = compare(make(), make(strides=(8,)))
    (tensor,) = result.tensors
    assert (tensor.name, tensor.reason) == ("x", "strides")
    assert (tensor.what.a, tensor.what.b) == ([4], [8])


@pytest.mark.parametrize(
    ("y", "reason"), [(X.reshape(2, 4), "shape"), (X.astype("<f2"), "dtype"), (-X, "values")]
)
def test_reasons(make: Make, y: Any, reason: str) -> None:
    result = compare(make(), make(y))
    (tensor,) = result.tensors
    assert tensor.reason == reason
    if reason == "dtype":  # the same numbers in fp16
        assert tensor.metrics.max_abs == 0 and tensor.metrics.mismatches == 0
    assert not result.equal and "y " in text(result)


def test_zero_and_minus_zero_are_other_bytes(make: Make) -> None:
    other = X.copy()
    other[0] = -0.0
    result = compare(make(), make(other))
    assert not result.equal
    assert "the same numbers in other bytes" in text(result)


def test_findings_gained_and_lost(make: Make) -> None:
    a = make(findings=(found("O401"), found("O401", "z"), found("T344")))
    b = make(findings=(found("O401"), found("O402"), found("T344"), found("T344")))
    result = compare(a, b)
    assert [(f.code, f.subject.name) for f in result.gained] == [("O402", "y"), ("T344", "y")]
    assert [(f.code, f.subject.name) for f in result.lost] == [("O401", "z")]
    assert not result.equal and result.verdicts.a == result.verdicts.b == "O401"


def test_figures_and_status(make: Make) -> None:
    result = compare(make(utilisation=0.5), make(utilisation=0.25, status="cancelled"))
    assert not result.equal and result.command is None
    out = text(result)
    assert "50%" in out and "25%" in out and "-50.0%" in out and "cancelled" in out


def test_settings_that_differ_are_said_and_decide_nothing(make: Make) -> None:
    result = compare(make(), make(meta={"precision": "fp16", "options": {"fault": ["hang"]}}))
    assert result.equal
    assert {(p.name, str(p.a), str(p.b)) for p in result.settings} == {
        ("precision", "fp32", "fp16"), ("--fault", "None", "['hang']"),
    }  # fmt: skip


def test_names_are_data(make: Make) -> None:
    evil = "\x1b[2J\u202e[red]" + "n" * 500
    result = compare(make(), make(findings=(found("O401", evil),), meta={"options": {evil: evil}}))
    shown = text(result) + "\n".join(each.text for each in short_lines(result))
    assert "\x1b" not in shown and "\u202e" not in shown


def test_a_poked_nan_is_named_by_its_command(tmp_path: Path) -> None:
    with Session.open(run_case("clean", save=str(tmp_path / "a.npudbg")).path) as a:
        rows = a.commands(0, a.n_commands)
        mean = a.tensor("stem/bn.mean")
        load = rows[(rows["kind"] == Kind.DMA_LOAD) & (rows["tensor"] == mean.id)][0]
        reader = next(
            int(r["seq"]) for r in a.accesses(0, a.n_commands)
            if r["tensor"] == mean.id and r["space"] == Space.SRAM
        )  # fmt: skip
        poke = Poke(
            after=int(load["seq"]), space="sram", address=int(load["dst"]),
            data=struct.pack("<f", float("nan")),
        )  # fmt: skip
        judged = fork(a, Changes(pokes=(poke,)), save=str(tmp_path / "b.npudbg"))
        with Session.open(judged.path) as b:
            result = compare(a, b)
    assert result.command.seq == reader
    assert (result.command.kind, result.command.node) == ("KERNEL", "/stem/bn")
    assert result.command.foreign == ("b",)
    assert result.tensors[0].name == "stem/bn"  # though it never leaves the chip
    assert result.tensors[0].metrics.nonfinite == 400  # channel 0, 20 x 20
    assert [t.name for t in result.outputs] == ["scores"]
    assert [f.code for f in result.gained] == ["T344", "O401", "O402"] and not result.lost
    assert [p.name for p in result.settings] == ["pokes"]


class TestVerb:
    def test_equal_is_0_and_different_1(self, capsys: pytest.CaptureFixture[str]) -> None:
        clean, order = (str(SAVED / f"{n}.npudbg") for n in ("clean", "f-order"))
        assert cli.main(["compare", clean, clean]) == 0
        assert "equal: 54 commands" in capsys.readouterr().out
        assert cli.main(["compare", clean, order]) == 1
        out = capsys.readouterr().out
        assert "strides (19200, 6400, 160, 4) | (4, 4, 12, 480)" in out
        assert "H101" in out

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        clean, half = (str(SAVED / f"{n}.npudbg") for n in ("clean", "fp16-overflow"))
        assert cli.main(["compare", clean, half, "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document.pop("schema") == "npudbg.compare/1"
        assert not document["equal"] and document["commands"]["a"] == 54
        assert msgspec.convert(document, Comparison, strict=False).gained[0].code

    def test_unusable_is_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        bad = tmp_path / "bad.npudbg"
        bad.write_bytes(b"no session")
        clean = str(SAVED / "clean.npudbg")
        for pair in ([clean, str(bad)], [str(tmp_path / "none"), clean]):
            assert cli.main(["compare", *pair]) == 2
            err = capsys.readouterr().err
            assert err.count("\n") == 1


@pytest.mark.parametrize("size", range(0, 140_000, 20_000))
def test_a_cut_session_never_shows_a_traceback(
    size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (SAVED / "clean.npudbg").read_bytes()
    cut = tmp_path / "cut.npudbg"
    cut.write_bytes(whole[: max(len(whole) - size - 1, 200)])
    assert cli.main(["compare", str(SAVED / "clean.npudbg"), str(cut)]) in (1, 2)
    assert "internal error" not in capsys.readouterr().err
