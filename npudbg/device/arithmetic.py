"""A node's arithmetic: ONNX Runtime's, with sums in fp16 where the device's accumulator is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from npudbg.device.accumulate import LARGEST, Register, trace
from npudbg.device.kernels.base import Op
from npudbg.device.narrowsum import Sums, has_sums, narrow_sum
from npudbg.device.noderunner import NodeRunner
from npudbg.device.numerics import Numerics
from npudbg.graph.ir import Node
from npudbg.session.sums import WrongSum

Array = npt.NDArray[Any]

_WRONG = 0.1
"""Error of a sum, over the largest magnitude of the node's results, that is told."""

_LOST = 8
"""Fewest terms that must have been lost for a stall: fewer are ordinary rounding."""


class Arithmetic:
    """Runs nodes as the device computes them.

    Args:
        runner: Computes in the model's own type.
        numerics: Whether sums run in fp16, and which tensors lie in memory as fp16.
    """

    def __init__(self, runner: NodeRunner, numerics: Numerics) -> None:
        """Nothing was noted yet."""
        self._runner, self._numerics = runner, numerics
        self.noted: list[WrongSum] = []

    def run(
        self,
        node: Node,
        feeds: Mapping[str, Any],
        types: Mapping[str, onnx.TypeProto] | None = None,
        *,
        device: bool,
        note: bool = False,
    ) -> tuple[list[Any], list[str]]:
        """Run a node.

        Args:
            node: The node.
            feeds: Operands by name, in the model's type.
            types: See :meth:`~npudbg.device.noderunner.NodeRunner.run`.
            device: Whether it runs on the device; the host sums in its own way.
            note: Whether sums that went wrong are kept in ``noted``.

        Raises:
            NodeError: ONNX Runtime refuses the node.
        """
        results, kinds = self._runner.run(node.proto, feeds, types)
        register = self._numerics.register
        if register is None or not device or not self._in_half(node, feeds, results):
            return results, kinds
        operands = [feeds[name] if name else None for name in node.inputs]
        op = Op(
            node.op_type,
            node.attributes,
            tuple(None if a is None else tuple(a.shape) for a in operands),
            tuple(None if r is None else tuple(r.shape) for r in results),
            node.since_opset,
            {i: a for i, a in enumerate(operands) if i and a is not None and a.dtype.kind in "iu"},
        )
        sums = narrow_sum(op, operands, register)
        if sums is None:
            return results, kinds
        if note:
            self._note(node, sums, results[0], register)
        return [sums.result.astype(results[0].dtype), *results[1:]], kinds

    def forget(self, node: Node) -> None:
        """A node is computed in another way: what was noted of it does not hold."""
        self.noted = [w for w in self.noted if w.node != node.index]

    def _in_half(self, node: Node, feeds: Mapping[str, Any], results: list[Any]) -> bool:
        """Whether the node adds up, and everything it multiplies and gives is fp16."""
        if node.domain not in ("", "ai.onnx") or not has_sums(node.op_type):
            return False
        given = [(name, feeds[name]) for name in node.inputs if name]
        floats = [(n, a) for n, a in given if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        half = self._numerics.in_half
        return all(half(a, n) for n, a in [*floats, (node.outputs[0], results[0])])

    def _note(self, node: Node, sums: Sums, wide: Array, register: Register) -> None:
        """Keep the worst sum of a node if overflow or stall made it wrong."""
        if not wide.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            exact = wide.astype(np.float32).reshape(-1)
            got = sums.result.reshape(-1)
            fits = np.isfinite(exact) & (np.abs(exact) <= LARGEST)
            error = np.where(fits, np.abs(got - exact), np.float32(0))
        error[np.isnan(error)] = np.inf
        limit = _WRONG * float(np.abs(exact[fits]).max(initial=0.0))
        worst = int(error.argmax())
        if not error[worst] > limit:
            return
        told = trace(sums.terms(worst), register)
        # A loss that is small beside the error is not its reason.
        stalled = told.lost >= _LOST and 2 * abs(told.lost_sum) >= abs(told.exact - told.reached)
        if told.overflow < 0 and not stalled:
            return
        overflow = told.overflow >= 0
        self.noted.append(
            WrongSum(
                node=node.index,
                tensor=node.outputs[0],
                kind="overflow" if overflow else "stall",
                at=tuple(int(i) for i in np.unravel_index(worst, wide.shape)),
                terms=told.length,
                exact=told.exact,
                reached=told.reached if np.isfinite(told.reached) else None,
                peak=told.peak,
                term=told.overflow if overflow else told.last,
                absorbed=told.lost,
                outputs=int(np.count_nonzero(error > limit)),
                elements=int(wide.size),
                block=register.block,
            )
        )
