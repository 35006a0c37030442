from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudbg.render import fit, numbers, plain
from npudbg.render.progress import progress_line
from npudbg.session.lines import line

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cf", "Mn", "Me"]), max_size=200
)


@given(texts, st.integers(0, 80))
def test_cut_never_exceeds_the_width_and_keeps_what_fits(text, width):
    cut = fit.cut(text, width)
    assert fit.cells(cut) <= width
    if fit.cells(text) <= width:
        assert cut == text
    elif width > 1:
        assert cut.endswith("…")


@given(texts, st.integers(8, 80))
def test_cut_middle_never_exceeds_the_width(text, width):
    assert fit.cells(fit.cut_middle(text, width)) <= width


def test_cut_middle_keeps_the_tail_that_tells():
    assert fit.cut_middle("/backbone/blocks.3/conv/Conv_output_0", 20).endswith("Conv_output_0")


@given(texts, st.integers(0, 60))
def test_left_and_right_are_exactly_as_wide_as_asked(text, width):
    assert fit.cells(fit.left(text, width)) == width
    assert fit.cells(fit.right(text, width)) == width


@given(st.lists(texts, max_size=6), st.integers(1, 60))
def test_fit_keeps_meaning_and_width(parts, width):
    whole = line(*[(p, "error") for p in parts])
    got = fit.fit(whole, width)
    assert fit.cells(got.text) <= width
    if fit.cells(whole.text) <= width:
        assert got is whole
    assert all(s.style == "error" for s in got.spans)


@given(texts, st.integers(16, 80), st.integers(0, 6))
def test_wrap_loses_no_word(text, width, hang):
    rows = list(fit.wrap(text, width, hang))
    assert all(fit.cells(r) <= width for r in rows)
    assert "".join("".join(r.split()) for r in rows) == "".join(text.split())


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (64, "64 B"), (1024, "1 KiB"), (57344, "56 KiB"), (1_572_864, "1.5 MiB"),
     (1 << 40, "1 TiB"), (1 << 50, "1024 TiB")],
)  # fmt: skip
def test_bytes(count, shown):
    assert numbers.nbytes(count) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(float("nan"), "NaN"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (None, "-"),
     (65504.0, "65504"), (1 / 3, "0.33333"), (12345678, "12,345,678")],
)  # fmt: skip
def test_values(value, shown):
    assert numbers.value(value) == shown


@pytest.mark.parametrize(
    ("number", "width", "shown"),
    [(-64320.0, 8, "-64320"), (65472.0, 8, "65472"), (0.0001234567, 8, "0.0001"),
     (-1.23456e-20, 8, "-1.2e-20"), (3.4e38, 8, "3.4e+38"), (float("nan"), 8, "NaN"),
     (None, 8, "-"), (0.5, 8, "0.5")],
)  # fmt: skip
def test_compact(number, width, shown):
    got = numbers.compact(number, width)
    assert len(got) <= width
    assert got == shown or float(got) == pytest.approx(number, rel=0.005)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(7, 12))
def test_compact_fits(number, width):
    got = numbers.compact(number, width)
    assert len(got) <= width
    if number and abs(number) < 1e300:
        assert float(got) == pytest.approx(number, rel=0.6)


def test_other_figures():
    assert numbers.cycles(445638) == "445,638 cyc"
    assert numbers.duration(2_351_050, 1_000_000_000) == "2.35 ms"
    assert numbers.duration(5, 0) == ""
    assert numbers.address(0x62000) == "0x00062000"
    assert numbers.shape((1, "N", None)) == "1xNx?"
    assert numbers.shape(()) == "scalar"
    assert numbers.shape(None) == "any rank"
    assert numbers.share(1, 0) == "-"
    assert numbers.share(1, 100_000) == "<0.1%"
    assert numbers.share(23, 1000) == "2.3%"


def test_evidence_is_bounded_however_deep():
    deep: object = 1
    for _ in range(50):
        deep = [deep]
    assert len(numbers.evidence(deep)) < 200
    assert numbers.evidence(list(range(1000))).endswith("… 1000 in all]")
    assert "\x1b" not in numbers.evidence({"\x1b[2J": "\x1b[31m"})


def test_evidence_by_its_key():
    assert numbers.named("address", 0x12345000) == "0x12345000"
    assert numbers.named("remainder", 0x5000) == "0x5000"
    assert numbers.named("alignment", 65536) == "65536 (64 KiB)"
    assert numbers.named("elements", 65536) == "65536"
    assert numbers.named("address", "x\x1b") == "x?"


def test_progress_fits_and_counts():
    shown = progress_line(37, 212, "/block3/conv", 60)
    assert shown.text.startswith("node 37/212 [")
    assert "/block3/conv" in shown.text
    for width in range(1, 90):
        assert fit.cells(progress_line(999, 212, "x" * 300, width).text) <= width


def test_plain_text_for_an_encoding_without_frames():
    rows = [line("┌─ a → b ✓ …")]
    assert plain.text_of(rows, "ascii") == "+- a -> b v ~\n"
    assert plain.text_of(rows, "utf-8") == "┌─ a → b ✓ …\n"
    assert plain.text_of([line("名前")], "ascii") == "??\n"
    assert plain.text_of(rows, "no-such-codec") == "+- a -> b v ~\n"


def test_render_and_the_tui_entry_load_no_terminal_library():
    code = (
        "import sys, pkgutil, importlib, npudbg.render as r, npudbg.tui.app\n"
        "[importlib.import_module('npudbg.render.' + m.name)"
        " for m in pkgutil.iter_modules(r.__path__)]\n"
        "print([m for m in ('textual', 'onnx', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_cycles_of_a_command_are_never_cut():
    from npudbg.render.commands import _cost

    said = {
        0: "0", 999_999: "999,999", 1_000_000: "1000000", 24_000_000: "24000000",
        123_456_789: "123.5M", 10**12: "1,000.0G", 2**62: "4.6e+18",
    }  # fmt: skip
    for cycles, text in said.items():
        assert _cost(cycles) == text
        assert len(text) <= 8
