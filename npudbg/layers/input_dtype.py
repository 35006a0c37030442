"""Element types: what is fed against what the model takes, and what the target computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.casting import cast_of
from npudbg.layers.entrance import Affine, entrance
from npudbg.layers.expected import pairs
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import (
    has_elements,
    is_float,
    number,
    of_tensor,
    product,
    readable,
    type_text,
)
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.records import Finding, ValueContract
from npudbg.session.scan import scan
from npudbg.session.text import safe

_NAMES = {"float64": "fp64", "complex64": "complex64", "complex128": "complex128"}
_WIDE = ("float64", "int64", "uint64", "complex64", "complex128")
_FEW = 2
_MIN_ELEMENTS = 4


@rule(2, "I220")
def element_type(case: Case) -> Iterator[Finding]:
    """Another type than the model declares, and what a cast would do to these values."""
    for host, contract in pairs(case):
        if contract.dtype and _plain(host.record.dtype) != _plain(contract.dtype):
            yield _differs(case, host, contract)


@rule(2, "I221")
def few_levels(case: Case) -> Iterator[Finding]:
    """A byte tensor that uses one or two of its 256 levels."""
    for host, _ in pairs(case):
        array = host.array
        if host.name in case.synthesised or not readable(host):
            continue
        if array.dtype.kind not in "iu" or array.dtype.itemsize != 1 or array.size < _MIN_ELEMENTS:
            continue
        levels = np.unique(array)
        if len(levels) > _FEW:
            continue
        found = entrance(case.graph, host.name).dequantized
        values = ", ".join(str(int(v)) for v in levels)
        plural = "" if len(levels) == 1 else "s"
        yield finding(
            "I221",
            of_tensor(host),
            f"{safe(host.name)}: {array.dtype.name} tensor has {len(levels)} distinct "
            f"value{plural} ({values}) in {array.size} elements; looks like floats cast without "
            "quantisation",
            evidence={
                "distinct": len(levels),
                "values": [int(v) for v in levels],
                "elements": int(array.size),
            },
            fix=_quantise(array.dtype.name, found),
            certainty="suspected",
            # 0 and 1 are also what a mask holds.
            severity="warning" if len(levels) == 1 else "info",
        )


@rule(2, "I264")
def unit_for_type(case: Case) -> Iterator[Finding]:
    """An input in a wide type that no unit of the target computes."""
    units = case.target.compute.dtypes
    if not units or case.model is None:
        return
    fed = {host.name: host for host in case.inputs}
    for contract in case.model.inputs:
        name = type_text(contract.dtype)
        if name not in _WIDE or _NAMES.get(name, name) in units or name in units:
            continue
        if contract.shape is not None and len(contract.shape) == 0:
            continue  # a scalar parameter stays on the host anyway
        host = fed.get(contract.name)
        if host is None:
            continue
        yield finding(
            "I264",
            of_tensor(host),
            f"{safe(contract.name)}: the model takes {name}, and {safe(case.target.name)} has "
            f"units for {', '.join(units)} only: a conversion or the CPU stands first",
            evidence={"dtype": name, "units": list(units)},
            fix=f"export the model with {'int32' if 'int' in name else 'float32'} inputs",
            origin="declared",
        )


@rule(2, "I245")
def beyond_precision(case: Case) -> Iterator[Finding]:
    """Values that the run's own number format cannot hold."""
    limits = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}
    limit = limits.get(case.precision)
    if limit is None:
        return
    for host, _ in pairs(case):
        if not readable(host) or host.array.dtype.kind != "f" or host.array.dtype.itemsize < 4:
            continue
        stats = host.record.stats or scan(host.array)
        if stats is None or stats.min is None or stats.max is None:
            continue
        if max(abs(stats.min), abs(stats.max)) <= limit:
            continue
        with np.errstate(all="ignore"):
            size = np.abs(host.array)
            beyond = int(np.count_nonzero(np.isfinite(size) & (size > limit)))
        top = float(np.max(size[np.isfinite(size)]))
        becomes = "saturates" if case.target.compute.saturate else "becomes Inf"
        yield finding(
            "I245",
            of_tensor(host),
            f"{safe(host.name)}: {beyond} of {host.array.size} values exceed {number(limit)}, the "
            f"largest of {case.precision} (largest here {number(top)}): each {becomes} before the "
            "first node",
            evidence={
                "beyond": beyond,
                "elements": int(host.array.size),
                "limit": limit,
                "max_abs": top,
                "precision": case.precision,
            },
            fix="normalise the input, or keep it in fp32",
        )


def _differs(case: Case, host: HostTensor, contract: ValueContract) -> Finding:
    given, wanted = type_text(host.record.dtype), type_text(contract.dtype)
    evidence: dict[str, Any] = {"given": given, "expected": wanted}
    text = f"{safe(host.name)}: {given} given, {wanted} expected"
    fix = f"x = x.astype(np.{wanted})"
    try:
        target = numpy_dtype(contract.dtype)
    except TypeError:
        target = None
    if target is not None and has_elements(host):
        count = product(host.record.shape)
        evidence |= {
            "given_bytes": count * host.array.itemsize,
            "expected_bytes": count * target.itemsize,
        }
        text += f" ({evidence['given_bytes']} vs {evidence['expected_bytes']} bytes)"
        if readable(host):
            cast = cast_of(host.array, contract.dtype)
            evidence |= {"cast": cast.effect, **cast.evidence}
            text += f"; {cast.text}"
            if cast.effect == "destroys":
                fix = f"do not cast; look at what {wanted} stands for in this model"
                if target.kind in "iu" and target.itemsize == 1 and is_float(host.array):
                    fix = _quantise(wanted, entrance(case.graph, host.name).dequantized)
    return finding("I220", of_tensor(host), text, evidence=evidence, fix=fix)


def _quantise(name: str, found: Affine | None) -> str:
    scale, zero = (number(found.scale), str(found.zero_point)) if found else ("scale", "zp")
    limits = np.iinfo(name)
    return (
        f"quantise: np.clip(np.round(x / {scale}) + {zero}, {limits.min}, {limits.max})"
        f".astype(np.{name})"
    )


def _plain(dtype: str) -> str:
    return dtype.lstrip("<>|=")
