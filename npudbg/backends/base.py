"""What a backend is: something that turns a request into a recorded session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt

from npudbg.device.calibration import Calibration
from npudbg.device.faults.spec import Fault
from npudbg.device.faults.touch import Injection
from npudbg.device.machine import HostBuffer
from npudbg.graph.ir import Graph
from npudbg.session.records import TensorRecord
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class HostInput:
    """One input as the host holds it: its record, and the buffer a driver is handed."""

    record: TensorRecord
    buffer: HostBuffer


@dataclass(frozen=True, slots=True)
class Request:
    """What to run.

    Attributes:
        graph: The model.
        target: The chip's profile.
        target_toml: The profile's text, kept in the session.
        inputs: In the order of the call.
        precision: ``fp32``, ``fp16``, ``bf16`` or ``int8``.
        fused: Whether element-wise nodes run on the tile in SRAM.
        injections: What is done to memory while it runs.
        faults: Faults of the hardware.
        calibration: int8 parameters of every tensor; None to take each tensor's own range.
        raised: Names or labels of nodes whose results keep the model's type.
        replace: Arrays by tensor name that take the place of what nodes compute.
        options: The options of the command line, for the session.
        notes: One line each: what npudbg chose itself.
        progress: Called with nodes done, nodes in all, label.
        cancel: Set to stop.
    """

    graph: Graph
    target: Target
    target_toml: str = ""
    inputs: Sequence[HostInput] = ()
    precision: str = "fp32"
    fused: bool = True
    injections: Sequence[Injection] = ()
    faults: Sequence[Fault] = ()
    calibration: Calibration | None = None
    raised: frozenset[str] = frozenset()
    replace: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    progress: Progress | None = None
    cancel: threading.Event | None = None


@dataclass(slots=True)
class Result:
    """How a run ended: ``status`` (``complete``, ``failed``, …), and the model's outputs."""

    status: str
    message: str = ""
    node: int = -1
    outputs: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """A backend records one run."""

    name: str

    def run(self, request: Request, writer: SessionWriter) -> Result:
        """Run ``request`` and record it; the caller finishes the writer."""
        ...
