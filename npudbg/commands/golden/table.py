"""The golden table: every tensor of a run beside what it should have been."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudbg.commands.golden.source import Golden, dequantized
from npudbg.layers.compare.closeness import closeness, closer
from npudbg.layers.compare.formats import LEAST_SNR, beyond, coarser, format_of, tolerance
from npudbg.layers.compare.why import Why, layout, lost_channels, why
from npudbg.layers.output_sums import evidence, told
from npudbg.session import sums
from npudbg.session.errors import UserError
from npudbg.session.golden import MAX_ROWS, Closeness, GoldenRecord, GoldenRow
from npudbg.session.text import safe

if TYPE_CHECKING:
    import threading

    import numpy.typing as npt

    from npudbg.device.calibration import Calibration
    from npudbg.graph.ir import Graph
    from npudbg.session.reader import Session
    from npudbg.session.records import TensorRecord
    from npudbg.targets.profile import Target

_RANDOM = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split()
)
_SOFTMAX = frozenset(("Softmax", "LogSoftmax"))
_ROLES = ("input", "activation", "output")
_UNMATCHED = 16
_SEARCHED = 8
_LONGEST = 240
_ROUNDED = ("", "range", "saturation", "scale", "offset", "precision")
"""Looks of an error that a sum gone wrong in its accumulator explains."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is compared, and how.

    Attributes:
        graph: The model as the golden run has it.
        inputs: Its inputs by name.
        target: The profile.
        precision: Of the device's run.
        calibration: Its int8 parameters.
        fused: Whether it fused.
        mode: ``entire``, ``single`` or ``both``.
        atol: Absolute tolerance; None for that of the number format.
        rtol: Relative tolerance; None for that of the number format.
        cancel: Set to stop.
    """

    graph: Graph
    inputs: Mapping[str, Any]
    target: Target
    precision: str
    calibration: Calibration | None = None
    fused: bool = True
    mode: str = "entire"
    atol: float | None = None
    rtol: float | None = None
    cancel: threading.Event | None = None

    @property
    def default(self) -> bool:
        """Whether tolerances are those of the number format."""
        return self.atol is None and self.rtol is None


@dataclass(slots=True)
class Table:
    """The record, and the arrays that further rules look at.

    Attributes:
        record: The table.
        kept: Golden values of the outputs and of the first tensor that differs; all
            of them (read when asked for) where they lie in files.
    """

    record: GoldenRecord
    kept: Mapping[str, Any] = field(default_factory=dict)


def golden_table(session: Session, golden: Golden, asked: Asked) -> Table:
    """Compare a recorded run with golden values.

    Memory follows the live set: golden values are made node by node, or read one
    tensor at a time, and the run's own come from the session.

    Args:
        session: The run.
        golden: What it is compared with.
        asked: How.
    """
    maker = _Maker(session, golden, asked)
    for name, array in maker.values():
        maker.add(name, array)
    return maker.table()


class _Maker:
    def __init__(self, session: Session, golden: Golden, asked: Asked) -> None:
        self._session, self._golden, self._asked = session, golden, asked
        self._rows: list[GoldenRow] = []
        self._kept: dict[str, Any] = {}
        self._outputs = {c.name for c in asked.graph.outputs}
        self._form = asked.precision
        self._compared = self._differing = 0
        self._first = -1
        self._left_off = 0
        self._notes = list(golden.notes)
        self._singles = self._single() if asked.mode != "entire" else {}
        self._sums = {w.node: w for w in sums.read(self._session)}

    def values(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield golden values in the order in which the run made its tensors."""
        if not self._golden.live:
            held = self._golden.arrays
            ranks = [(t.producer, t.id, t.name) for t in self._session.tensors if t.name in held]
            for _, _, name in sorted(ranks):
                yield name, held[name]
            return
        from npudbg.device.widened import Widened, widened

        random: set[str] = set()
        feeds = {name: widened(array) for name, array in self._asked.inputs.items()}
        try:
            for node, given in Widened(self._asked.graph).run(feeds):
                if self._stopped():
                    return
                if node.op_type in _RANDOM or not random.isdisjoint(node.reads):
                    random.update(node.writes)
                    continue
                yield from given.items()
        except UserError as error:
            self._notes.append(f"the golden run stopped: {safe(error, 300)}")
        if random:
            self._notes.append(f"{len(random)} tensors depend on chance and were not compared")

    def add(self, name: str, array: Any) -> None:
        """Compare one tensor."""
        import numpy as np

        record = self._session.tensor(name)
        if record is None or record.role not in _ROLES or not isinstance(array, np.ndarray):
            return
        got = self._session.array(record)
        if got is None or array.dtype.kind in "OSUTMm":
            return
        self._form = coarser(self._form, format_of(record))
        row = self._row(record, dequantized(got, record.quantization), array)
        self._compared += 1
        if name in self._outputs and self._golden.live:
            self._kept[name] = array
        if row.differs:
            self._differing += 1
            if self._first < 0:
                self._first = len(self._rows)
                self._kept[name] = array
        if len(self._rows) < MAX_ROWS or self._first == len(self._rows):
            self._rows.append(row)
        else:
            self._left_off += 1

    def table(self) -> Table:
        """Return what was found."""
        golden, asked = self._golden, self._asked
        if asked.default:
            self._notes.append(
                f"a tensor differs below {LEAST_SNR[self._form]:g} dB ({self._form}), or where a "
                "value is lost or off by half the range; --atol and --rtol say otherwise"
            )
        record = GoldenRecord(
            what=golden.what,
            origin=golden.origin,
            optimised=golden.optimised,
            mode=asked.mode,
            rows=tuple(self._rows),
            first=self._first,
            compared=self._compared,
            differing=self._differing,
            left_off=self._left_off,
            unmatched=golden.unmatched[:_UNMATCHED],
            notes=tuple(self._notes),
        )
        return Table(record, self._kept if golden.live else golden.arrays)

    def _row(self, record: TensorRecord, got: Any, array: Any) -> GoldenRow:
        single = self._singles.get(record.name)
        plain = GoldenRow(
            name=record.name[:_LONGEST], tensor=record.id, node=record.producer, role=record.role,
            dtype=record.dtype, shape=tuple(record.shape), single=single,
        )  # fmt: skip
        # Looking for a layout takes longest: where it begins, and what the user sees.
        layouts = self._first < 0 or (record.role == "output" and len(self._outputs) <= _SEARCHED)
        shapes = f"shape {list(got.shape)} here and {list(array.shape)} in the golden values"
        other = Why("shape", shapes, {"golden_shape": list(array.shape)})
        if got.size != array.size:
            return _with(
                plain,
                (layout(got, array, trusted=self._golden.live) if layouts else None) or other,
                True,
            )
        same = [n for n in got.shape if n != 1] == [n for n in array.shape if n != 1]
        aligned = array.reshape(got.shape)
        atol, rtol = tolerance(aligned, self._form, self._asked.atol, self._asked.rtol)
        entire = closeness(got, aligned, atol=atol, rtol=rtol)
        if self._asked.mode == "single":
            alone = single is not None and self._beyond(single, self._asked.precision)
            return _with(plain, Why(), alone)
        differs = self._beyond(entire, self._form)
        found = Why()
        if differs:
            reads = aligned if same else array
            found = why(
                got,
                reads,
                record,
                entire,
                single,
                form=self._form,
                layouts=layouts,
                trusted=self._golden.live,
            )
            if found.reason in _ROUNDED and record.producer in self._sums:
                wrong = self._sums[record.producer]
                found = Why("accumulator", told(wrong), evidence(wrong))
            if not same and found.reason != "layout":
                found = other
        elif entire.max_abs > 0 and self._joins(record):
            lost = lost_channels(got, aligned, record)
            found, differs = (lost, True) if lost is not None else (found, False)
        if differs or record.role == "output":
            entire = closer(entire, got, aligned, scores=self._scores(record))
        return _with(plain, found, differs, entire)

    def _scores(self, record: TensorRecord) -> bool:
        """Tell whether a tensor holds scores of classes: an output of rows, or of a softmax."""
        made = self._session.nodes[record.producer].op_type if record.producer >= 0 else ""
        rows = len(record.shape) <= 2
        return record.role == "output" and (rows or made in _SOFTMAX)

    def _joins(self, record: TensorRecord) -> bool:
        """Tell whether channels of unlike range may share a scale here.

        Elsewhere a channel below one quantisation step is what a sound network has.
        """
        nodes = self._session.nodes
        joined = 0 <= record.producer < len(nodes) and nodes[record.producer].op_type == "Concat"
        return joined or record.role == "output"

    def _beyond(self, found: Closeness, form: str) -> bool:
        return beyond(found, form) if self._asked.default else found.mismatches > 0

    def _single(self) -> dict[str, Closeness]:
        """Return how each result compares when its node alone is the device's."""
        from npudbg.device.single import single_layers

        asked = self._asked
        found: dict[str, Closeness] = {}
        given = None if self._golden.live else self._golden.arrays
        if given is not None:
            held = sum(1 for t in self._session.tensors if t.name in given)
            self._notes.append(
                f"single: operands are the golden values given, where they hold one ({held} "
                "tensors); the others are from ONNX Runtime"
            )
        try:
            for layer in single_layers(
                asked.graph, asked.target, asked.inputs, precision=asked.precision,
                calibration=asked.calibration, fused=asked.fused, given=given,
            ):  # fmt: skip
                if self._stopped():
                    break
                if layer.golden.dtype.kind in "OSUTMm" or layer.golden.shape != layer.device.shape:
                    continue
                atol, rtol = tolerance(layer.golden, asked.precision, asked.atol, asked.rtol)
                alone = closeness(layer.device, layer.golden, atol=atol, rtol=rtol)
                if self._beyond(alone, asked.precision):
                    alone = closer(alone, layer.device, layer.golden)
                found[layer.name] = alone
        except UserError as error:
            self._notes.append(f"single stopped: {safe(error, 300)}")
        return found

    def _stopped(self) -> bool:
        cancel = self._asked.cancel
        return cancel is not None and cancel.is_set()


def _with(row: GoldenRow, found: Any, differs: bool, entire: Closeness | None = None) -> GoldenRow:
    import msgspec

    return msgspec.structs.replace(
        row, entire=entire, reason=found.reason, told=found.told, evidence=found.evidence,
        differs=differs,
    )  # fmt: skip
