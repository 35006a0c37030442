"""Values as they stand in the host's memory: byte order, NaN and Inf, constants, garbage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import has_elements, is_float, number, of_tensor, readable, sample
from npudbg.session.records import Finding, Stats
from npudbg.session.scan import scan
from npudbg.session.text import safe

_MANY = 16
"""Fewer elements than this are often a scalar, a length or a state of one."""

_ORDINARY = 0.01
"""Share of subnormals that any tensor around 0 may hold, in fp16 above all."""

_SELDOM, _ALWAYS = 0.4, 0.95


@rule(1, "H121")
def byte_order(case: Case) -> Iterator[Finding]:
    """Big-endian elements: every target known is little-endian."""
    for host in case.inputs:
        array = host.array
        if not has_elements(host) or not host.record.dtype.startswith(">"):
            continue
        evidence: dict[str, Any] = {"dtype": host.record.dtype, "elements": int(array.size)}
        example = ""
        if readable(host):
            first = _first_nonzero(array)
            value, read = array.reshape(-1)[first], array.reshape(-1)[first : first + 1]
            raw = np.ascontiguousarray(read).view(array.dtype.newbyteorder("<"))[0]
            evidence |= {"index": first, "value": str(value), "read_as": str(raw)}
            example = f"; {value} would be read as {raw:.3g}" if is_float(array) else ""
        native = f"x.astype('{array.dtype.newbyteorder('<').str}')"
        yield finding(
            "H121",
            of_tensor(host),
            f"{safe(host.name)}: byte order '>' ({host.record.dtype}) on a little-endian target"
            f"{example}",
            evidence=evidence,
            fix=f"x = {native}  # or x.astype(x.dtype.newbyteorder('='))",
        )


@rule(1, "H130", "H131", "H132", "H134")
def suspicious_values(case: Case) -> Iterator[Finding]:
    """Bytes turned round, or else NaN and Inf, subnormals, and tensors of one value."""
    for host in case.inputs:
        if not readable(host):
            continue
        turned = _turned_bytes(host)
        if turned is not None:
            yield turned
            continue
        stats = host.record.stats or scan(host.array)
        if stats is None or not stats.count:
            continue
        if stats.nonfinite:
            yield _non_finite(host, stats)
        if stats.subnormal > max(2, _ORDINARY * stats.count):
            yield _subnormal(case, host, stats)
        if host.name not in case.synthesised and _constant(host, stats):
            yield _one_value(host, stats)


def _turned_bytes(host: HostTensor) -> Finding | None:
    """Find floats that only make sense with their bytes turned round."""
    array = host.array
    if array.dtype.kind != "f" or array.size < _MANY or host.record.dtype.startswith(">"):
        return None
    values = np.ascontiguousarray(sample(array))
    sane, turned = _sane(values), _sane(values.byteswap())
    # Turned bytes make the exponent of a float32 random: about one in six looks ordinary.
    if sane > _SELDOM or turned < _ALWAYS:
        return None
    return finding(
        "H134",
        of_tensor(host),
        f"{safe(host.name)}: {sane:.0%} of the values have an ordinary size, and {turned:.0%} "
        "have it when their bytes are turned round: written by a big-endian program",
        evidence={
            "ordinary": sane,
            "ordinary_swapped": turned,
            "sampled": int(values.size),
            "first": str(values[0]),
            "first_swapped": str(values.byteswap()[0]),
        },
        fix="x = x.byteswap(), or read the file as '>' and convert",
        certainty="suspected",
    )


def _non_finite(host: HostTensor, stats: Stats) -> Finding:
    wide = host.array if host.array.dtype.kind in "fc" else host.array.astype(np.float32)
    bad = ~np.isfinite(wide)
    first = [int(i) for i in np.unravel_index(int(bad.argmax()), host.array.shape)]
    inf = stats.pos_inf + stats.neg_inf
    counts = " and ".join(f"{n} {what}" for n, what in ((stats.nan, "NaN"), (inf, "Inf")) if n)
    return finding(
        "H130",
        of_tensor(host),
        f"{safe(host.name)}: {counts} of {stats.count} elements, first at {first}",
        evidence={
            "nan": stats.nan,
            "pos_inf": stats.pos_inf,
            "neg_inf": stats.neg_inf,
            "elements": stats.count,
            "first": first,
        },
        fix="look at what fills the buffer (a division by a zero deviation, an unread frame)",
        # An additive mask of -Inf is meant; NaN never is.
        severity="error" if stats.nan else "warning",
    )


def _subnormal(case: Case, host: HostTensor, stats: Stats) -> Finding:
    flushed = case.target.compute.flush_subnormals
    effect = "the target reads them as 0" if flushed else "some CPUs take long over them"
    return finding(
        "H131",
        of_tensor(host),
        f"{safe(host.name)}: {stats.subnormal} of {stats.count} elements are subnormal; {effect}",
        evidence={
            "subnormal": stats.subnormal,
            "elements": stats.count,
            "smallest_normal": _tiny(host.array),
            "flushed": flushed,
        },
        fix="scale the input, or set them to 0",
        severity="warning" if flushed else "info",
    )


def _constant(host: HostTensor, stats: Stats) -> bool:
    if stats.count < _MANY or stats.nonfinite or stats.min != stats.max:
        return False
    # Layer 2 judges bytes by their levels; masks and lengths are of one value by nature.
    return is_float(host.array)


def _one_value(host: HostTensor, stats: Stats) -> Finding:
    assert stats.min is not None
    image = host.array.ndim == 4 and min(host.array.shape[2:]) >= 8
    return finding(
        "H132",
        of_tensor(host),
        f"{safe(host.name)}: all {stats.count} elements are {number(stats.min)}",
        evidence={"value": stats.min, "elements": stats.count},
        fix="check that the frame was read before it was handed over",
        certainty="suspected",
        # A state or a mask may well start as zeros; an image may not.
        severity="warning" if image else "info",
    )


def _first_nonzero(array: npt.NDArray[Any]) -> int:
    flat = array.reshape(-1)[:4096] != 0
    return int(flat.argmax())


def _sane(values: npt.NDArray[Any]) -> float:
    """Return the share of values that are 0 or of an ordinary magnitude."""
    low, high = (1e-4, 6e4) if values.dtype.itemsize == 2 else (1e-6, 1e6)
    with np.errstate(all="ignore"):
        size = np.abs(values)
        good = (size == 0) | ((size >= low) & (size <= high))
    nonzero = values != 0
    count = int(np.count_nonzero(nonzero))
    return float(np.count_nonzero(good & nonzero)) / count if count else 1.0


def _tiny(array: npt.NDArray[Any]) -> float:
    if array.dtype.kind == "f":
        return float(np.finfo(array.dtype).tiny)
    if array.dtype.kind == "c":
        return float(np.finfo(array.real.dtype).tiny)
    import ml_dtypes

    limits: Any = ml_dtypes
    return float(limits.finfo(array.dtype).tiny)
