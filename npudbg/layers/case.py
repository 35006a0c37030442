"""The case before the judges: what a rule may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from npudbg.graph.ir import Graph
from npudbg.session.golden import GoldenRecord
from npudbg.session.reader import Session
from npudbg.session.records import ModelRecord, TensorRecord, ValueContract
from npudbg.targets.profile import Target


@dataclass(frozen=True, slots=True)
class HostTensor:
    """A tensor as it lies in a host process.

    Attributes:
        record: What it is (address, strides, offset …).
        facts: What ``agent.describe.describe`` measured of the array.
        array: The array itself, with its strides and byte order (never written to).
    """

    record: TensorRecord
    facts: Mapping[str, Any]
    array: npt.NDArray[Any]

    @property
    def name(self) -> str:
        """The model input that it feeds."""
        return self.record.name


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What the user said the model expects of one input's values and layout."""

    layout: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Facts for the rules; whatever is unknown is None or empty.

    Layers 1 and 2 judge ``inputs`` against ``model`` and ``target`` before the
    device runs; layers 3 and 4 judge ``session``.

    Attributes:
        target: The chip's profile.
        precision: ``fp32``, ``fp16``, ``bf16`` or ``int8``.
        model: The model's contract.
        graph: The model itself; None when only a session is at hand.
        inputs: Tensors fed, in the order of the call.
        dims: Symbolic axes that the user bound (``--dim``), by symbol.
        preprocessing: By input name.
        session: The recorded run.
        synthesised: Names of inputs that npudbg made up itself.
        manifest: Facts of the runtime on the board, as the user gave them.
        golden: What tensors should have been, by name; each may be read from a file when
            it is asked for.
        compared: How the run compares with it, tensor by tensor.
        unread: Names that were fed but are no host tensors (strings, sequences, device
            memory); None where that is not known, and no input is then called missing.
        sanitize: Whether SRAM is checked byte by byte (``--sanitize``).
        golden_before: Golden values of the run before, to recognise an output that is one late.
    """

    target: Target
    precision: str = "fp32"
    model: ModelRecord | None = None
    graph: Graph | None = None
    inputs: tuple[HostTensor, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    preprocessing: Mapping[str, Preprocessing] = field(default_factory=dict)
    session: Session | None = None
    synthesised: frozenset[str] = frozenset()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    unread: frozenset[str] | None = None
    golden: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    compared: GoldenRecord | None = None
    sanitize: bool = False
    golden_before: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def contract(self, name: str) -> ValueContract | None:
        """Return the model's contract of an input, or None if it has none of that name."""
        if self.model is None:
            return None
        return next((v for v in self.model.inputs if v.name == name), None)
