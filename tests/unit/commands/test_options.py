"""Options of run and check: their values, and one line for each mistake."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudbg.commands import options
from npudbg.commands.parser import Parser
from npudbg.session.errors import UserError
from npudbg.session.text import safe


def parsed(*argv: str) -> argparse.Namespace:
    parser = Parser("npudbg run")
    options.prepare_run_parser(parser)
    return parser.parse(argv)


def test_files_and_options_in_any_order() -> None:
    args = parsed("m.onnx", "--target", "rk3588", "a.npy", "--json", "b.npy", "--seed", "7")
    assert (args.model, args.inputs) == ("m.onnx", ["a.npy", "b.npy"])
    assert (args.target, args.json, args.seed) == ("rk3588", True, "7")


def test_a_whole_command_line_becomes_a_job() -> None:
    job = options.job_from(
        parsed(
            "m.onnx", "a.npy", "--input", "y=b.bin:float32:1x3", "--dim", "n=2", "--dim", "x.2=640",
            "--layout", "x=nhwc", "--mean", "0.485,0.456,0.406", "--std", "x=0.5", "--scale",
            "1/255", "--host-address", "x=0x12345000", "--precision", "fp16", "--save", "s.npudbg",
        )
    )  # fmt: skip
    assert job.model == "m.onnx"
    assert list(job.feeds) == ["a.npy", "y=b.bin:float32:1x3"]
    assert job.dims == {"n": 2, "x.2": 640}
    assert job.host_addresses == {"x": 0x12345000}
    assert job.precision == "fp16"
    everywhere, own = job.preprocessing[""], job.preprocessing["x"]
    assert everywhere.mean == own.mean == (0.485, 0.456, 0.406)
    assert everywhere.scale == own.scale == 1 / 255
    assert (everywhere.layout, everywhere.std) == (None, None)
    assert (own.layout, own.std) == ("NHWC", (0.5,))
    assert job.options["dim"] == ["n=2", "x.2=640"]
    assert "json" not in job.options
    json.dumps(job.options)


def test_nothing_given_asks_nothing() -> None:
    job = options.job_from(parsed("m.onnx"))
    assert (list(job.feeds), dict(job.dims), dict(job.preprocessing)) == ([], {}, {})
    assert (job.target, job.precision, job.seed, job.save) == ("generic", None, 0, None)


def test_a_model_is_asked_for() -> None:
    assert parsed("--fault", "list").fault == ["list"]
    with pytest.raises(UserError, match="which model"):
        options.job_from(parsed("--json"))


def test_a_symbol_may_hold_an_equals_sign() -> None:
    assert options.parse_dims(["a=b=3"]) == {"a=b": 3}
    assert options.parse_host_addresses(["a=b=16"]) == {"a=b": 16}


@pytest.mark.parametrize(
    ("parse", "spec", "said"),
    [
        (options.parse_dims, "batch", "NAME=N"),
        (options.parse_dims, "=3", "NAME=N"),
        (options.parse_dims, "n=0", "whole number"),
        (options.parse_dims, "n=-1", "whole number"),
        (options.parse_dims, "n=1e3", "whole number"),
        (options.parse_dims, "n=٣", "whole number"),
        (options.parse_dims, "n=99999999999", "whole number"),
        (options.parse_host_addresses, "x", "NAME=ADDRESS"),
        (options.parse_host_addresses, "x=12zz", "no address"),
        (options.parse_host_addresses, "x=0x1ffffffffffffffff", "no address"),
        (options.parse_host_addresses, "x=18446744073709551616", "no address"),
        (options.parse_host_addresses, "x=-1", "no address"),
    ],
)
def test_wrong_names_and_numbers(parse: object, spec: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        parse([spec])  # type: ignore[operator]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"layouts": ["NCWH"]}, "no layout"),
        ({"means": ["a,b"]}, "no number"),
        ({"means": ["nan"]}, "no number"),
        ({"means": ["1e999"]}, "no number"),
        ({"means": ["0.5,"]}, "no number"),
        ({"stds": ["0.5,0"]}, "divided"),
        ({"scales": ["1/0"]}, "no number"),
        ({"scales": ["0"]}, "divided"),
        ({"scales": ["1", "2"]}, "given twice"),
        ({"layouts": ["x=NCHW", "x=NHWC"]}, "given twice for x"),
        ({"means": [",".join(["1"] * 5000)]}, "at most"),
    ],
)
def test_wrong_preprocessing(given_: dict[str, list[str]], said: str) -> None:
    with pytest.raises(UserError, match=said):
        options.parse_preprocessing(**given_)


def test_two_sizes_for_one_axis() -> None:
    assert options.parse_dims(["n=2", "n=2"]) == {"n": 2}
    with pytest.raises(UserError, match="as 2 and as 3"):
        options.parse_dims(["n=2", "n=3"])


def test_seed_and_feeds() -> None:
    assert options.parse_seed("42") == 42
    for bad in ("-1", "x", "9223372036854775808", "1.0"):
        with pytest.raises(UserError, match="--seed"):
            options.parse_seed(bad)
    for bad in ("frame.npy", "=frame.npy", "x="):
        with pytest.raises(UserError, match="NAME=FILE"):
            options.parse_feeds([], [bad])


@given(st.lists(st.text(max_size=12), max_size=3))
def test_any_text_gives_values_or_one_line(specs: list[str]) -> None:
    for parse in (
        options.parse_dims,
        options.parse_host_addresses,
        lambda s: options.parse_preprocessing(means=s, scales=s, layouts=s),
        lambda s: options.parse_feeds([], s),
        lambda s: [options.parse_seed(t) for t in s],
    ):
        try:
            parse(specs)
        except UserError as error:
            assert str(error) == safe(error, 1000)


class TestManifest:
    def test_json_and_toml(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text('{"runtime": "1.4.0"}')
        (tmp_path / "a.toml").write_text('[driver]\nversion = "0.9.8"\n')
        assert options.parse_manifest(str(tmp_path / "a.json")) == {"runtime": "1.4.0"}
        assert options.parse_manifest(str(tmp_path / "a.toml")) == {"driver": {"version": "0.9.8"}}
        assert options.parse_manifest(None) == {}

    @pytest.mark.parametrize(
        ("name", "data", "said"),
        [
            ("a.json", b"[1]", "one table"),
            ("a.json", b"{", "not JSON"),
            ("a.json", b'{"a": NaN}', "not JSON"),
            ("a.json", b"[" * 100_000, "not JSON"),
            ("a.json", b'{"a":' * 40 + b"1" + b"}" * 40, "levels deep"),
            ("a.toml", b"a = ", "not TOML"),
            ("a.toml", b"\xff\xfe", "not TOML"),
            ("a.toml", b"#" * (300 << 10), "larger than"),
        ],
    )
    def test_files_that_are_none(self, tmp_path: Path, name: str, data: bytes, said: str) -> None:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=said) as caught:
            options.parse_manifest(str(tmp_path / name))
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize("name", ["nothing.json", ".", "a\0b"])
    def test_no_file(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(UserError, match="--manifest"):
            options.parse_manifest(f"{tmp_path}/{name}")
