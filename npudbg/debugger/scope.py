"""What names mean at a command: its own columns, what it wrote and read, any tensor."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from npudbg.debugger.context import Context
from npudbg.debugger.errors import AbsentError, DebuggerError
from npudbg.debugger.expressions.values import ArrayValue, Value, Word
from npudbg.session.commands import Kind, Space, Status, kind_name, space_name
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.text import safe

NAMES = {
    "seq": "number of the command",
    "cycle": "cycle at which it starts",
    "end": "cycle at which it ends",
    "cost": "cycles it takes",
    "node": "its node: compare with a name or a number",
    "op": "its node's operator",
    "kind": "DMA_LOAD, KERNEL, DMA_STORE, FLUSH, INVALIDATE, WAIT, HOST",
    "engine": "its engine: dma0, mac, vec, host …",
    "status": "OK, HUNG, FAULT, TOUCHED, NOT_STARTED",
    "addr": "address it writes, else the one it reads",
    "src": "address it reads from",
    "dst": "address it writes to",
    "space": "space it writes: sram, ddr, host",
    "nbytes": "bytes it writes",
    "tile": "tile of its node",
    "name": "name of the tensor it moves or makes",
    "out": "the values that it made (its tile); a load makes nothing",
    "data": "the values that it wrote, moved ones too",
    "in0": "the values that it read, by operand: in0, in1 …",
    "golden": "golden values of what it wrote; see help golden",
}
"""Names of a command, each with one line of help."""

_OPERAND = re.compile(r"in([0-9]{1,3})")
_SHORT = {Kind.DMA_LOAD: ("load",), Kind.DMA_STORE: ("store",), Kind.HOST: ("cpu",)}


class CommandScope:
    """The names at one command."""

    def __init__(self, context: Context, seq: int, row: Any = None) -> None:
        """Look at command ``seq``, whose row is fetched when needed if it is not given."""
        self.context, self.seq = context, seq
        self._row = row

    @property
    def row(self) -> Any:
        """The command's row."""
        if self._row is None:
            self._row = self.context.row(self.seq)
        return self._row

    def value(self, name: str) -> Value:
        """See :class:`~npudbg.debugger.expressions.evaluate.Scope`."""
        found = _COLUMNS.get(name)
        if found is not None:
            return found(self)
        match = _OPERAND.fullmatch(name)
        if match is not None:
            return self.operand(int(match.group(1)))
        record = self.context.session.tensor(name)
        if record is not None:
            return self.tensor(name)
        near = difflib.get_close_matches(name, [*NAMES, *_tensor_names(self.context)], 1)
        hint = f"did you mean {safe(near[0])}?" if near else f"there are {', '.join(NAMES)}"
        raise DebuggerError(f"no name {safe(name, 40)}; {hint}")

    def tensor(self, name: str) -> ArrayValue:
        """Return a tensor as it was after this command."""
        record = self.context.session.tensor(name)
        if record is None:
            near = difflib.get_close_matches(name, _tensor_names(self.context), 1)
            hint = f"; did you mean {safe(near[0])}?" if near else ""
            raise DebuggerError(f"no tensor {safe(name, 60)}{hint}")
        return self.tensor_value(record.id)

    def tensor_value(self, number: int, seq: int | None = None) -> ArrayValue:
        """Return a tensor by its id, as it was."""
        at = self.seq if seq is None else seq
        snapshot = self.context.tensors.tensor_at(number, at)
        known = None if snapshot.written.all() else snapshot.written
        name = safe(self.context.session.tensors[number].name, 60)
        return ArrayValue(snapshot.array, known, name)

    # -- what it wrote and read ----------------------------------------------------------

    def out(self) -> ArrayValue:
        """Return what the command made: a load makes nothing."""
        if int(self.row["kind"]) == Kind.DMA_LOAD:
            raise AbsentError(f"command {self.seq} only loads; what it moved is data, or in0")
        return self.data()

    def data(self) -> ArrayValue:
        """Return what the command wrote."""
        row, written = self.row, self.context.state.written
        if not written.wrote(row):
            raise AbsentError(f"command {self.seq} ({kind_name(int(row['kind']))}) wrote nothing")
        data = written.packed(row)
        if data is None:
            raise AbsentError("the session does not keep what it wrote")
        return self._shaped(row, data)

    def operand(self, number: int) -> ArrayValue:
        """Return what the command read as an operand (of a transfer: operand 0)."""
        session = self.context.session
        reads = session.accesses(self.seq, self.seq + 1)
        mine = reads[reads["operand"] == number]
        if not len(mine) and number == 0:
            mine = reads[reads["operand"] == -1]
        if not len(mine):
            raise AbsentError(f"command {self.seq} read no operand {number}")
        read = mine[0]
        tensor, by = int(read["tensor"]), int(read["by"])
        if int(read["space"]) == Space.HOST:
            return self._host_operand(read)
        if int(read["space"]) != Space.SRAM:
            whole = self.tensor_value(tensor, self.seq - 1)
            layout = self.context.state.written.layout(tensor)
            if int(self.row["tensor"]) != tensor or layout is None:
                return whole
            box = tuple(slice(*pair) for pair in layout.box(self.row))
            known = None if whole.known is None else whole.known[box]
            return ArrayValue(whole.array[box], known, whole.name)
        data = self._read_bytes(read)
        maker = session.command(by) if 0 <= by < session.n_commands else None
        if maker is not None and int(maker["tensor"]) == tensor:
            return self._shaped(maker, data)
        record = self.context.tensors.record(tensor)
        return ArrayValue(_viewed(data, record.dtype), None, safe(record.name, 60))

    def golden(self) -> ArrayValue:
        """Return the golden values of what the command wrote."""
        number = int(self.row["tensor"])
        record = self.context.tensors.record(number) if number >= 0 else None
        if not self.context.golden:
            raise DebuggerError("no golden values are loaded; load them with golden FILE.npz")
        values = self.context.golden.get(record.name) if record is not None else None
        if record is None or values is None:
            raise AbsentError(f"no golden values of {safe(record.name if record else 'this')}")
        if values.shape != record.shape:
            raise DebuggerError(
                f"golden {safe(record.name)} has shape {values.shape}, the device's {record.shape}"
            )
        layout = self.context.state.written.layout(number)
        if layout is not None:
            values = values[tuple(slice(*pair) for pair in layout.box(self.row))]
        return ArrayValue(values, None, "golden")

    def _host_operand(self, read: Any) -> ArrayValue:
        """Return what was read from the host's memory: raw for DMA, converted values for a CPU."""
        state, address, size = self.context.state, int(read["addr"]), int(read["nbytes"])
        found = state.residents.within(Space.HOST, address, address + max(size, 1))
        if not found:
            raise AbsentError("the session does not keep the host's buffer")
        if int(self.row["kind"]) != Kind.DMA_LOAD:
            return self.tensor_value(found[0].tensor)
        view = state.memory_at(Space.HOST, address, size, self.seq - 1)
        if not view.written.all():
            raise AbsentError(f"{int((~view.written).sum())} bytes of the host's are not kept")
        return self._shaped(self.row, np.frombuffer(view.data, np.uint8))

    def _read_bytes(self, read: Any) -> Any:
        session, state = self.context.session, self.context.state
        seen = session.observed(self.seq, int(read["operand"]))
        if seen is not None:
            return np.frombuffer(seen, np.uint8)
        size, by = int(read["nbytes"]), int(read["by"])
        if 0 <= by < session.n_commands:
            # What that command put there is what was read: nothing else was seen.
            row = session.command(by)
            data = state.written.packed(row)
            offset = int(read["addr"]) - int(row["dst"])
            if data is not None and offset >= 0 and offset + size <= len(data):
                return data[offset : offset + size]
        found = state.memory_at(Space.SRAM, int(read["addr"]), size, self.seq - 1)
        return np.frombuffer(found.data, np.uint8)

    def _shaped(self, row: Any, data: Any) -> ArrayValue:
        """Return bytes as the array that a row's box of its tensor is."""
        number = int(row["tensor"])
        layout = self.context.state.written.layout(number)
        if layout is None:
            return ArrayValue(np.asarray(data), None, "out")
        record = self.context.session.tensors[number]
        box = layout.box(row)
        array = _viewed(data, record.dtype)
        if layout.packed_nbytes(box) == len(data):
            extent = tuple(stop - start for start, stop in box)
            array = array.reshape((*extent, *record.shape[len(box) :]))
        return ArrayValue(array, None, safe(record.name, 60))


