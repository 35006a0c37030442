r"""The layer table that RKNN-Toolkit2 prints when it builds a model.

A fixed-width table whose columns change with version and chip, so it is read by
its header: a value belongs to the column at whose start, or behind it, it starts.

    ID   OpType    DataType Target InputShape  OutputShape  Cycles(DDR/NPU/Total) … FullName

``\`` means that a value does not apply, ``,...`` at the end of a list that it was cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_MAX_LINE = 4096
_MAX_LAYERS = 100_000
_MAX_RANK = 16
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,32}[ -/]?[@-~]")
_PREFIX = re.compile(r"[VDIWE]\s+(?:RKNN:\s*\[[0-9:.]{1,16}\]\s?)?")
_HEADER = re.compile(r"ID\s+OpType\s")
_NAME = re.compile(r"(?:DDR|NPU|Total) Cycles|(?:Task|Lut) Number|Regcmd Size|\S+")
_SHAPE = re.compile(r"\(([0-9]{1,10}(?:,[0-9]{1,10}){0,15})\)")
_COUNT = re.compile(r"[0-9]{1,18}")

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One row.

    Attributes:
        id: Number of the layer.
        op_type: Operator after fusion (``ConvRelu``).
        dtype: Type as the table spells it (``INT8``).
        target: ``NPU``, ``CPU`` or ``GPU``.
        inputs: Shapes of the operands that are shown.
        outputs: Shapes of the results that are shown.
        cut: More operands exist than are shown.
        ddr: Memory cycles, None where the table has none.
        npu: Cycles of the array, None where the table has none.
        total: Cycles of the layer, None where the table has none.
        name: Operator and name in the graph (``Conv:Conv_0``; untrusted text).
        columns: Every column's text, by its header.
    """

    id: int
    op_type: str
    dtype: str
    target: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    cut: bool
    ddr: int | None
    npu: int | None
    total: int | None
    name: str
    columns: Mapping[str, str] = field(repr=False, default_factory=dict)


def layer_tables(lines: Iterable[str]) -> Iterator[list[Layer]]:
    """Return the layer tables of a log, one a model that was built.

    Args:
        lines: The log; colour codes, progress bars and log prefixes may stand in it.
    """
    columns: list[tuple[int, str]] = []
    table: list[Layer] = []
    for line in _texts(lines):
        if _HEADER.match(line):
            if table:
                yield table
            columns = [(m.start(), m.group()) for m in _NAME.finditer(line)]
            table = []
        elif columns:
            if line.startswith("---") or not line.strip():
                if table:
                    yield table
                    columns, table = [], []
                continue
            layer = _layer(line, columns)
            if layer is None or len(table) >= _MAX_LAYERS:
                if table:
                    yield table
                columns, table = [], []
            else:
                table.append(layer)
    if table:
        yield table


def _texts(lines: Iterable[str]) -> Iterator[str]:
    """Strip what a terminal and a logger put around each line."""
    for line in lines:
        plain = _ANSI.sub("", line[:_MAX_LINE]).rstrip("\r\n")
        # A progress bar and what was printed over it: the last is what one sees.
        text = plain.rpartition("\r")[2]
        prefix = _PREFIX.match(text)
        yield text[prefix.end() :] if prefix is not None else text


def _layer(line: str, columns: list[tuple[int, str]]) -> Layer | None:
    cells: dict[str, str] = {}
    for token in re.finditer(r"\S+", line):
        name = next((n for at, n in reversed(columns) if at <= token.start()), columns[0][1])
        cells[name] = f"{cells[name]} {token.group()}" if name in cells else token.group()
    if not _COUNT.fullmatch(cells.get("ID", "")) or "OpType" not in cells:
        return None
    ddr, npu, total = _cycles(cells)
    inputs, outputs = cells.get("InputShape", ""), cells.get("OutputShape", "")
    return Layer(
        int(cells["ID"]),
        cells["OpType"],
        cells.get("DataType", ""),
        cells.get("Target", ""),
        _shapes(inputs),
        _shapes(outputs),
        inputs.endswith("...") or outputs.endswith("..."),
        ddr,
        npu,
        total,
        cells.get("FullName", ""),
        cells,
    )


def _cycles(cells: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
    joined = cells.get("Cycles(DDR/NPU/Total)")
    if joined is not None:
        parts = joined.split("/")
        if len(parts) != 3:
            return None, None, None
    else:
        parts = [cells.get(f"{which} Cycles", "") for which in ("DDR", "NPU", "Total")]
    ddr, npu, total = (int(p) if _COUNT.fullmatch(p) else None for p in parts)
    return ddr, npu, total


def _shapes(text: str) -> tuple[Shape, ...]:
    return tuple(tuple(int(n) for n in m.group(1).split(",")) for m in _SHAPE.finditer(text))
