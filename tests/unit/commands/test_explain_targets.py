"""`npudbg explain` and `npudbg targets`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npudbg.cli import main
from npudbg.layers import catalogue
from npudbg.targets import loader

Captured = pytest.CaptureFixture[str]


class TestExplain:
    def test_one_code(self, capsys: Captured) -> None:
        assert main(["explain", "t301"]) == 0
        out = capsys.readouterr().out
        entry = catalogue.entry("T301")
        assert entry is not None
        assert out.startswith(f"T301 {entry.name}  {entry.severity}, layer 3 (trace)")
        words = " ".join(out.split())
        for text in (entry.title, entry.meaning, entry.why, entry.confirm, entry.mend):
            assert " ".join(text.split()) in words

    def test_by_name_and_several(self, capsys: Captured) -> None:
        assert main(["explain", "not-an-elf-file", "T301", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "npudbg.explain/1"
        assert [c["code"] for c in document["codes"]] == ["E501", "T301"]

    def test_list_has_every_code_once(self, capsys: Captured) -> None:
        assert main(["explain", "--list"]) == 0
        listed = [row.split()[0] for row in capsys.readouterr().out.splitlines()]
        assert len(listed) == len(set(listed))
        assert set(listed) == {e.code for e in catalogue.entries()}
        assert {"T301", "E501", "G601"} <= set(listed)

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["T30l"], "did you mean"),
            (["\x1b[1m"], "no such code"),
            ([], "give a code"),
        ],
    )
    def test_unknown(self, argv: list[str], said: str, capsys: Captured) -> None:
        assert main(["explain", *argv]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1 and "\x1b" not in err


class TestTargets:
    def test_list(self, capsys: Captured) -> None:
        assert main(["targets"]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert [r.split()[0] for r in rows] == list(loader.names())

    @pytest.mark.parametrize("name", ["rk3588", "generic", "generic-a57"])
    def test_one(self, name: str, capsys: Captured) -> None:
        assert main(["targets", name]) == 0
        assert capsys.readouterr().out.startswith(name)

    def test_figures_have_sources(self, capsys: Captured) -> None:
        assert main(["targets", "generic-a57", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "npudbg.targets/1"
        figures = document["targets"][0]["figures"]
        assert all(f["source"] for f in figures)
        sram = next(f for f in figures if "sram_bytes" in f["field"])
        assert "512" in sram["value"]

    def test_a_profile_to_start_from(self, tmp_path: Path, capsys: Captured) -> None:
        assert main(["targets", "rk3588", "--toml"]) == 0
        mine = tmp_path / "mine.toml"
        mine.write_text(capsys.readouterr().out)
        assert main(["targets", str(mine)]) == 0
        assert capsys.readouterr().out.startswith("rk3588")

    @pytest.mark.parametrize("argv", [["rk3589x"], ["--toml"], ["."], ["none.toml"]])
    def test_wrong(self, argv: list[str], capsys: Captured) -> None:
        assert main(["targets", *argv]) == 2
        err = capsys.readouterr().err
        assert err.startswith("npudbg: ") and err.count("\n") == 1
