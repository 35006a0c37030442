"""Target profiles: the bundled ones, what is refused and how, and the view of one."""

from __future__ import annotations

import subprocess
import sys
import time
import typing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.device.machine import DEFAULT_SRAM_BYTES
from npudbg.session.errors import UserError
from npudbg.targets import loader
from npudbg.targets.describe import ASSUMED, UNKNOWN, UNSOURCED, rows, size_text
from npudbg.targets.fields import fields, paths
from npudbg.targets.operators_supported import supports
from npudbg.targets.profile import ASSUMED_SRAM_BYTES, Target
from npudbg.targets.validate import _BY_DTYPE, _CHECKS, unsourced

CHIPS = (
    "ascend310", "ascend310p", "ethos-u55-128", "ethos-u65-256", "generic", "generic-a57",
    "hexagon-v73", "intel-npu4", "mlu", "rk3566", "rk3576", "rk3588", "rv1106", "systolic-32x32",
    "xdna",
)  # fmt: skip
HEAD = 'name = "x"\ntitle = "X"\n'


def refusal(text: str) -> str:
    with pytest.raises(UserError) as caught:
        loader.load_toml_text(text, "mine.toml")
    line = str(caught.value)
    assert line.startswith("target mine.toml: ")
    assert "\n" not in line and "\x1b" not in line and len(line) < 700
    return line


