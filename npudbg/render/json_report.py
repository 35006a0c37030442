"""The report of a session as one JSON document, ``npudbg.report/1``.

``report.schema.json`` beside this module is its published schema.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from npudbg.render.golden import golden_record
from npudbg.session.golden import ChannelCloseness, Closeness, GoldenRecord, GoldenRow
from npudbg.session.jsonable import finding_dict, finite, jsonable
from npudbg.session.reader import Session
from npudbg.session.records import (
    Counter,
    ModelRecord,
    Quantization,
    Stats,
    TensorRecord,
    ValueContract,
    Verdict,
)

SCHEMA = "npudbg.report/1"
SCHEMA_FILE = "report.schema.json"


def report(session: Session, *, path: Path | str | None = None) -> dict[str, Any]:
    """Return the report of a session.

    Args:
        session: A recorded run.
        path: Where the session stays for the user; None if it is temporary.

    Returns:
        JSON values only; non-finite numbers are the strings ``nan``, ``inf``, ``-inf``.

    Raises:
        SessionError: The session is damaged.
    """
    meta = session.meta
    return {
        "schema": SCHEMA,
        "tool": {"name": meta.tool, "version": meta.version},
        "backend": meta.backend,
        "status": session.status,
        "model": None if meta.model is None else _model(meta.model),
        "target": meta.target,
        "precision": meta.precision,
        "inputs": [_input(t) for t in session.tensors if t.role == "input"],
        "verdict": None if session.verdict is None else _verdict(session.verdict),
        "findings": [finding_dict(f) for f in session.findings],
        "counters": {c.name: _counter(c) for c in session.counters},
        "nodes": len(session.nodes),
        "commands": session.n_commands,
        "notes": list(meta.notes),
        "session": None if path is None else str(path),
        **_golden(golden_record(session)),
    }


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of :func:`report`."""
    text = resources.files(__package__).joinpath(SCHEMA_FILE).read_bytes()
    decoded: dict[str, Any] = msgspec.json.decode(text)
    return decoded


def _model(model: ModelRecord) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": model.path,
        "sha256": model.sha256,
        "nbytes": model.nbytes,
        "producer": model.producer,
        "ir_version": model.ir_version,
        "opset": dict(model.opset),
        "inputs": [_contract(c) for c in model.inputs],
        "outputs": [_contract(c) for c in model.outputs],
        "operators": dict(model.operators),
    }


def _contract(contract: ValueContract) -> dict[str, Any]:
    return {
        "name": contract.name,
        "dtype": contract.dtype,
        "shape": None if contract.shape is None else list(contract.shape),
        "kind": contract.kind,
        "optional": contract.optional,
    }


def _input(tensor: TensorRecord) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "strides": list(tensor.strides),
        "layout": tensor.layout,
        "address": tensor.address,
        "address_origin": tensor.address_origin,
        "space": tensor.space,
        "offset": tensor.offset,
        "base_nbytes": tensor.base_nbytes,
        "owner": tensor.owner,
        "quantization": _quantization(tensor.quantization),
        "stats": _stats(tensor.stats),
        "origin": tensor.origin,
    }


def _quantization(given: Quantization | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {
        "scale": finite(given.scale),
        "zero_point": list(given.zero_point),
        "axis": given.axis,
    }


def _stats(stats: Stats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return {name: finite(getattr(stats, name)) for name in Stats.__struct_fields__}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "layer": verdict.layer,
        "code": verdict.code,
        "summary": verdict.summary,
        "chain": list(verdict.chain),
        "ruled_out": list(verdict.ruled_out),
        "finding": verdict.finding,
    }


def _golden(record: GoldenRecord | None) -> dict[str, Any]:
    """Return the golden comparison under its key; nothing where there was none."""
    if record is None:
        return {}
    first = record.rows[record.first].name if 0 <= record.first < len(record.rows) else None
    return {
        "golden": {
            "what": record.what,
            "origin": record.origin,
            "optimised": record.optimised,
            "mode": record.mode,
            "compared": record.compared,
            "differing": record.differing,
            "first": first,
            "tensors": [_golden_row(row) for row in record.rows],
            "left_off": record.left_off,
            "unmatched": list(record.unmatched),
            "notes": list(record.notes),
        }
    }


def _golden_row(row: GoldenRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "node": None if row.node < 0 else row.node,
        "role": row.role,
        "dtype": row.dtype,
        "shape": list(row.shape),
        "differs": row.differs,
        "reason": row.reason,
        "told": row.told,
        "entire": _closeness(row.entire),
        "single": _closeness(row.single),
    }


def _closeness(found: Closeness | None) -> dict[str, Any] | None:
    if found is None:
        return None
    plain = [name for name in Closeness.__struct_fields__ if name != "channels"]
    return {
        **{name: finite(getattr(found, name)) for name in plain},
        "channels": [
            {name: finite(getattr(each, name)) for name in ChannelCloseness.__struct_fields__}
            for each in found.channels
        ],
    }


def _counter(counter: Counter) -> dict[str, Any]:
    found: dict[str, Any] = jsonable(counter)
    del found["name"]
    return {"unit": "", "origin": counter.origin, "healthy": "", "dangerous": "", **found}
