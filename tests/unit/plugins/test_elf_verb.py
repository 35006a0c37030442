"""``npudbg elf`` as it is called: text, JSON, exit codes, saved sessions, the panel."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jsonschema
import pytest
from elf_writer import Elf, Sec, Seg, shared_library

from npudbg.plugins import PanelContext, Session, Subject, UserError, load_target, loaded
from npudbg_elf.panel import panel_lines

DATA = Path(__file__).parents[2] / "data" / "elf"
REAL = sorted(p for p in DATA.iterdir() if p.suffix != ".md")
TARGET = """
name = "chip"
title = "a chip for this test"
[elf]
machines = [62]
elf_class = 64
page_bytes = 16384
[elf.sections]
".npu." = 128
[sources]
"elf.machines" = "made up"
"elf.elf_class" = "made up"
"elf.page_bytes" = "made up"
"elf.sections" = "made up"
"""


def run(*args) -> int:
    verb = loaded().verb("elf")
    parser = argparse.ArgumentParser()
    verb.prepare_parser(parser)
    return verb.run(parser.parse_args([str(a) for a in args]))


@pytest.fixture
def chip(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(TARGET)
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.so"
    path.write_bytes(
        Elf(
            sections=[Sec(".npu.weights", b"w" * 64, 0x1040, 64)],
            segments=[Seg(0x1000, 0x1000, offset=0x1000)],
        ).build()
    )
    return path


def test_real_files_are_0(capsys):
    assert run(*REAL) == 0
    out = capsys.readouterr().out
    assert out.count(": ok\n") == len(REAL) == 4
    assert "ELF32 QDSP6 REL" in out and "ELF32 RISCV EXEC" in out


def test_faults_are_1(chip, bad, capsys):
    assert run(bad, "--target", chip) == 1
    out = capsys.readouterr().out
    assert "ERROR E508 section-demand" in out
    assert "ERROR E511 page-size" in out
    assert "remainder=64" in out
    assert "1 file on chip: 1 with errors" in out
    assert run(bad) == 0  # generic demands nothing of it


def test_an_html_page_among_good_files_is_1(tmp_path, capsys):
    page = tmp_path / "lib.so"
    page.write_text("<!DOCTYPE html><title>Sign in</title>")
    assert run(REAL[0], page) == 1
    assert "HTML page (titled 'Sign in')" in capsys.readouterr().out


def test_json(chip, bad, capsys):
    assert run(bad, REAL[0], "--target", chip, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "npudbg.elf/1"
    assert [f["machine_name"] for f in document["files"]] == ["X86_64", "RISCV"]
    keys = {
        "code", "name", "layer", "severity", "certainty", "subject", "message", "evidence", "fix",
        "origin", "source",
    }  # fmt: skip
    assert all(set(f) - {"related"} == keys for f in document["findings"])
    from npudbg.render.json_report import schema

    report = schema()
    one = {"$defs": report["$defs"], "$ref": "#/$defs/finding"}
    for each in document["findings"]:
        jsonschema.validate(each, one)
    codes = [f["code"] for f in document["findings"] if f["subject"]["file"] == str(bad)]
    assert codes == ["E508", "E511"]


def test_saved_and_shown_again(chip, bad, tmp_path, capsys):
    saved = tmp_path / "s.npudbg"
    assert run(bad, REAL[0], "--target", chip, "--save", saved) == 1
    bad.unlink()  # the session needs no file
    with Session.open(saved) as session:
        assert {f.code for f in session.findings} == {"E504", "E505", "E508", "E511"}
        context = PanelContext(session=session, target=load_target(str(chip)))
        text = "\n".join(each.text for each in panel_lines(context))
        assert ".npu.weights" in text and "E508" in text and "LOAD 0" in text
        (rule,) = [r for r in loaded().rules if r.source == "elf"]
        from npudbg.plugins import Case

        case = Case(target=load_target("generic"), session=session)
        assert list(rule.judge(case)) == []
        case = Case(target=load_target(str(chip)), session=session)
        assert {f.code for f in rule.judge(case)} == {"E504", "E505", "E508", "E511"}


def test_the_panel_of_opened_files_is_windowed(chip):
    context = PanelContext(files=(str(REAL[0]), "no such file"), height=8, width=80)
    lines = panel_lines(context)
    assert len(lines) == 8 and REAL[0].name in lines[0].text
    wanted = Subject(kind="section", name=".comment", address=0, file=str(REAL[0]))
    around = panel_lines(PanelContext(files=(str(REAL[0]),), height=8, selection=wanted))
    assert wanted in [each.subject for each in around]
    none = panel_lines(PanelContext())
    assert "no ELF file" in none[0].text and any("npudbg elf" in each.text for each in none)
    assert max(len(each.text) for each in none) <= 80
    assert len(panel_lines(PanelContext(height=3))) == 3


def test_search_and_environment(tmp_path, capsys):
    app = tmp_path / "a.so"
    app.write_bytes(shared_library(undefined=("foo",)))
    assert run(app, "--search", tmp_path) == 1
    assert "undefined symbol foo" in capsys.readouterr().out
    assert run("--env", "ADSP_LIBRARY_PATH=/a:/b") == 1
    assert run("--env", "ADSP_LIBRARY_PATH=/a;/b") == 0


def test_sections_are_listed(capsys):
    assert run(REAL[0], "--sections") == 0
    assert ".riscv.attributes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "no FILE given"),
        (["none.so"], "none.so: cannot be read"),
        (["."], "is a directory"),
        ([REAL[0], "--target", "no-such-chip"], "no-such-chip"),
        ([REAL[0], "--abi", "six"], "expected a version"),
        ([REAL[0], "--env", "six"], "NAME=VALUE"),
        ([REAL[0], "--search", "none"], "no such directory"),
    ],
)
def test_wrong_usage_is_one_line(args, words):
    with pytest.raises(UserError) as error:
        run(*args)
    assert words in str(error.value) and "\n" not in str(error.value)
