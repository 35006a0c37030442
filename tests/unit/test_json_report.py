"""The JSON report: what it says of a session, and that it keeps its published schema."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.render.json_report import report, schema
from npudbg.session.commands import COMMAND
from npudbg.session.jsonable import finite
from npudbg.session.reader import Session
from npudbg.session.records import (
    Counter,
    Finding,
    Meta,
    ModelRecord,
    Quantization,
    Stats,
    Subject,
    TensorRecord,
    ValueContract,
    Verdict,
)
from npudbg.session.writer import SessionWriter

VALIDATOR = jsonschema.Draft202012Validator(schema())

MODEL = ModelRecord(
    name="net.onnx",
    path="models/net.onnx",
    sha256="0" * 64,
    nbytes=1234,
    producer="pytorch 2.4",
    ir_version=9,
    opset={"": 17, "com.microsoft": 1},
    inputs=(ValueContract(name="x", dtype="<f4", shape=(1, "h", None)),),
    outputs=(ValueContract(name="y", dtype="<f4", shape=None),),
    operators={"Conv": 3},
)
FINDING = Finding(
    code="H101",
    name="not-c-contiguous",
    layer=1,
    severity="error",
    certainty="proven",
    subject=Subject(kind="tensor", name="x", tensor=0),
    message="x is a transposed view",
    evidence={"strides": [4, 16], "wrong": 12, "total": 16, "worst": math.inf, "deep": [math.nan]},
    fix="np.ascontiguousarray(x)",
    related=(Subject(kind="command", seq=7),),
)


def judged(path: Path, **changes: object) -> Session:
    writer = SessionWriter(path)
    writer.set_meta(Meta(version="9.9", model=MODEL, target="rk3588", precision="fp16"))
    blob = writer.put_array(np.zeros((4, 4), "f4"))
    writer.add_tensor(
        TensorRecord(
            id=0,
            name="x",
            role="input",
            shape=(4, 4),
            dtype="<f4",
            strides=(4, 16),
            address=0x7FFF_0000_1234,
            address_origin="measured",
            base_nbytes=64,
            blob=blob,
            quantization=Quantization(scale=(0.5,), zero_point=(-3,)),
            stats=Stats(count=16, nan=1, min=-math.inf, max=math.nan, mean=0.5),
        )
    )
    writer.add_tensor(TensorRecord(id=1, name="y", role="output", shape=(4,), dtype="<f4"))
    rows = np.zeros(3, COMMAND)
    rows["seq"] = [0, 1, 2]
    writer.append_commands(rows)
    writer.add_findings([FINDING])
    writer.set_verdict(
        Verdict(layer=1, code="H101", summary="a view", chain=("a", "b"), ruled_out=(), finding=0)
    )
    writer.set_counters([Counter(name="pe_utilisation", value=0.25, unit="fraction")])
    writer.close()
    return Session.open(path)


def test_schema_is_itself_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_report_says_what_the_session_holds(tmp_path: Path) -> None:
    with judged(tmp_path / "a.npudbg") as session:
        document = report(session, path=tmp_path / "a.npudbg")
    VALIDATOR.validate(document)
    assert document["schema"] == "npudbg.report/1"
    assert document["model"]["name"] == "net.onnx"
    assert document["model"]["inputs"][0]["shape"] == [1, "h", None]
    assert document["model"]["outputs"][0]["shape"] is None
    assert (document["target"], document["precision"]) == ("rk3588", "fp16")
    assert [i["name"] for i in document["inputs"]] == ["x"]
    assert document["inputs"][0]["strides"] == [4, 16]
    assert document["inputs"][0]["address"] == 0x7FFF_0000_1234
    assert document["inputs"][0]["quantization"] == {
        "scale": [0.5],
        "zero_point": [-3],
        "axis": None,
    }
    assert document["verdict"] == {
        "layer": 1,
        "code": "H101",
        "summary": "a view",
        "chain": ["a", "b"],
        "ruled_out": [],
        "finding": 0,
    }
    assert document["counters"]["pe_utilisation"] == {
        "value": 0.25,
        "unit": "fraction",
        "origin": "simulated",
        "healthy": "",
        "dangerous": "",
    }
    assert (document["nodes"], document["commands"]) == (0, 3)
    assert document["session"] == str(tmp_path / "a.npudbg")


def test_numbers_that_json_lacks_are_strings(tmp_path: Path) -> None:
    with judged(tmp_path / "a.npudbg") as session:
        document = report(session)
    stats = document["inputs"][0]["stats"]
    assert (stats["min"], stats["max"], stats["mean"], stats["std"]) == ("-inf", "nan", 0.5, None)
    evidence = document["findings"][0]["evidence"]
    assert (evidence["worst"], evidence["deep"]) == ("inf", ["nan"])
    # Python's own reader takes NaN; the standard does not.
    json.loads(json.dumps(document), parse_constant=lambda c: pytest.fail(f"{c} in the document"))


def test_a_session_without_model_or_verdict(tmp_path: Path) -> None:
    writer = SessionWriter(tmp_path / "bare.npudbg")
    writer.set_meta(Meta(backend="attached"))
    writer.close(status="cancelled")
    with Session.open(tmp_path / "bare.npudbg") as session:
        document = report(session)
    VALIDATOR.validate(document)
    assert document["model"] is None
    assert document["verdict"] is None
    assert document["status"] == "cancelled"
    assert document["session"] is None


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("verdict", "layer"), 5),
        (("verdict", "extra"), 1),
        (("findings", 0, "code"), "H1"),
        (("findings", 0, "severity"), "fatal"),
        (("findings", 0, "subject", "kind"), "thing"),
        (("findings", 0, "evidence"), []),
        (("inputs", 0, "stats", "min"), "NaN"),
        (("counters", "pe_utilisation"), 0.25),
        (("schema",), "npudbg.report/2"),
        (("surprise",), 1),
    ],
)
def test_schema_refuses(tmp_path: Path, place: tuple[str | int, ...], value: object) -> None:
    with judged(tmp_path / "a.npudbg") as session:
        document = report(session)
    part = document
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    assert not VALIDATOR.is_valid(document)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_VALUES = st.recursive(
    _LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3)
)


@settings(max_examples=100)
@given(_VALUES)
def test_any_value_becomes_strict_json(value: object) -> None:
    json.dumps(finite(value), allow_nan=False)
