"""Element order: F order, permuted, reversed, broadcast, overlapping and stepped views.

A driver copies bytes from the address of element 0; it knows no strides.  What
counts is therefore not how a view was made but whether its elements lie packed
in C order: a view that does is as good as any other array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudbg.agent.describe import wrong_values
from npudbg.agent.layout import c_strides
from npudbg.layers.case import Case, HostTensor
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import has_elements, joined, of_tensor, shape_text
from npudbg.session.records import Finding
from npudbg.session.text import safe

_COMPARED_BYTES = 64 << 20

_VIEW_NAMES = {
    (0, 3, 1, 2): "an NHWC buffer seen as NCHW (channels last)",
    (0, 2, 3, 1): "an NCHW buffer seen as NHWC (channels first)",
    (2, 0, 1): "an HWC buffer seen as CHW (channels last)",
    (1, 2, 0): "a CHW buffer seen as HWC (channels first)",
    (0, 4, 1, 2, 3): "an NDHWC buffer seen as NCDHW (channels last)",
    (0, 2, 3, 4, 1): "an NCDHW buffer seen as NDHWC (channels first)",
}


@rule(1, "H101", "H102", "H103", "H104", "H105", "H106")
def element_order(case: Case) -> Iterator[Finding]:
    """One finding for a tensor whose elements do not lie packed in C order."""
    for host in case.inputs:
        if has_elements(host) and not host.facts["c_contiguous"]:
            code, what, fix = _what(host)
            yield finding(
                code,
                of_tensor(host),
                f"{safe(host.name)}: {what}; {_loss(host)}",
                evidence=_evidence(host),
                fix=fix,
            )


@rule(1, "H107")
def outside_buffer(case: Case) -> Iterator[Finding]:
    """A view whose strides lead out of the buffer it was made from."""
    for host in case.inputs:
        outside = host.facts.get("outside", 0)
        if not outside or not has_elements(host):
            continue
        yield finding(
            "H107",
            of_tensor(host),
            f"{safe(host.name)}: {outside} bytes that the view touches lie outside its buffer of "
            f"{host.facts['base_nbytes']} bytes (owner {safe(host.facts['owner'], 60)})",
            evidence={
                "outside": outside,
                "base_address": host.facts["base_address"],
                "base_nbytes": host.facts["base_nbytes"],
                "low": host.facts["low"],
                "high": host.facts["high"],
                "strides": list(host.array.strides),
            },
            fix="correct the shape or the strides given to as_strided",
        )


def _what(host: HostTensor) -> tuple[str, str, str]:
    """Return code, description and fix of a view that is not C-contiguous."""
    shape, strides, facts = host.array.shape, host.array.strides, host.facts
    name = "x" if not host.name.isidentifier() else safe(host.name)
    copy = f"{name} = np.ascontiguousarray({name})"
    packed = c_strides(shape, host.array.itemsize)
    compared = f"strides {_listed(strides)}; C-order needs {_listed(packed)}"
    used = [axis for axis, n in enumerate(shape) if n > 1]
    reversed_axes = [a for a in used if strides[a] < 0]
    repeated = [a for a in used if strides[a] == 0]
    if reversed_axes:
        return (
            "H104",
            f"axis {joined(reversed_axes)} runs backwards in memory ({compared})",
            f"{copy}  # a flip or [::-1] only turns the stride round",
        )
    if repeated:
        return (
            "H105",
            f"axis {joined(repeated)} repeats one element by a stride of 0 ({compared})",
            f"{copy}  # a broadcast holds each value once",
        )
    if facts["overlap"]:
        return "H106", f"elements overlap in memory ({compared})", f"{name} = {name}.copy()"
    if facts["permutation"] is None:
        return "H103", f"{_gaps(host, packed)} ({compared})", copy
    if facts["f_contiguous"]:
        return "H101", f"shape {shape_text(shape)} is F-order ({compared})", copy
    made = tuple(facts["transposed_by"])
    named = f", {_VIEW_NAMES[made]}" if made in _VIEW_NAMES else ""
    text = (
        f"shape {shape_text(shape)} is a transposed view (perm {_listed(made)} of a C buffer"
        f"{named}; {compared})"
    )
    return "H102", text, copy


def _gaps(host: HostTensor, packed: tuple[int, ...]) -> str:
    """Say where elements or rows stand apart."""
    shape, strides, size = host.array.shape, host.array.strides, host.array.itemsize
    used = [a for a, n in enumerate(shape) if n > 1]
    if sorted(used, key=lambda a: -strides[a]) != used:
        order = sorted(used, key=lambda a: -strides[a])
        return f"axes lie in the order {joined(order)} with gaps between: a slice of a transpose"
    last = used[-1]
    if strides[last] != size:
        step, rest = divmod(strides[last], size)
        how = f"every {_ordinal(step)} element" if not rest else f"{strides[last]} bytes apart"
        return f"a stepped view: on axis {last} {how} is taken"
    # Packed inside, apart outside: a crop, or rows with a pitch.
    axis = next(a for a in reversed(used) if strides[a] != packed[a])
    return f"a cropped view: steps of axis {axis} lie {strides[axis]} bytes apart and hold " + str(
        packed[axis]
    )


def _loss(host: HostTensor) -> str:
    total, wrong = host.facts["size"], host.facts["wrong"]
    if wrong is None:
        return "a raw copy would read elements from the wrong place"
    return f"a raw copy would read {wrong} of {total} elements from the wrong place"


def _evidence(host: HostTensor) -> dict[str, Any]:
    array, facts = host.array, host.facts
    evidence: dict[str, Any] = {
        "shape": list(array.shape),
        "strides": list(array.strides),
        "c_strides": list(c_strides(array.shape, array.itemsize)),
        "itemsize": array.itemsize,
        "elements": facts["size"],
        "wrong": facts["wrong"],
        "transposed_by": facts["transposed_by"],
        "offset": facts["offset"],
        "base_nbytes": facts["base_nbytes"],
        "owner": safe(facts["owner"], 60),
        "address": host.record.address,
    }
    if not facts["outside"] and array.nbytes <= _COMPARED_BYTES:
        evidence["wrong_by_value"] = wrong_values(array)[0]
    return evidence


def _listed(values: Any) -> str:
    return ",".join(str(v) for v in values)


def _ordinal(n: int) -> str:
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"