class TestBundled:
    def test_names(self) -> None:
        assert loader.names() == CHIPS

    @pytest.mark.parametrize("name", CHIPS)
    def test_loads_and_every_figure_has_a_source(self, name: str) -> None:
        target = loader.load(name)
        assert target.name == name
        assert unsourced(target) == []
        # A source speaks of a figure that stands there: nothing left over from an edit.
        text = loader.toml_text(name)
        table = loader.tomllib.loads(text)
        for path in target.sources:
            section, _, key = path.partition(".")
            assert section in table and (not key or key in table[section]), path
        for section, values in table.items():
            if isinstance(values, dict) and section != "sources":
                for key in values:
                    assert {section, f"{section}.{key}"} & set(target.sources), (section, key)

    @pytest.mark.parametrize("name", CHIPS)
    def test_names_no_address_and_no_path_of_a_machine(self, name: str) -> None:
        text = loader.toml_text(name)
        assert "http" not in text and "/work" not in text and "/home" not in text

    def test_case_does_not_matter(self) -> None:
        assert loader.load("RK3588") == loader.load("rk3588")

    @pytest.mark.parametrize(
        ("name", "path", "value"),
        [
            ("generic-a57", "memory.sram_bytes", 512 * 1024),
            ("generic-a57", "dma.base_alignment", 64 * 1024),
            ("generic-a57", "dma.length_bits", 31),
            ("generic-a57", "cache.line_bytes", 64),
            ("generic-a57", "cache.coherent", False),
            ("rk3588", "dma.bytes_per_cycle", 23.65),
            ("rk3576", "dma.bytes_per_cycle", 7.46),
            ("rk3566", "dma.bytes_per_cycle", 6.57),
            ("rv1106", "dma.bytes_per_cycle", 6.16),
            ("rk3566", "dma.mask_bits", 32),
            ("rk3588", "operators.opset_min", 12),
            ("rk3588", "operators.opset_max", 19),
            ("rk3588", "tensor.batch1_stride", True),
            ("ascend310p", "operators.opset_min", 11),
            ("ascend310p", "tensor.size_multiple", 16),
            ("ascend310p", "compute.saturate", True),
            ("hexagon-v73", "tensor.static_shapes", True),
            ("hexagon-v73", "memory.sram_bytes", 8 << 20),
            ("xdna", "tensor.base_alignment", 128),
            ("ethos-u55-128", "tensor.base_alignment", 16),
            ("ethos-u55-128", "tensor.native_layout", "NHCWB16"),
            ("systolic-32x32", "compute.mac_model", "systolic"),
            ("generic", "memory.sram_bytes", 2 << 20),
        ],
    )
    def test_figures_that_the_field_reports(self, name: str, path: str, value: object) -> None:
        assert {f.path: f.value for f in fields(loader.load(name))}[path] == value

    @pytest.mark.parametrize(
        ("name", "products"),
        [("ethos-u55-128", 128), ("ethos-u65-256", 256), ("rk3588", 1024), ("rk3566", 512),
         ("ascend310", 8192), ("ascend310p", 8192), ("xdna", 4096)],
    )  # fmt: skip
    def test_int8_products_a_cycle_are_the_data_sheets(self, name: str, products: int) -> None:
        compute = loader.load(name).compute
        columns = compute.mac_cols_by_dtype.get("int8", compute.mac_cols)
        assert compute.mac_rows * columns * compute.mac_positions == products

    def test_fp16_products_of_the_cube(self) -> None:
        compute = loader.load("ascend310p").compute
        assert compute.mac_rows * compute.mac_cols * compute.mac_positions == 16**3

    def test_thresholds_of_the_field(self) -> None:
        limits = loader.load("generic-a57").thresholds
        assert {n: (t.healthy, t.dangerous, t.high_is_good) for n, t in limits.items()} == {
            "pe_utilisation": (0.7, 0.4, True),
            "sram_bandwidth": (0.7, 0.9, False),
            "noc_congestion": (0.3, 0.8, False),
            "dma_saturation": (0.6, 0.95, False),
        }

    def test_generic_demands_nothing(self) -> None:
        target = loader.load("generic")
        assert [f.path for f in fields(target) if f.given] == ["memory.sram_bytes"]

    def test_one_profile_is_parsed_and_numpy_stays_out(self) -> None:
        code = (
            "import sys, npudbg.targets.loader as l\n"
            "seen = []\n"
            "parse = l.tomllib.loads\n"
            "l.tomllib.loads = lambda text: seen.append(1) or parse(text)\n"
            "l.load('mlu')\n"
            "print(len(seen), 'numpy' in sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True
        )
        assert done.stdout.split() == ["1", "False"], done.stderr


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[dma]\nbase_alignement = 64\n", "base_alignement: no such key (did you mean base_al"),
            ("wheels = 4\n", "wheels: no such key"),
            ('[thresholds.pe_utilisation]\nhealty = 1\n', "thresholds.*.healty: no such key"),
            ('[dma]\nchannels = "4"\n', "dma.channels: expected int, got str"),
            ("[dma]\nchannels = true\n", "dma.channels: expected int, got bool"),
            ("[dma]\nchannels = 2.0\n", "dma.channels: expected int, got float"),
            ("[dma]\nbase_alignment = 1979-05-27\n", "dma.base_alignment: expected"),
            ("dma = 3\n", "dma: expected a table, got int"),
            ('[compute]\nmac_model = "magic"\n', "'magic'; expected one of array, systolic"),
            ("[elf]\nelf_class = 48\n", "48; expected one of 32, 64"),
            ('[compute]\ndtypes = ["fp16", 3]\n', "compute.dtypes[1]: expected str, got int"),
            ('[compute]\ndtypes = ["float32"]\n', "compute.dtypes: ('float32',); expected only"),
            ("[dma]\nbase_alignment = 48\n", "dma.base_alignment: 48; expected a power of two"),
            ("[dma]\nbase_alignment = 0\n", "dma.base_alignment: 0; expected a power of two"),
            ("[dma]\nburst_bytes = -64\n", "dma.burst_bytes: -64; expected a power of two"),
            ("[cache]\nline_bytes = 63\n", "cache.line_bytes: 63; expected a power of two"),
            ('[elf.sections]\n".w" = 3\n', "elf.sections: {'.w': 3}; expected a power of two"),
            ("[memory]\nsram_bytes = -1\n", "memory.sram_bytes: -1; expected"),
            ("[memory]\nsram_bytes = 0\n", "memory.sram_bytes: 0; expected"),
            ("[memory]\nsram_bytes = 1_099_511_627_776\n", "memory.sram_bytes: 1099511627776"),
            ("[dma]\nlength_bits = 65\n", "dma.length_bits: 65; expected 1 to 64 bits"),
            ("[dma]\nchannels = 0\n", "dma.channels: 0; expected 1 to 64"),
            ("[dma]\nbytes_per_cycle = 0.0\n", "dma.bytes_per_cycle: 0.0; expected a positive"),
            ("[dma]\nbytes_per_cycle = nan\n", "dma.bytes_per_cycle: nan; expected"),
            ("[dma]\nbytes_per_cycle = inf\n", "dma.bytes_per_cycle: inf; expected"),
            ("[dma]\nsetup_cycles = -1\n", "dma.setup_cycles: -1; expected"),
            ("[clock]\nhost_call_us = -0.5\n", "clock.host_call_us: -0.5; expected"),
            ("[clock]\ndevice_hz = 0\n", "clock.device_hz: 0; expected 1 Hz"),
            ("[tensor]\nmax_rank = 0\n", "tensor.max_rank: 0; expected"),
            ("[memory]\nddr_bytes = 1" + "0" * 30 + "\n", "memory.ddr_bytes: "),
            ("[memory]\nddr_base = 0\nsram_bytes = 4096\n", "memory.sram_base: SRAM at 0x0 to"),
            ("[dma]\nmask_bits = 16\n", "memory.ddr_base: 0x40000000 is beyond dma.mask_bits"),
            ('[compute]\nprecisions = ["fp16"]\n', "compute.default_precision: fp32; expected"),
            ('[compute]\ndtypes = ["int8"]\n', "compute.default_precision: fp32; expected a type"),
            ("[compute.mac_cols_by_dtype]\nfp17 = 4\n", "mac_cols_by_dtype.fp17: no such type"),
            ("[compute.mac_cols_by_dtype]\nfp16 = 0\n", "mac_cols_by_dtype.fp16: 0; expected"),
            ('[compute.accumulator]\nint8 = "int23"\n', "accumulator.int8: no such type"),
            ('[operators]\nmode = "only"\n', "operators.supported: empty"),
            ('[operators]\nsupported = ["Conv"]\n', "operators.supported: has no effect"),
            ('[operators]\nmode = "only"\nsupported = ["A"]\nunsupported = ["A"]\n', "A is in"),
            ("[operators]\nopset_min = 12\nopset_max = 11\n", "operators.opset_min: 12; expected"),
            ("[thresholds]\na = { healthy = 0.4, dangerous = 0.4 }\n", "thresholds.a: expected"),
            ("[thresholds]\na = { healthy = 2, dangerous = 3 }\n", "thresholds.a.healthy: 2"),
            (
                "[thresholds]\na = { healthy = 0.1, dangerous = 0.4, high_is_good = true }\n",
                "thresholds.a: expected healthy above dangerous",
            ),
            ('[sources]\n"dma.base_alignmint" = "a"\n', "dma.base_alignmint: no such field"),
            ('[sources]\n"dma.channels" = " "\n', "sources.dma.channels: empty"),
        ],
    )  # fmt: skip
    def test_key_and_expectation_are_named(self, text: str, said: str) -> None:
        assert said in refusal(HEAD + text)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "name: missing"),
            ('name = "x"\n', "title: missing"),
            ('name = ""\ntitle = "t"\n', "name: expected letters"),
            ('name = "\\u001b[2J"\ntitle = "t"\n', "name: expected letters"),
            ('name = "x"\ntitle = "  "\n', "title: expected some words"),
            ("name == 3", "not TOML: "),
            ("\x00\x1b[31m", "not TOML: "),
            ("a = " + "9" * 5000, "not TOML: "),
            ("a = " + "[" * 20_000, "nested too deep"),
            ("a = " + "{b=" * 20_000, "nested too deep"),
            ("a." * 60_000 + "a = 1", "line 1: more than 200 dots"),
            ("#" * (loader.MAX_BYTES + 1), "larger than 256 KB"),
        ],
    )
    def test_whole_texts(self, text: str, said: str) -> None:
        started = time.perf_counter()
        assert said in refusal(text)
        assert time.perf_counter() - started < 5

    def test_long_keys_below_the_bound_do_not_hang(self) -> None:
        line = "a." * 200 + "b{} = 1\n"
        text = "".join(line.format(n) for n in range(600))
        started = time.perf_counter()
        assert "a: no such key" in refusal(text)
        assert time.perf_counter() - started < 5

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("rk3589", "did you mean rk3588?"),
            ("RK3588.toml", "no such profile and no such file"),
            ("nothing-like-it", "known: ascend310, "),
            ("", "directory"),
            ("\x00", "no such profile"),
            ("x" * 5000, "no such profile"),
            ("\x1b[31mred", "no such profile"),
        ],
    )
    def test_unknown_names(self, name: str, said: str) -> None:
        for ask in (loader.load, loader.toml_text):
            with pytest.raises(UserError) as caught:
                ask(name)
            assert said in str(caught.value)
            assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)

    def test_files(self, tmp_path: Path) -> None:
        good = tmp_path / "good.toml"
        good.write_text(HEAD)
        assert loader.load(str(good)).title == "X"
        assert loader.toml_text(str(good)) == HEAD
        cases = {
            "a directory; expected": tmp_path,
            "byte 8 is not UTF-8": tmp_path / "latin.toml",
            "larger than 256 KB": tmp_path / "huge.toml",
            "not TOML": tmp_path / "page.html",
        }
        (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"\n')
        with (tmp_path / "huge.toml").open("wb") as file:
            file.truncate(1 << 40)
        (tmp_path / "page.html").write_text("<html><body>404</body></html>\n")
        for said, path in cases.items():
            with pytest.raises(UserError, match=said) as caught:
                loader.load(str(path))
            assert "\n" not in str(caught.value)

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        import os

        pipe = tmp_path / "pipe.toml"
        os.mkfifo(pipe)
        with pytest.raises(UserError, match="not a regular file"):
            loader.load(str(pipe))

    @settings(max_examples=300, deadline=None)
    @given(st.text(max_size=400))
    def test_any_text_is_a_profile_or_refused(self, text: str) -> None:
        try:
            loader.load_toml_text(text, "t")
        except UserError as error:
            assert "\n" not in str(error)

    SCALAR = st.one_of(
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.booleans(),
        st.text(st.characters(codec="utf-8"), max_size=12),
    )

    @settings(max_examples=400, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(sorted(paths())), SCALAR), max_size=6))
    def test_any_values_are_a_profile_or_refused(self, pairs: list[tuple[str, object]]) -> None:
        lines = [f"{path} = {_toml(value)}" for path, value in dict(pairs).items()]
        try:
            target = loader.load_toml_text(HEAD + "\n".join(lines), "t")
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert len(rows(target)) >= len(paths()) - 9


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(c):08x}" for c in value) + '"'
    return repr(value)


