"""Weights in device memory held against the model's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session import rerun
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe


@rule(3, "T347")
def weights(case: Case) -> Iterator[Finding]:
    """Find constants whose device copy is not what the model says."""
    session, graph = case.session, case.graph
    if session is None or graph is None or session.meta.backend != "simulated":
        return
    from npudbg.device.numerics import Numerics
    from npudbg.layers.constants import Constants

    compute = case.target.compute
    numerics = Numerics.of(compute, case.precision)
    constants = Constants(graph, session)
    way = rerun.read(session)
    replaced = way.replaced if way is not None else {}
    for tensor in session.tensors:
        if not _held(session, tensor, replaced):
            continue
        model = constants.meant(tensor)
        device = session.array(tensor) if model is not None else None
        if device is None or model is None or model.dtype.kind in "OSUT":
            continue
        if model.dtype == device.dtype and model.dtype.itemsize > 2:
            meant = model  # kept as it is: a bias in an int8 run, statistics, a raised node's
        else:
            meant = numerics.store(model, tensor.quantization).array
        if meant.dtype != device.dtype or meant.shape != device.shape:
            continue
        if meant.tobytes() != device.tobytes():
            yield _differs(tensor, meant, device)


def _held(session: Session, tensor: TensorRecord, replaced: Collection[str]) -> bool:
    """Whether a tensor is a constant of the model that device memory holds."""
    if tensor.blob is None or tensor.role not in ("weight", "constant"):
        return False
    if tensor.role == "weight":
        return True
    node = session.nodes[tensor.producer] if tensor.producer >= 0 else None
    constant = node is not None and node.op_type == "Constant"
    return tensor.name not in replaced and (constant or tensor.address is not None)


def _differs(tensor: TensorRecord, meant: npt.NDArray[Any], device: npt.NDArray[Any]) -> Finding:
    width = device.dtype.itemsize
    old = np.frombuffer(meant.tobytes(), np.uint8).reshape(-1, width)
    new = np.frombuffer(device.tobytes(), np.uint8).reshape(-1, width)
    wrong = np.flatnonzero((old != new).any(axis=1))
    index = int(wrong[0])
    bits = int(np.unpackbits(old[wrong] ^ new[wrong]).sum())
    before, after = meant.reshape(-1)[index], device.reshape(-1)[index]
    where = [int(i) for i in np.unravel_index(index, device.shape)] if device.ndim else []
    how = _how(meant, device, wrong, bits)
    name = safe(tensor.name)
    return finding(
        "T347",
        Subject(kind="tensor", name=name, tensor=tensor.id),
        f"weight {name} in device memory differs from the model in {len(wrong)} of {device.size} "
        f"elements, first at {where}: {float(after):.6g} where {float(before):.6g} was meant "
        f"({how})",
        evidence={
            "wrong": len(wrong),
            "elements": int(device.size),
            "first": where,
            "bits": bits,
            "meant": float(before),
            "device": str(float(after)),
            "how": how,
        },
        fix="load the model again; if it comes back, test the memory",
        origin="simulated",
    )


def _how(
    meant: npt.NDArray[Any], device: npt.NDArray[Any], wrong: npt.NDArray[np.intp], bits: int
) -> str:
    if bits == 1:
        return "one bit"
    if device.dtype.kind == "f" and len(wrong) == 1 and np.isnan(device.reshape(-1)[wrong[0]]):
        return "NaN"
    old = meant.reshape(-1)[wrong].astype(np.float64)
    new = device.reshape(-1)[wrong].astype(np.float64)
    if old.all():
        ratio = new / old
        if np.allclose(ratio, ratio[0], rtol=1e-2):
            return f"scaled by {ratio[0]:.4g}"
    return f"{bits} bits"