def _viewed(data: Any, dtype: str) -> Any:
    element = numpy_dtype(dtype)
    usable = len(data) - len(data) % element.itemsize
    return np.frombuffer(np.ascontiguousarray(data[:usable]).tobytes(), element)


def _tensor_names(context: Context) -> list[str]:
    return [t.name for t in context.session.tensors[:2000]]


def _int(column: str) -> Callable[[CommandScope], Value]:
    return lambda scope: int(scope.row[column])


def _cost(scope: CommandScope) -> Value:
    return int(scope.row["end"]) - int(scope.row["start"])


def _node(scope: CommandScope) -> Value:
    number, nodes = int(scope.row["node"]), scope.context.session.nodes
    if not 0 <= number < len(nodes):
        return Word("-", -1)
    node = nodes[number]
    names = {node.name.lower(), node.label.lower()} - {""}
    return Word(node.label, number, frozenset(names))


def _op(scope: CommandScope) -> Value:
    number, nodes = int(scope.row["node"]), scope.context.session.nodes
    op = nodes[number].op_type if 0 <= number < len(nodes) else "-"
    return Word(op, None, frozenset({op.lower()}))


def _kind(scope: CommandScope) -> Value:
    number = int(scope.row["kind"])
    name = kind_name(number)
    short = _SHORT.get(Kind(number), ()) if number in Kind._value2member_map_ else ()
    return Word(name, number, frozenset({name.lower(), *short}))