def test_every_number_has_a_check() -> None:
    unbounded = []
    for info in fields(Target(name="x", title="X")):
        hints = typing.get_type_hints(type(getattr(Target(name="x", title="X"), info.section)))
        kinds = {hints[info.name], *typing.get_args(hints[info.name])}
        checked = info.path in _CHECKS or info.name in _BY_DTYPE
        if kinds & {int, float} and not checked and info.path != "elf.elf_class":
            unbounded.append(info.path)
    assert unbounded == []


class TestRows:
    def found(self, target: Target) -> dict[str, tuple[str, str]]:
        return {
            f"{section}.{name}": (value, source) for section, name, value, source in rows(target)
        }

    def test_values_have_units_and_sources(self) -> None:
        row = self.found(loader.load("generic-a57"))
        assert row["memory.sram_bytes"][0] == "512 KiB"
        assert row["dma.base_alignment"][0] == "64 KiB"
        assert row["dma.length_bits"][0] == "31 bits"
        assert row["cache.line_bytes"][0] == "64 bytes"
        assert row["cache.coherent"][0] == "no"
        assert row["thresholds.pe_utilisation"][0] == "healthy > 70%, dangerous < 40%"
        assert row["thresholds.dma_saturation"][0] == "healthy < 60%, dangerous > 95%"
        assert "practitioner" in row["dma.base_alignment"][1]
        assert "practitioner" in row["thresholds.noc_congestion"][1]
        assert self.found(loader.load("rk3588"))["clock.device_hz"][0] == "1 GHz"
        assert self.found(loader.load("ethos-u55-128"))["clock.device_hz"][0] == "500 MHz"

    def test_what_is_assumed_and_what_is_unknown(self) -> None:
        row = self.found(Target(name="x", title="X"))
        assert row["memory.sram_bytes"] == ("2 MiB", ASSUMED)
        assert row["dma.channels"] == ("1 channel", ASSUMED)
        assert row["memory.ddr_base"] == ("0x40000000", ASSUMED)
        assert row["dma.base_alignment"] == ("-", UNKNOWN)
        assert row["elf.machines"] == ("-", UNKNOWN)
        assert not any(source == UNSOURCED for _, source in row.values())

    def test_the_assumed_sram_is_the_devices(self) -> None:
        assert ASSUMED_SRAM_BYTES == DEFAULT_SRAM_BYTES

    def test_a_table_source_does_not_cover_its_defaults(self) -> None:
        text = HEAD + '[dma]\nlength_bits = 24\n[sources]\ndma = "data sheet"\n'
        row = self.found(loader.load_toml_text(text, "t"))
        assert row["dma.length_bits"] == ("24 bits", "data sheet")
        assert row["dma.channels"][1] == ASSUMED

    def test_given_without_a_source(self) -> None:
        row = self.found(loader.load_toml_text(HEAD + "[dma]\nlength_bits = 24\n", "t"))
        assert row["dma.length_bits"] == ("24 bits", UNSOURCED)

    @given(st.integers(1, 1 << 60))
    def test_a_size_says_the_number_exactly(self, count: int) -> None:
        number, unit = size_text(count).split()
        shift = {"byte": 0, "bytes": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[unit]
        assert int(number) << shift == count


class TestSupports:
    def profile(self, text: str) -> Target:
        return loader.load_toml_text(HEAD + "[operators]\n" + text, "t")

    def test_all(self) -> None:
        target = self.profile('unsupported = ["Gelu"]\n')
        assert supports(target, "Conv", "", True) == (True, "x does not exclude Conv")
        assert supports(target, "Conv", "ai.onnx", True)[0]
        assert supports(target, "Gelu", "", True) == (False, "x does not run Gelu")
        assert supports(target, "NonZero", "", False) == (
            False,
            "npudbg has no device kernel for NonZero",
        )
        # Another domain's operator of that name is another operator.
        assert supports(target, "Gelu", "com.microsoft", True)[0]

    def test_only(self) -> None:
        target = self.profile('mode = "only"\nsupported = ["Conv", "Relu"]\n')
        assert supports(target, "Conv", "", True) == (True, "x lists Conv")
        assert supports(target, "Conv", "", False)[0] is False
        assert supports(target, "Add", "", True) == (
            False,
            "Add is not among the 2 operators of x",
        )
        assert supports(target, "Conv", "com.acme", True)[0] is False
