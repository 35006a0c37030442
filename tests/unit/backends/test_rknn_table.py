"""The layer table of RKNN-Toolkit2: by header, whatever the version, and hostile text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudbg.backends.logs.rknn_table import layer_tables

DATA = Path(__file__).parents[2] / "data/rknn"

OLD = """\
D RKNN: [10:00:00.000]   anything before it
D RKNN: [10:00:00.000] ----------------------------------------------------------------
D RKNN: [10:00:00.000] ID   OpType           DataType Target InputShape                               OutputShape            DDR Cycles     NPU Cycles     Total Cycles   Time(us)       MacUsage(%)    Task Number    Lut Number     RW(KB)         FullName
D RKNN: [10:00:00.000] ----------------------------------------------------------------
D RKNN: [10:00:00.000] 0    InputOperator    INT8     CPU    \\                                        (1,3,32,32)            0              0              0              0              \\              0              0              3.00           InputOperator:input
D RKNN: [10:00:00.000] 1    ConvRelu         INT8     NPU    (1,3,32,32),(16,3,3,3),(16)              (1,16,32,32)           931            9216           9216           25             4.69           1              0              5.00           Conv:Conv 0
D RKNN: [10:00:00.000] ----------------------------------------------------------------
"""  # noqa: E501


def test_versions_with_separate_columns():
    (table,) = layer_tables(OLD.splitlines())
    first, conv = table
    assert (first.inputs, first.outputs, first.npu) == ((), ((1, 3, 32, 32),), 0)
    assert (conv.ddr, conv.npu, conv.total) == (931, 9216, 9216)
    assert conv.inputs == ((1, 3, 32, 32), (16, 3, 3, 3), (16,))
    assert conv.columns["Task Number"] == "1"
    assert conv.columns["MacUsage(%)"] == "4.69"
    assert conv.name == "Conv:Conv 0"


def test_an_empty_cell_shifts_nothing():
    (table,) = layer_tables((DATA / "log_int8_rk3576.txt").read_text().splitlines())
    pool = table[2]
    assert pool.op_type == "MaxPool"
    assert "SparseRatio" not in pool.columns
    assert pool.columns["RW(KB)"] == "16"
    assert table[1].columns["SparseRatio"] == "0%"


def test_cut_lists_are_told():
    (table,) = layer_tables((DATA / "log_op_mix.txt").read_text().splitlines())
    top = next(layer for layer in table if layer.op_type == "TopK")
    assert top.cut
    assert top.outputs == ((1, 8, 1, 8),)
    assert not table[1].cut


def test_colour_codes_and_progress_bars():
    text = OLD.replace("D RKNN", "\x1b[32m10%\r\x1b[0mD RKNN")
    assert [len(t) for t in layer_tables(text.split("\n"))] == [2]


def test_two_builds_in_one_log():
    assert [len(t) for t in layer_tables((OLD + OLD).splitlines())] == [2, 2]


def test_no_table():
    assert list(layer_tables((DATA / "log_op_mix.txt").read_text().splitlines()[:60])) == []


def test_a_log_that_is_cut_keeps_its_rows():
    lines = OLD.splitlines()[:-2]
    assert [len(t) for t in layer_tables(lines)] == [1]


@pytest.mark.parametrize(
    "cell", ["9" * 400, "1/2", "1/2/3/4", "-1/2/3", "a/b/c", "1e9/1/1", "٣/1/1"]
)
def test_strange_cycles_are_unknown(cell):
    head = "ID   OpType  Cycles(DDR/NPU/Total)    FullName"
    (table,) = layer_tables([head, f"0    Conv    {cell} x"])
    assert None in (table[0].ddr, table[0].npu, table[0].total)


@given(st.lists(st.one_of(st.text(), st.sampled_from(OLD.splitlines())), max_size=12))
def test_any_text_is_read_without_an_error(lines):
    for table in layer_tables(lines):
        assert all(layer.id >= 0 for layer in table)


def test_hostile_sizes_are_bounded():
    head = "ID   OpType  InputShape"
    rows = ["0    Conv    " + "(" * 100_000, "1    Conv    " + "(1,2)," * 100_000, "\x1b[" * 50_000]
    tables = list(layer_tables([head, *rows]))
    assert sum(len(layer.inputs) for table in tables for layer in table) < 1000
