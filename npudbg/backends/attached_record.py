"""An attached program's calls as a session: real addresses, strides and base bytes.

Each call is a node and a HOST command (times in nanoseconds, measured in the
program); its inputs and outputs are tensors of address space ``host``.  A tensor
of the first call bears the model's name, later ones ``name#N`` of call N.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.backends.attached_events import AttachedCall, AttachedSession, Program, Value
from npudbg.session.commands import COMMAND, Kind, Space, Status
from npudbg.session.records import (
    Finding,
    Meta,
    ModelRecord,
    NodeRecord,
    Role,
    Stats,
    TensorRecord,
    Verdict,
)
from npudbg.session.writer import SessionWriter

MAX_CALLS = 10_000
"""Calls recorded; further ones are judged but leave no record."""

_KINDS = {"list": "sequence", "tuple": "sequence", "dict": "map"}

Scan = Callable[[npt.NDArray[Any]], Stats | None]


@dataclass(frozen=True)
class Placed:
    """A value of a call with its record in the session."""

    value: Value
    record: TensorRecord


@dataclass
class _Open:
    """A call that has not returned yet."""

    index: int
    call: AttachedCall
    inputs: tuple[int, ...]


class Recorder:
    """Numbers an attached run's tensors and calls, and writes them where a file is wanted.

    A tensor of a call beyond :data:`MAX_CALLS` has id -1: it is in no table.
    """

    def __init__(
        self,
        writer: SessionWriter | None,
        *,
        keep_calls: int = 8,
        scan: Scan | None = None,
    ) -> None:
        """Begin a record.

        Args:
            writer: The session file, or None to number only.
            keep_calls: Calls whose tensor bytes are kept in any case; of later
                ones only where the caller says so.
            scan: Computes a tensor's statistics.
        """
        self.calls = 0
        self.skipped = 0
        self._writer = writer
        self._keep_calls = keep_calls
        self._scan = scan
        self._tensors = 0
        self._seq = 0
        self._origin: float | None = None
        self._open: dict[tuple[int, int], _Open] = {}
        self._facts: dict[str, Any] = {}
        self._programs: list[Any] = []
        self._models: list[ModelRecord] = []
        self._providers: list[str] = []

    def joined(self, program: Program) -> None:
        """Note a program."""
        self._programs.append(msgspec.to_builtins(program))

    def created(self, session: AttachedSession) -> None:
        """Note a session of the program."""
        self._models.append(session.model)
        self._providers.extend(p for p in session.providers if p not in self._providers)

    def begin(self, call: AttachedCall) -> list[Placed]:
        """Give a call that is about to be made its number, and its inputs their records."""
        index = self.calls
        self.calls += 1
        placed = self._place(call.values, "input", index, consumers=(index,))
        ids = tuple(p.record.id for p in placed)
        self._open[call.program.pid, call.number] = _Open(index, call, ids)
        return placed

    def end(self, call: AttachedCall) -> list[Placed]:
        """Give the outputs of a call that returned their records."""
        opened = self._open.get((call.program.pid, call.number))
        index = MAX_CALLS if opened is None else opened.index
        return self._place(call.values, "output", index, producer=index)

    def store(self, call: AttachedCall, placed: Iterable[Placed], *, keep: bool = False) -> None:
        """Write tensors of a call; their bytes too if the call is early or ``keep``."""
        opened = self._open.get((call.program.pid, call.number))
        if self._writer is None or opened is None or opened.index >= MAX_CALLS:
            self.skipped += self._writer is not None
            return
        bytes_too = keep or opened.index < self._keep_calls
        for each in placed:
            record = _named(each.record, opened.index)
            self._writer.add_tensor(self._with_bytes(record, each.value, bytes_too))
            self._facts[str(record.id)] = each.value.facts

    def finish_call(self, call: AttachedCall, outputs: Iterable[Placed], status: str = "") -> None:
        """Write a call that returned, failed or was aborted as a node and a command.

        Args:
            call: The event after the call (or the one before it, for an aborted call).
            outputs: What it returned.
            status: ``skipped`` for one that was never made; else found from ``error``.
        """
        opened = self._open.pop((call.program.pid, call.number), None)
        if opened is not None:
            status = status or ("failed" if call.error else "ok")
            self._write_call(opened, call, list(outputs), status)

    def left(self, program: Program) -> None:
        """Write the calls of a program that ended within them: they never returned."""
        for key in [k for k in self._open if k[0] == program.pid]:
            opened = self._open.pop(key)
            self._write_call(opened, opened.call, [], "hung")

    def close(
        self,
        findings: Iterable[Finding],
        verdict: Verdict,
        *,
        meta: Meta,
        notes: Iterable[str] = (),
    ) -> None:
        """Write what stands above the calls and close the file.

        Args:
            findings: All findings.
            verdict: The verdict.
            meta: Target and options; backend, model, engines and clock are set here.
            notes: Further lines for the session.
        """
        if self._writer is None:
            return
        model = self._models[0] if self._models else None
        more = (f"{self.skipped} tensor sets beyond call {MAX_CALLS} are not kept",)
        self._writer.set_meta(
            msgspec.structs.replace(
                meta,
                backend="attached",
                model=model,
                engines=("host",),
                clock_hz=1_000_000_000,
                created=meta.created or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                notes=(*meta.notes, *notes, *(more if self.skipped else ())),
                status="complete",
            )
        )
        self._writer.add_findings(findings)
        self._writer.set_verdict(verdict)
        self._writer.set_extra(
            "attached",
            {
                "programs": self._programs,
                "providers": self._providers,
                "models": [msgspec.to_builtins(m) for m in self._models],
                "facts": self._facts,
            },
        )
        self._writer.close()

    def discard(self) -> None:
        """Leave no file behind: there was no run."""
        if self._writer is not None:
            self._writer.discard()

    # -- inside --------------------------------------------------------------------------

    def _place(
        self,
        values: Iterable[Value],
        role: Role,
        index: int,
        *,
        producer: int = -1,
        consumers: tuple[int, ...] = (),
    ) -> list[Placed]:
        placed = []
        for value in values:
            kept = index < MAX_CALLS
            record = _record(value, self._tensors if kept else -1, role)
            self._tensors += kept
            if self._scan is not None and value.array is not None:
                record = msgspec.structs.replace(record, stats=self._scan(value.array))
            record = msgspec.structs.replace(record, producer=producer, consumers=consumers)
            placed.append(Placed(value, record))
            if kept and self._writer is not None:
                # Already now: whatever happens next, the table has no hole.
                self._writer.add_tensor(_named(record, index))
        return placed

    def _with_bytes(self, record: TensorRecord, value: Value, keep: bool) -> TensorRecord:
        if not keep or value.array is None or value.data is None or self._writer is None:
            return record
        blob = self._writer.put_array(value.array)
        base_blob = None
        packed = value.facts.get("c_contiguous") and len(value.data) == value.facts["nbytes"]
        if not packed:
            base_blob = self._writer.put_bytes(value.data)
        return msgspec.structs.replace(
            record,
            blob=blob,
            base_blob=base_blob,
            # Relative to the bytes that are kept: of a huge buffer only a part is.
            offset=value.start,
            base_nbytes=len(value.data),
        )

    def _write_call(
        self, opened: _Open, call: AttachedCall, outputs: list[Placed], status: str
    ) -> None:
        if self._writer is None or opened.index >= MAX_CALLS:
            return
        if self._origin is None:
            self._origin = opened.call.started
        # The clock of the program is the wall's, a call's length is the monotonic one's.
        stop = max(int((call.started - self._origin) * 1e9), 0)
        start = max(stop - call.elapsed_ns, 0)
        row = np.zeros(1, COMMAND)
        row["seq"] = seq = self._seq
        row["start"], row["end"] = start, stop
        row["node"], row["tile"], row["kind"] = opened.index, -1, Kind.HOST
        row["status"] = {"ok": Status.OK, "hung": Status.HUNG, "skipped": Status.NOT_STARTED}.get(
            status, Status.FAULT
        )
        row["tensor"] = outputs[0].record.id if outputs else -1
        if outputs and outputs[0].record.address is not None:
            row["dst"], row["dst_space"] = outputs[0].record.address, Space.HOST
            row["nbytes"] = min(int(outputs[0].value.facts.get("nbytes", 0)), 2**62)
        self._seq += 1
        self._writer.append_commands(row)
        self._writer.add_node(
            NodeRecord(
                index=opened.index,
                name=f"call {opened.index + 1}",
                op_type=f"InferenceSession.{call.api}",
                domain="onnxruntime",
                inputs=opened.inputs,
                outputs=tuple(p.record.id for p in outputs),
                attributes=_attributes(call),
                kernel="host",
                engine="host",
                first_seq=seq,
                last_seq=seq,
                start=start,
                end=stop,
                status=status,
                note=call.error[:400],
            )
        )


def _named(record: TensorRecord, index: int) -> TensorRecord:
    """Return the record as it is stored: names of later calls bear the call's number."""
    if not index:
        return record
    return msgspec.structs.replace(record, name=f"{record.name}#{index + 1}")


def _attributes(call: AttachedCall) -> dict[str, str]:
    shown = {"pid": str(call.program.pid), "thread": str(call.thread), "call": str(call.number)}
    if call.session is not None:
        shown["model"] = call.session.model.name[:200]
        shown["providers"] = ", ".join(call.session.providers)[:200]
    return shown


def _record(value: Value, number: int, role: Role) -> TensorRecord:
    if value.kind != "tensor":
        kind = _KINDS.get(value.kind, "string")
        return TensorRecord(
            id=number,
            name=value.name,
            role=role,
            shape=(),
            dtype=kind,
            value=value.text,
            address_origin="measured",
            origin="measured",
        )
    facts = value.facts
    return TensorRecord(
        id=number,
        name=value.name,
        role=role,
        shape=tuple(facts["shape"]),
        dtype=str(facts["dtype"]),
        strides=tuple(facts["strides"]),
        address=int(facts["address"]),
        space="host",
        address_origin="measured",
        offset=int(facts["offset"]),
        base_nbytes=int(facts["base_nbytes"]),
        owner=str(facts["owner"]),
        origin="measured",
    )
