"""From the machine's values to the session's records; scanning beside computing."""

from __future__ import annotations

import queue
from functools import partial
from typing import Any

import numpy as np

from npudbg.device.values import Value
from npudbg.graph.ir import Graph, Node
from npudbg.session.dtypes import dtype_name
from npudbg.session.records import NodeRecord, Stats, TensorRecord
from npudbg.session.scan import scan
from npudbg.session.text import safe
from npudbg.session.worker import Worker
from npudbg.session.writer import SessionWriter

_BACKLOG_BYTES = 48 << 20


class Recorder:
    """Writes what the machine does into a session.

    Scanning runs in a thread of its own; a tensor's record is written when its
    scan is done.  The bytes that wait are bounded.

    Attributes:
        stats: What scans found, by tensor id.
        told: What the record holds of tensors whose bytes changed though no command
            wrote them, by tensor id.
        never_made: Ids of tensors that the device stopped before it made any of.
    """

    def __init__(self, writer: SessionWriter, graph: Graph) -> None:
        """Record into ``writer``."""
        self.writer, self.graph = writer, graph
        self.stats: dict[int, Stats | None] = {}
        self.told: dict[int, Any] = {}
        self.never_made: set[int] = set()
        self._scans = Worker("npudbg-scan", _BACKLOG_BYTES)
        self._found: queue.SimpleQueue[tuple[TensorRecord, Stats | None]] = queue.SimpleQueue()

    def tensor(self, value: Value) -> None:
        """Record a value's final bytes and statistics."""
        plain = value.name.removesuffix("@ddr")  # the device's copy feeds what the input feeds
        consumers = tuple(n.index for n in self.graph.consumers(plain))
        if not value.is_tensor:
            self.writer.add_tensor(
                TensorRecord(
                    id=value.id,
                    name=value.name,
                    role=value.role,
                    shape=value.shape or (),
                    dtype=_kind(value),
                    space="host",
                    producer=value.producer,
                    consumers=consumers,
                    value=safe(value.data, 200),
                )
            )
            return
        array = self.told.get(value.id, value.array)
        made = value.id not in self.never_made
        record = TensorRecord(
            id=value.id,
            name=value.name,
            role=value.role,
            shape=array.shape,
            dtype=dtype_name(array.dtype),
            strides=array.strides,
            address=value.allocation.address if value.allocation is not None else None,
            space="ddr",
            base_nbytes=array.nbytes,
            owner="device",
            blob=self.writer.put_array(array) if made else None,
            producer=value.producer,
            consumers=consumers,
            first_seq=value.first,
            last_seq=value.by,
            quantization=value.quantization,
        )
        if not made:
            self.writer.add_tensor(record)
            return
        self._scans.submit(partial(self._scan, record, array), array.nbytes)
        self._settle()

    def viewed(self, source: Value, view: Value) -> None:
        """Record a view as what commands wrote into the tensor that it is a view of."""
        if source.id in self.told:
            self.told[view.id] = self.told[source.id].reshape(view.array.shape)

    def node(
        self,
        node: Node,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        **what: Any,
    ) -> None:
        """Record a node."""
        self.writer.add_node(
            NodeRecord(
                index=node.index,
                name=node.name,
                op_type=node.op_type,
                domain=node.domain,
                inputs=inputs,
                outputs=outputs,
                attributes=_attributes(node),
                **what,
            )
        )

    def finish(self) -> None:
        """Wait for all scans and write their records."""
        self._scans.stop()
        if self._scans.error is not None:
            raise self._scans.error
        self._settle()

    def _scan(self, record: TensorRecord, array: Any) -> None:
        self._found.put((record, scan(array)))

    def _settle(self) -> None:
        """Write the records of the tensors whose scan is done."""
        while not self._found.empty():
            record, stats = self._found.get()
            self.stats[record.id] = stats
            fields = {name: getattr(record, name) for name in record.__struct_fields__}
            self.writer.add_tensor(TensorRecord(**{**fields, "stats": stats}))


def _kind(value: Value) -> str:
    data = value.data
    if data is None:
        return "optional"
    if isinstance(data, dict):
        return "map"
    if isinstance(data, np.ndarray):
        return "string"
    return "sequence"


def _attributes(node: Node) -> dict[str, str]:
    heavy: frozenset[str] = getattr(node.attributes, "heavy", frozenset())
    return {
        safe(name, 40): "tensor" if name in heavy else safe(_short(node.attributes[name]), 80)
        for name in list(node.attributes)[:32]
    }


def _short(value: Any) -> str:
    operators = getattr(value, "operators", None)
    return f"graph of {sum(operators.values())} nodes" if operators is not None else str(value)
