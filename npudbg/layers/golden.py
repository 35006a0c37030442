"""The first tensor that differs from its golden values, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.golden import GoldenRecord, GoldenRow
from npudbg.session.records import Certainty, Finding, Severity, Subject
from npudbg.session.text import safe

_TOLD_FROM_VALUES = (
    "range",
    "saturation",
    "collapse",
    "dead-channels",
    "layout",
    "shape",
    "accumulator",
)
_FIX = {
    "range": "keep the node in fp32 or bf16, or scale its operands down",
    "saturation": "calibrate with inputs of this range, or keep the node in a wider type",
    "collapse": "give the parts as separate tensors, or quantise them per channel",
    "dead-channels": "look at these channels' weights and at what they are read from",
    "layout": "transpose one side, or say the layout when the buffer is read",
    "accumulator": "sum in fp32, or keep the node in fp32",
    "shape": "compare with dumps of the same input sizes",
    "scale": "look for a scale that was applied twice or not at all",
    "offset": "look for a bias or a zero point that was applied twice or not at all",
}
_FIX_LAYOUT = {
    "batch-late": "wait for the run to end before its output is read; read the buffer it filled",
    "byte-swapped": "read the file in the byte order that it was written in",
    "reversed": "reverse the channels of one side (BGR and RGB), or read the rows from their end",
    "channel-order": "reorder the channels of one side",
    "padded": "read the buffer with the pitch stated, and leave out the padding",
    "packed-channels": "unpack the blocks of channels as stated before the buffer is read",
    "shifted": "start to read at the offset stated: look for a header, or a wrong base address",
}
_RAISE = "run `npudbg advise` for the nodes to keep in fp32"


@rule(4, "O419")
def first_divergence(case: Case) -> Iterator[Finding]:
    """The first tensor in execution order that is beyond tolerance."""
    compared, session = case.compared, case.session
    if compared is None or session is None or not 0 <= compared.first < len(compared.rows):
        return
    row = compared.rows[compared.first]
    node = session.nodes[row.node] if 0 <= row.node < len(session.nodes) else None
    where = f" of {safe(node.op_type, 24)} {safe(node.label, 80)}" if node is not None else ""
    what = f"{safe(row.name)}{where}: first to differ from {compared.what}"
    yield finding(
        "O419",
        Subject(
            kind="tensor",
            name=safe(row.name),
            tensor=row.tensor,
            node=row.node if row.node >= 0 else None,
            seq=session.tensors[row.tensor].first_seq if node is not None else None,
        ),
        f"{what}; {row.told}" if row.told else what,
        evidence=_evidence(row, compared),
        fix=_fix(row),
        severity=_severity(row, compared),
        certainty=_certainty(row),
        origin="simulated" if session.meta.backend == "simulated" else "measured",
    )


def _fix(row: GoldenRow) -> str:
    if row.reason == "range" and "limit" not in row.evidence:
        return "look for NaN or Inf in the node's weights, and for a sum or division inside it"
    if row.reason == "layout" and row.evidence.get("kind") in _FIX_LAYOUT:
        return _FIX_LAYOUT[row.evidence["kind"]]
    return _FIX.get(row.reason, _RAISE)


def _severity(row: GoldenRow, compared: GoldenRecord) -> Severity:
    """Return ``error`` if a value is lost or an output is wrong, else ``warning``."""
    outputs = any(r.differs and r.role == "output" for r in compared.rows)
    return "error" if outputs or row.reason in _TOLD_FROM_VALUES else "warning"


def _certainty(row: GoldenRow) -> Certainty:
    told = row.reason in _TOLD_FROM_VALUES or (row.reason == "precision" and row.single is not None)
    return "proven" if told else "suspected"


def _evidence(row: GoldenRow, compared: GoldenRecord) -> dict[str, Any]:
    found: dict[str, Any] = {"reason": row.reason or "not told"}
    for mode, each in (("entire", row.entire), ("single", row.single)):
        if each is None:
            continue
        found[mode] = {
            "max_abs": each.max_abs,
            "max_rel": each.max_rel,
            "cosine": each.cosine,
            "snr_db": each.snr,
            "mismatches": each.mismatches,
            "elements": each.count,
            "nonfinite": each.nonfinite,
            "euclidean": each.euclidean,
        }
        if each.channel >= 0:
            found[mode]["worst_channel"] = {
                "channel": each.channel,
                "axis": each.channel_axis,
                "snr_db": each.channel_snr,
                "max_abs": each.channel_max_abs,
            }
        if each.argmax_equal is not None:
            found[mode]["argmax_equal"] = each.argmax_equal
    limits = row.entire or row.single
    if limits is not None:
        found |= {"atol": limits.atol, "rtol": limits.rtol}
    found |= {"compared": compared.compared, "differing": compared.differing}
    return {**found, **row.evidence}
