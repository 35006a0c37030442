"""What touches a run: bytes poked after a command, and faults waiting for their place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from npudbg.device.emit import Action
from npudbg.device.faults.spec import Fault
from npudbg.device.memory import Bytes
from npudbg.graph.ir import Graph
from npudbg.session.commands import Kind, Space
from npudbg.session.errors import UserError
from npudbg.session.silent import Silent
from npudbg.session.text import safe
from npudbg.targets.profile import Target

TRANSFER_FAULTS = frozenset(
    {"dropped-dma", "short-dma", "length-overflow", "late-dma", "duplicated-dma",
     "misaligned-dma", "iommu-fault", "truncated-address"}
)  # fmt: skip
_WEIGHT_FAULTS = frozenset({"weight-bit-flip", "nan-weight", "corrupted-scale"})
_INCOHERENT = frozenset({"missing-flush", "missing-invalidate", "late-writeback", "torn-line"})
_LOADS_ONLY = frozenset({"late-dma", "duplicated-dma"})
"""Faults of what kernels read: nothing waits for a store, and one done twice changes nothing."""
_KERNEL_FAULTS = frozenset({"hang", "no-recovery", "deadlock"})
_LENGTH_BITS = 16
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Injection:
    """Bytes written into a space right after a command.

    Attributes:
        after: Command number.
        space: ``SRAM`` or ``DDR``.
        address: First byte.
        data: The bytes.
        flip: Exclusive-or instead of writing.
    """

    after: int
    space: Space
    address: int
    data: bytes
    flip: bool = False


@dataclass(slots=True)
class Touch:
    """The injections and faults of one run; a fault acts once.

    Attributes:
        injections: Bytes by command.
        waiting: Injections that have not struck yet.
        active: Whether anything touches the run (it is then executed byte by byte).
        faults: Faults that have not acted yet.
        replays: Transfers that will be done once more: SRAM address and bytes.
        silent: What came into memory though no command wrote it.
        unmet: A fault that has changed something which no command has met yet.
    """

    injections: tuple[Injection, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    replays: list[tuple[int, Bytes]] = field(default_factory=list)
    silent: list[Silent] = field(default_factory=list)
    unmet: Fault | None = None
    waiting: list[Injection] = field(init=False)
    active: bool = field(init=False)

    def __post_init__(self) -> None:
        """Let every injection wait for its command."""
        self.waiting = list(self.injections)
        # For the whole run: memory that a fault has touched stays so when the fault is gone.
        self.active = bool(self.injections or self.faults)

    @classmethod
    def plan(
        cls, injections: Sequence[Injection], faults: Sequence[Fault], graph: Graph, target: Target
    ) -> Touch:
        """Check faults against the model and the target.

        Raises:
            UserError: A name that the model does not have, or a fault that this
                target cannot show.
        """
        names = {n for node in graph.nodes for n in (*node.inputs, *node.outputs)}
        labels = {x for node in graph.nodes for x in (node.name, node.label)}
        pokes = list(injections)
        rest = []
        for fault in faults:
            tensor, node = fault.names.get("tensor"), fault.names.get("node")
            where = f"--fault {fault.kind}"
            if (
                tensor is not None
                and tensor not in names
                and tensor.removesuffix("@ddr") not in names
            ):
                raise UserError(
                    f"{where}: the model has no tensor {safe(tensor)!r}{_near(tensor, names)}"
                )
            if node is not None and node not in labels:
                raise UserError(
                    f"{where}: the model has no node {safe(node)!r}{_near(node, labels)}"
                )
            if fault.kind in _WEIGHT_FAULTS and tensor is not None:
                _check_weight(where, tensor, graph)
            if fault.kind in _INCOHERENT and target.cache.coherent is not False:
                raise UserError(
                    f"{where}: {target.name} is not known to have incoherent caches, so this "
                    "cannot happen there; try --target generic-a57"
                )
            if fault.kind == "bit-flip":
                space = Space.DDR if fault.names.get("space") == "ddr" else Space.SRAM
                mask = bytes([1 << (fault.int("bit", 0) % 8)])
                pokes.append(
                    Injection(fault.int("after", 0), space, fault.int("addr", 0), mask, True)
                )
                continue
            rest.append(fault)
        return cls(tuple(pokes), rest)

    def due(self, low: int, high: int) -> list[Injection]:
        """Take out the injections that wait for commands ``low`` to ``high``, in their order."""
        found = [i for i in self.waiting if low <= i.after <= high]
        if found:
            self.waiting = [i for i in self.waiting if not low <= i.after <= high]
        return sorted(found, key=lambda i: i.after)

    def take(self, kind: str, *, tensor: str | None = None) -> Fault | None:
        """Take a fault of a kind (for a tensor) out, if one waits."""
        for fault in self.faults:
            if fault.kind == kind and (tensor is None or fault.names.get("tensor") == tensor):
                self.faults.remove(fault)
                return fault
        return None

    def transfer(self, action: Action) -> Fault | None:
        """Take the fault that strikes a transfer, if one waits for it."""
        way = "load" if action.kind == Kind.DMA_LOAD else "store"
        for fault in self.faults:
            if fault.kind in TRANSFER_FAULTS and self._meets(fault, action, way):
                self.faults.remove(fault)
                return fault
        return None

    def kernel(self, action: Action, label: str, *, circle: bool = True) -> Fault | None:
        """Take the fault that strikes a kernel, if one waits for it.

        Args:
            action: The kernel.
            label: Its node.
            circle: A load and a store of the group come later: they could wait for each
                other. A deadlock that names no node waits for the first such kernel.
        """
        for fault in self.faults:
            if fault.kind not in _KERNEL_FAULTS:
                continue
            node = fault.names.get("node")
            by_seq = "seq" in fault.numbers
            if by_seq and fault.int("seq", -1) != action.seq:
                continue
            if node is not None and node != label:
                continue
            if not by_seq and fault.int("tile", 0) != action.tile:
                continue
            if fault.kind == "deadlock" and not circle and node is None and not by_seq:
                continue
            self.faults.remove(fault)
            return fault
        return None

    @staticmethod
    def _meets(fault: Fault, action: Action, way: str) -> bool:
        if fault.kind in _LOADS_ONLY and way == "store":
            return False
        if "seq" in fault.numbers:
            return fault.int("seq", -1) == action.seq
        if fault.names.get("how") == "read-only" and way == "load":
            return False  # reading is what such a mapping allows
        name = fault.names.get("tensor")
        if name is not None and name.removesuffix("@ddr") != action.region.tensor.removesuffix(
            "@ddr"
        ):
            return False
        either = name is not None or "how" in fault.names
        if fault.names.get("way", way if either else "load") != way:
            return False
        return fault.int("tile", action.tile if name is not None else 0) == action.tile

    def check_met(self, commands: int) -> None:
        """Check that everything has struck, after a run of so many commands.

        Raises:
            UserError: Something still waits.
        """
        left = [*self.faults, *([self.unmet] if self.unmet is not None else [])]
        if left:
            raise UserError(
                f"--fault {left[0].kind}: nothing in this run met it; "
                "check its tensor, tile or command number"
            )
        if self.waiting:
            raise UserError(
                f"bytes cannot change after command {self.waiting[0].after}: the run has "
                f"commands 0 to {commands - 1}"
            )

    def moved(self, fault: Fault, nbytes: int) -> int:
        """Return how many bytes a shortened transfer moves.

        Raises:
            UserError: All of them.
        """
        if fault.kind == "length-overflow":
            bits = fault.int("bits", _LENGTH_BITS)
            moved = nbytes & ((1 << bits) - 1)
        else:
            moved = min(fault.int("bytes", nbytes // 2), nbytes)
        if moved == nbytes:
            key = "bits" if fault.kind == "length-overflow" else "bytes"
            raise UserError(
                f"--fault {fault.kind}: the transfer has {nbytes} bytes, and all of them move; "
                f"give fewer with {key}=…"
            )
        return moved


def _check_weight(where: str, tensor: str, graph: Graph) -> None:
    from npudbg.device.folding import constants

    known = constants(graph)
    if tensor not in known:
        raise UserError(
            f"{where}: {safe(tensor)!r} is not a weight of the model, the run computes it"
            f"{_near(tensor, known)}"
        )


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), _SHOWN)
    return f"; did you mean {' or '.join(safe(n) for n in near)}?" if near else ""


def corrupt_weight(fault: Fault, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    """Change one element of a weight in device memory, in place.

    Raises:
        UserError: NaN is asked for, of a type that has none.
    """
    flat = array.reshape(-1)
    if not flat.size:
        return
    index = fault.int("index", 0) % flat.size
    if fault.kind == "nan-weight":
        try:
            flat[index] = np.nan
        except ValueError:
            raise UserError(
                f"--fault nan-weight: the device holds {safe(fault.names['tensor'])!r} as "
                f"{flat.dtype.name}, which has no NaN; use weight-bit-flip"
            ) from None
        return
    if fault.kind == "corrupted-scale":
        factor = fault.numbers.get("factor", 16.0)
        with np.errstate(over="ignore", invalid="ignore"):
            flat[...] = (flat.astype(np.float64) * factor).astype(flat.dtype)
        return
    raw = flat.view(np.uint8)
    bit = fault.int("bit", 8 * flat.dtype.itemsize - 2)
    raw[index * flat.dtype.itemsize + (bit // 8) % flat.dtype.itemsize] ^= 1 << (bit % 8)
