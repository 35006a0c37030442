"""What each name holds and where it lies: values, their places in DDR, their lives."""

from __future__ import annotations

from typing import Any

import numpy as np

from npudbg.device.faults.touch import Touch, corrupt_weight
from npudbg.device.iommu import Iommu
from npudbg.device.memory import Allocator, Memory
from npudbg.device.numerics import Numerics
from npudbg.device.recorder import Recorder
from npudbg.device.values import Allocation, Value
from npudbg.graph.ir import Graph, Node
from npudbg.session.records import Role
from npudbg.targets.profile import Target

_FOREVER = 1 << 30
_WEIGHTED = ("Conv", "ConvTranspose")


class Residency:
    """The values of a run and the device memory that they take.

    Args:
        graph: The model.
        target: The profile: where DDR lies, how buffers are aligned.
        numerics: The device's types.
        recorder: Told of every value, once, when it is final.
        touch: Faults of weights.

    Attributes:
        values: By name in the graph.
        iommu: Which addresses the device may use; kept up in a touched run only.
        ddr: Contents of DDR with what was left behind; kept up in a touched run only.
    """

    def __init__(
        self, graph: Graph, target: Target, numerics: Numerics, recorder: Recorder, touch: Touch
    ) -> None:
        """Start with an empty memory."""
        self._graph, self._numerics, self._recorder, self._touch = graph, numerics, recorder, touch
        alignment = max(64, target.dma.base_alignment or 1, target.tensor.base_alignment or 1)
        self.map = Allocator(target.memory.ddr_base, target.memory.ddr_bytes, alignment)
        self.ddr = Memory()
        self.iommu = Iommu(target)
        self.values: dict[str, Value] = {}
        self.outputs = {v.name for v in graph.outputs}
        self.next_id = 0

    def new_id(self) -> int:
        """Return the next tensor id."""
        number = self.next_id
        self.next_id += 1
        return number

    def role(self, name: str) -> Role:
        """Return what a computed value is to the model."""
        return "output" if name in self.outputs else "activation"

    def uses(self, name: str) -> int:
        """Return how many nodes will read a name (outputs are read for ever)."""
        return len(self._graph.consumers(name)) + (_FOREVER if name in self.outputs else 0)

    def value(self, name: str) -> Value:
        """Return the value of a name, fetching a weight when it is first needed."""
        value = self.values.get(name)
        if value is None:
            value = self.constant(name, self._graph.initializers[name].array(), "weight")
        return value

    def constant(self, name: str, data: Any, role: Role, producer: int = -1) -> Value:
        """Make a value that is known at compile time, in the device's type."""
        if isinstance(data, np.ndarray) and data.dtype.kind not in "OSUT":
            weight = any(
                len(n.inputs) > 1 and n.inputs[1] == name and n.op_type in _WEIGHTED
                for n in self._graph.consumers(name)
            )
            stored = self._numerics.store(data, weight=weight, constant=True, name=name)
            array = stored.array
            for kind in ("weight-bit-flip", "nan-weight", "corrupted-scale"):
                fault = self._touch.take(kind, tensor=name)
                if fault is not None:
                    array = array.copy()
                    corrupt_weight(fault, array)
            value = Value(name, self.new_id(), role, array, data.dtype, stored.quantization)
        else:
            value = Value(name, self.new_id(), role, data)
        value.static, value.producer, value.uses = True, producer, self.uses(name)
        self.values[name] = value
        return value

    def allocate(self, value: Value, of: Value | None = None) -> None:
        """Give a value its place in DDR, or that of the value it is a view of."""
        if of is not None and of.allocation is not None:
            value.allocation = of.allocation
        else:
            nbytes = value.array.nbytes
            value.allocation = Allocation(self.map.take(nbytes), nbytes)
            if self._touch.active:
                self.iommu.map(value.address, nbytes)
            if value.static:
                self.settle(value)
        value.allocation.users += 1

    def settle(self, value: Value) -> None:
        """A value's bytes are in DDR now (only a touched run cares)."""
        if self._touch.active:
            self.ddr.place(value.address, value.array)

    def record(self, value: Value) -> None:
        """Record a value, once."""
        if not value.recorded:
            value.recorded = True
            self._recorder.tensor(value)

    def release(self, node: Node) -> None:
        """A node has run: values that nothing reads any more give up their place."""
        for name in dict.fromkeys(node.reads):
            value = self.values.get(name)
            if value is None:
                continue
            value.uses -= 1
            if value.uses > 0:
                continue
            del self.values[name]
            self.record(value)
            if value.allocation is not None:
                value.allocation.users -= 1
                if value.allocation.users == 0 and not value.static:
                    self.map.give(value.allocation.address)
                    if self._touch.active:
                        self.iommu.unmap(value.allocation.address, value.allocation.nbytes)

    def model_value(self, value: Value) -> Any:
        """Return a value in the type that the model declares."""
        if not value.is_tensor or value.model_dtype is None:
            return value.data
        return self._numerics.load(value.stored, value.model_dtype)
