"""The data model of a session: frozen records that every part of npudbg reads.

Nothing here knows how a record is stored, made or drawn, and nothing here
imports another part of npudbg.  Commands are the one exception to "a record a
class": there can be millions, so they are rows of a NumPy structured array
(see :mod:`npudbg.session.commands`).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Origin = Literal["simulated", "measured", "imported", "estimated", "declared"]
"""Where a figure comes from; shown beside each figure."""

Severity = Literal["error", "warning", "info"]
Certainty = Literal["proven", "suspected"]
Role = Literal["input", "output", "activation", "weight", "constant"]
SubjectKind = Literal[
    "tensor", "node", "command", "address", "section", "operator", "model", "file", "target", "run"
]

LAYER_NAMES = {0: "nothing", 1: "host", 2: "input", 3: "trace", 4: "output"}


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all records: immutable, keyword-only, JSON and msgpack ready."""


class Subject(Record, frozen=True):
    """What a finding points at.

    ``kind`` says how to read the rest: a tensor or node by ``name``, a command
    by ``seq``, an address by ``address`` and ``space``, an ELF section by
    ``name`` in file ``file``.
    """

    kind: SubjectKind
    name: str = ""
    tensor: int | None = None
    node: int | None = None
    seq: int | None = None
    address: int | None = None
    space: str | None = None
    file: str | None = None


class Finding(Record, frozen=True):
    """One thing a rule saw, with the numbers it compared.

    Attributes:
        code: Stable code such as ``H101``; never changes its meaning.
        name: Short hyphenated name, e.g. ``not-c-contiguous``.
        layer: 1 host, 2 input, 3 trace, 4 output; 0 for what lies outside.
        severity: ``error`` makes the exit code 1.
        certainty: ``proven`` when the record itself shows the cause.
        subject: What is at fault.
        message: One line of plain text (data: never markup).
        evidence: The numbers that were compared; JSON values only.
        fix: One line that says what to do.
        related: Other subjects the reader may want to open.
        origin: Where the evidence's figures come from.
        source: Name of the plugin that made it, or ``npudbg``.
    """

    code: str
    name: str
    layer: int
    severity: Severity
    certainty: Certainty
    subject: Subject
    message: str
    evidence: dict[str, Any] = {}
    fix: str = ""
    related: tuple[Subject, ...] = ()
    origin: Origin = "measured"
    source: str = "npudbg"


class Verdict(Record, frozen=True):
    """The one answer on top: the earliest layer at fault and why.

    Attributes:
        layer: 1-4, or 0 when nothing is at fault.
        code: Code of the finding that decided, or ``""``.
        summary: One line.
        chain: Cause to symptom, one line a link.
        ruled_out: What was checked and is in order, one line a layer.
        finding: Index of the deciding finding in the session's list.
    """

    layer: int
    code: str
    summary: str
    chain: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    finding: int | None = None


class Stats(Record, frozen=True):
    """What one pass over a tensor's values saw.

    For integer and boolean tensors the non-finite counts are 0.  ``at_min`` and
    ``at_max`` count elements at the dtype's finite limits (saturation).
    """

    count: int
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zeros: int = 0
    subnormal: int = 0
    at_min: int = 0
    at_max: int = 0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None

    @property
    def nonfinite(self) -> int:
        """Number of NaN, +Inf and -Inf elements."""
        return self.nan + self.pos_inf + self.neg_inf