def _engine(scope: CommandScope) -> Value:
    number, engines = int(scope.row["engine"]), scope.context.session.meta.engines
    name = engines[number] if number < len(engines) else f"e{number}"
    return Word(name, number, frozenset({name.lower()}))


def _status(scope: CommandScope) -> Value:
    number = int(scope.row["status"])
    known = number in Status._value2member_map_
    name = Status(number).name if known else f"status {number}"
    return Word(name, number, frozenset({name.lower()}))


def _space(scope: CommandScope) -> Value:
    number = int(scope.row["dst_space"])
    return Word(space_name(number), number)


def _addr(scope: CommandScope) -> Value:
    row = scope.row
    if int(row["dst_space"]) != Space.NONE:
        return int(row["dst"])
    if int(row["src_space"]) != Space.NONE:
        return int(row["src"])
    raise AbsentError(f"command {scope.seq} has no address")


def _sided(side: str) -> Callable[[CommandScope], Value]:
    def value(scope: CommandScope) -> Value:
        if int(scope.row[f"{side}_space"]) == Space.NONE:
            raise AbsentError(f"command {scope.seq} has no {side}")
        return int(scope.row[side])

    return value


def _name(scope: CommandScope) -> Value:
    number, tensors = int(scope.row["tensor"]), scope.context.session.tensors
    if not 0 <= number < len(tensors):
        raise AbsentError(f"command {scope.seq} is of no tensor")
    return tensors[number].name


_COLUMNS: dict[str, Callable[[CommandScope], Value]] = {
    "seq": _int("seq"),
    "cycle": _int("start"),
    "end": _int("end"),
    "cost": _cost,
    "node": _node,
    "op": _op,
    "kind": _kind,
    "engine": _engine,
    "status": _status,
    "addr": _addr,
    "src": _sided("src"),
    "dst": _sided("dst"),
    "space": _space,
    "nbytes": _int("nbytes"),
    "tile": _int("tile"),
    "name": _name,
    "out": CommandScope.out,
    "data": CommandScope.data,
    "golden": CommandScope.golden,
}
