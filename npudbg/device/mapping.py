"""Operator mapping: on the device, or on the host, and why."""

from __future__ import annotations

from collections.abc import Mapping

from npudbg.device.kernels.registry import kernel_for
from npudbg.device.numerics import Numerics
from npudbg.device.values import Value
from npudbg.graph.ir import Node
from npudbg.targets.operators_supported import supports
from npudbg.targets.profile import Target

_NAMES = {
    "float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16", "bool": "bool",
}  # fmt: skip


class Mapper:
    """Decides where nodes run.

    Args:
        target: The profile: operators and types with a unit of their own.
        numerics: Types in device memory.
    """

    def __init__(self, target: Target, numerics: Numerics) -> None:
        """Read the profile's lists."""
        self._target, self._numerics = target, numerics
        self._dtypes = frozenset(target.compute.dtypes)

    def allowed(self, node: Node) -> bool:
        """Whether the target has a kernel for the operator, types not considered."""
        return not self._why_operator(node)

    def on_device(self, node: Node, values: Mapping[str, Value]) -> bool:
        """Whether a node with known values runs on the device."""
        return not self.why_host(node, values)

    def why_host(self, node: Node, values: Mapping[str, Value]) -> str:
        """Return why a node runs on the host, or ``""`` if it runs on the device."""
        why = self._why_operator(node)
        if why:
            return why
        for name in (*node.reads, *node.writes):
            value = values.get(name)
            if value is None:
                continue
            if not value.is_tensor:
                return "its values are not plain tensors"
            if value.static and name in node.reads:
                continue
            if name in self._numerics.inside:
                continue  # it never leaves the accumulators
            dtype = value.array.dtype
            if self._dtypes and _NAMES.get(dtype.name, dtype.name) not in self._dtypes:
                return f"the target has no unit for {dtype.name}"
            if value.array.size == 0:
                return "a tensor without elements"
        if kernel_for(node.op_type, node.domain) is not None and node.captured:
            return "it reads values of an outer graph"
        return ""

    def _why_operator(self, node: Node) -> str:
        kernel = kernel_for(node.op_type, node.domain) is not None
        runs, why = supports(self._target, node.op_type, node.domain, kernel)
        return "" if runs else why
