"""The expression language: its own grammar, bounded, with the place of each mistake."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.debugger.errors import AbsentError, DebuggerError
from npudbg.debugger.expressions import evaluate, parse
from npudbg.debugger.expressions.values import ArrayValue, Word

ARRAYS = {
    "x": ArrayValue(np.arange(24, dtype="<f4").reshape(2, 3, 4), None, "x"),
    "half": ArrayValue(np.array([1, np.nan, np.inf, -np.inf, 65504], "<f2"), None, "half"),
    "brain": ArrayValue(np.array([1.5, -3], ml_dtypes.bfloat16), None, "brain"),
    "part": ArrayValue(np.array([5.0, 0, 7]), np.array([True, False, True]), "part"),
    "none": ArrayValue(np.zeros(3), np.zeros(3, bool), "none"),
    "q": ArrayValue(np.array([-128, 127, 0], "i1"), None, "q"),
}


class Scope:
    def value(self, name):
        if name == "node":
            return Word("conv1", 12, frozenset({"conv1", "layer1"}))
        if name == "seq":
            return 7
        if name in ARRAYS:
            return ARRAYS[name]
        raise DebuggerError(f"no name {name}")

    def tensor(self, name):
        return ARRAYS[name]


def value(text):
    return evaluate(parse(text), Scope(), text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 + 2 * 3", 7),
        ("-2 ** 2", -4),
        ("2 ** 3 ** 2", 512),
        ("2 ** -1", 0.5),
        ("(1 + 2) * 3", 9),
        ("7 // 2", 3),
        ("-7 % 4", 1),
        ("7 / 2", 3.5),
        ("0x1F & 0b110", 6),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5 + 1.", 1.5),
        ("~5", -6),
        ("6 ^ 3 | 8", 13),
        ("not 1 == 2", True),
        ("1 < 2 and 2 < 3", True),
        ("0 or 0", False),
        ("1 && !0", True),
        ("seq % 4 == 3", True),
        ('node == "conv1"', True),
        ('node == "LAYER1"', True),
        ("node == 12", True),
        ('node != "conv2"', True),
        ('"a" == "a"', True),
        ("x[1, 2, 3]", 23.0),
        ("x[-1][0][-1]", 15.0),
        ("sum(x[0, 1:3])", 60.0 + 0),
        ("count(x > 20)", 3),
        ("any(x == 5)", True),
        ("all(x >= 0)", True),
        ("shape(x)", (2, 3, 4)),
        ("shape(x)[1]", 3),
        ("size(x)", 24),
        ("dtype(half)", "float16"),
        ("max(x)", 23.0),
        ("mean(x)", 11.5),
        ("min(3, 1, 2)", 1),
        ("argmax(x)", (1, 2, 3)),
        ("argmax(q)", 1),
        ("nan(half)", 1),
        ("inf(half)", 2),
        ("finite(half)", False),
        ("finite(x)", True),
        ("max(abs(half)) > 6e4", True),
        ("max(half)", math.inf),
        ("hex(255)", "0xff"),
        ("max(brain)", 1.5),
        ("cos(x, x)", 1.0),
        ("cos(x, -x)", -1.0),
        ("snr(x, x)", math.inf),
        ("allclose(x, x + 1e-9)", True),
        ("allclose(x, x + 1)", False),
        ("allclose(x, x + 1, 2)", True),
        ("max(q * 2)", 254),
        ("min(q - 100)", -228),
        ('max(tensor("x"))', 23.0),
        ("part[0]", 5.0),
        ("sum(part)", 12.0),
        ("min(part)", 5.0),
        ("count(part > 0)", 2),
        ("std(part)", 1.0),
        ("sum(x > 20)", 3),
        ("true", True),
        ("seq == 7 or boom", True),
        ("$seq", 7),
    ],
)
def test_values(text, want):
    got = value(text)
    assert got == pytest.approx(want) if isinstance(want, float) else got == want
    assert isinstance(got, bool) == isinstance(want, bool)


def test_sum_of_a_slice_is_numpys():
    assert value("sum(x[0, 1:3])") == ARRAYS["x"].array[0, 1:3].sum()
    assert np.array_equal(value("x[:, ::2, 1]").array, ARRAYS["x"].array[:, ::2, 1])


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("1 +", 3, "expected a value"),
        ("(1", 2, "expected ')'"),
        ("1 2", 2, "expected an operator"),
        ("1 < 2 < 3", 6, "do not chain"),
        ("x[0", 3, "expected ']'"),
        ("x[]", 2, "expected an index"),
        ("max(x", 5, "expected ',' or ')'"),
        ("a @ b", 2, "means nothing"),
        ("'abc", 0, "without an end"),
        ("1.2.3", 0, "not a number"),
        ("0x", 0, "not a number"),
        ("12ab", 0, "not a number"),
        ("x[9, 0, 0]", 2, "out of range"),
        ("x[0,0,0,0]", 1, "4 indices for 3 axes"),
        ("1 / 0", 2, "division by zero"),
        ("nosuch(1)", 0, "no function"),
        ("nan()", 0, "expected nan(x)"),
        ("boom", 0, "no name boom"),
        ('node < 30 and node + "a"', 19, "needs numbers"),
        ("9 ** 9 ** 9", 2, "too large"),
        ("x + half", 2, "do not fit"),
        ("x[0.5]", 2, "whole number"),
        ("x[::0]", 2, "cannot be 0"),
        ("1 + x and 1", 6, "neither true nor false"),
        ("", 0, "expected a value"),
        ("'\\q'", 1, "unknown escape"),
        ("x[1:2:3:4]", 7, "expected"),
        ("-'a'", 0, "expected a number"),
    ],
)
def test_mistakes_say_where(text, column, words):
    with pytest.raises(DebuggerError, match=r"\w") as error:
        found = value(text)
        from npudbg.debugger.expressions.values import truth

        truth(found)
    assert words in str(error.value)
    if error.value.text:
        assert error.value.text == text
        assert error.value.column == column
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["max(none)", "part[1]", "mean(none)"])
def test_what_is_not_written_has_no_value(text):
    with pytest.raises(AbsentError, match="written"):
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000,
        "(" * 900 + "1" + ")" * 900,
        "-" * 1900 + "1",
        "not " * 400 + "1",
        "1" + "+1" * 900,
        "x" + "[0]" * 600,
        "1" * 1500,
        "2**" * 600 + "2",
        "max(" * 400 + "1" + ")" * 400,
        "[" * 1999,
        "\x00",
        "\ud800",
        "x[" + "0," * 900 + "0]",
    ],
)
def test_hostile_texts_end_in_a_plain_error(text):
    with pytest.raises(DebuggerError):
        value(text)


PIECES = st.lists(
    st.sampled_from(
        [
            "1",
            "2.5",
            "0x10",
            "x",
            "half",
            "part",
            "q",
            "node",
            "seq",
            "'a'",
            "(",
            ")",
            "[",
            "]",
            ",",
            ":",
            "+",
            "-",
            "*",
            "/",
            "//",
            "%",
            "**",
            "==",
            "<",
            "and",
            "or",
            "not",
            "max(",
            "abs(",
            "shape(",
            "argmax(",
            "cos(",
            "~",
            "&",
            " ",
        ]
    ),
    max_size=25,
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(PIECES.map("".join), st.text(max_size=40)))
def test_any_text_gives_a_value_or_a_plain_error(text):
    try:
        value(text)
    except DebuggerError as error:
        assert "\n" not in str(error)
        assert 0 <= error.column <= len(text)


NUMBERS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "<", "==", "!=", ">=", "&", "|", "^"]), inner
        ).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(NUMBERS)
def test_numbers_agree_with_python(text):
    # The texts are made above: here Python may judge its own grammar.
    assert value(text) == eval(text)