class Quantization(Record, frozen=True):
    """Affine quantisation: ``real = scale * (q - zero_point)``."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


class TensorRecord(Record, frozen=True):
    """What an array is, not only its values.

    Attributes:
        id: Index in the session's tensor table.
        name: Name in the ONNX graph (untrusted text).
        role: What the tensor is to the model.
        shape: Elements per axis.
        dtype: NumPy type string with byte order (``<f4``, ``>f4``, ``|u1``), or
            an extension type's name (``bfloat16``, ``float8_e4m3fn`` …), or a
            non-tensor kind (``sequence``, ``optional``, ``map``, ``string``).
        strides: Bytes per axis step; the C-order strides when packed.
        layout: ``NCHW``, ``NHWC`` … where known.
        address: Address of element 0 in ``space``, or None.
        space: ``host``, ``ddr`` or ``sram``.
        address_origin: ``measured`` in a process, ``declared`` by the user,
            ``simulated`` by the device.
        offset: Bytes from the base buffer's first byte to element 0.
        base_nbytes: Size of the base buffer, in bytes.
        owner: Who owns the memory: ``self``, or the base object's type.
        blob: Id of the stored logical (C-order) bytes, or None if not kept.
        base_blob: Id of the base buffer's own bytes when they are not the
            logical bytes (a view), else None.
        producer: Index of the node that made it, or -1.
        consumers: Indices of the nodes that read it.
        first_seq: First command that wrote it, or -1.
        last_seq: Last command that wrote it, or -1.
        quantization: Affine parameters, or None.
        stats: Result of the scan, or None if not scanned.
        value: Short text of a non-tensor value.
        origin: Where the values come from.
    """

    id: int
    name: str
    role: Role
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] = ()
    layout: str | None = None
    address: int | None = None
    space: str = "host"
    address_origin: Origin = "simulated"
    offset: int = 0
    base_nbytes: int = 0
    owner: str = "self"
    blob: int | None = None
    base_blob: int | None = None
    producer: int = -1
    consumers: tuple[int, ...] = ()
    first_seq: int = -1
    last_seq: int = -1
    quantization: Quantization | None = None
    stats: Stats | None = None
    value: str = ""
    origin: Origin = "simulated"


class NodeRecord(Record, frozen=True):
    """One node of the original ONNX file and what the device made of it.

    Attributes:
        index: Execution order in the session (topological).
        name: Node name (untrusted text; may be empty).
        op_type: ONNX operator.
        domain: Operator domain, ``""`` for ONNX's own.
        inputs: Tensor ids read, -1 for an omitted optional input.
        outputs: Tensor ids written, -1 for an omitted output.
        attributes: Short text per attribute (cut, for display).
        kernel: Device kernel, ``host``, or ``folded``.
        engine: Engine that ran it (``mac``, ``vec``, ``dma``, ``host``, ``-``).
        group: Index of the fused group it runs in.
        tiles: Number of tiles.
        first_seq: First command, or -1 if none.
        last_seq: Last command, or -1.
        start: First cycle.
        end: Last cycle.
        macs: Multiply-accumulates of the node.
        status: ``ok``, ``hung``, ``failed``, ``skipped``, ``not-run``.
        note: One line: why it runs on the host, what failed.
    """

    index: int
    name: str
    op_type: str
    domain: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    attributes: dict[str, str] = {}
    kernel: str = ""
    engine: str = "-"
    group: int = -1
    tiles: int = 0
    first_seq: int = -1
    last_seq: int = -1
    start: int = 0
    end: int = 0
    macs: int = 0
    status: str = "ok"
    note: str = ""

    @property
    def label(self) -> str:
        """Name for people: the node's own, else operator and index."""
        return self.name or f"{self.op_type}_{self.index}"


class ValueContract(Record, frozen=True):
    """What the model says of one of its inputs or outputs.

    ``shape`` holds an int per fixed axis, a string per symbolic axis and None
    per unknown one; it is None when even the rank is unknown.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None = None
    kind: str = "tensor"
    optional: bool = False


class ModelRecord(Record, frozen=True):
    """The model as loaded."""

    name: str
    path: str = ""
    sha256: str = ""
    nbytes: int = 0
    producer: str = ""
    ir_version: int = 0
    opset: dict[str, int] = {}
    inputs: tuple[ValueContract, ...] = ()
    outputs: tuple[ValueContract, ...] = ()
    operators: dict[str, int] = {}


class Counter(Record, frozen=True):
    """One counter of the run, with the thresholds it is judged by.

    ``value`` is in ``unit``; a utilisation is a fraction of 1.
    """

    name: str
    value: float
    unit: str = ""
    origin: Origin = "simulated"
    healthy: str = ""
    dangerous: str = ""


class MemoryRegion(Record, frozen=True):
    """One address range of the machine, e.g. SRAM or an allocated buffer."""

    space: str
    base: int
    nbytes: int
    name: str = ""


class Meta(Record, frozen=True):
    """One per session: what was run, on what, with which options.

    ``libraries`` holds the versions of those that computed: another one may differ in
    the last bit.
    """

    tool: str = "npudbg"
    version: str = ""
    backend: str = "simulated"
    created: str = ""
    model: ModelRecord | None = None
    target: str = "generic"
    target_toml: str = ""
    precision: str = "fp32"
    clock_hz: int = 0
    libraries: dict[str, str] = {}
    options: dict[str, Any] = {}
    engines: tuple[str, ...] = ()
    regions: tuple[MemoryRegion, ...] = ()
    notes: tuple[str, ...] = ()
    status: str = "recording"
