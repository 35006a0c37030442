"""What the target prefers or limits: sizes, rank, dimensions, strides, opset."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.expected import pairs
from npudbg.layers.findings import finding, rule
from npudbg.layers.normalisation import channel_axis
from npudbg.layers.words import has_elements, joined, of_tensor, product, shape_text
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_RGB = 4


@rule(2, "I255")
def preferred_multiples(case: Case) -> Iterator[Finding]:
    """Image sizes that the array pads."""
    tensor = case.target.tensor
    if not tensor.size_multiple and not tensor.channel_multiple:
        return
    for host, _ in pairs(case):
        said = case.preprocessing.get(host.name)
        channel = channel_axis(host, None if said is None else said.layout)
        if channel is None or host.array.ndim != 4 or not has_elements(host):
            continue
        spatial = [a for a in (1, 2, 3) if a != channel]
        if tensor.size_multiple:
            yield from _padded(case, host, spatial, tensor.size_multiple)
        # Three colours on an array of 16 are every chip's first layer.
        if tensor.channel_multiple and host.array.shape[channel] > _RGB:
            yield from _padded(case, host, [channel], tensor.channel_multiple)


@rule(2, "I256")
def batch_of_one(case: Case) -> Iterator[Finding]:
    """The stride of an axis of one element, on a target whose fast path looks at it."""
    if not case.target.tensor.batch1_stride:
        return
    for host, _ in pairs(case):
        shape, strides = host.array.shape, host.array.strides
        if len(shape) != 4 or shape[0] != 1 or not has_elements(host):
            continue
        wanted = product(shape[1:]) * host.array.itemsize
        # Any other view than this innocent-looking one is layer 1's.
        if strides[0] == wanted or not host.facts["c_contiguous"]:
            continue
        yield finding(
            "I256",
            of_tensor(host),
            f"{safe(host.name)}: stride 0 is {strides[0]} and the fast path for a batch of 1 "
            f"demands {wanted} (C*H*W*{host.array.itemsize})",
            evidence={"stride": strides[0], "expected": wanted, "shape": list(shape)},
            fix="x = x.reshape(x.shape).copy()",
        )


@rule(2, "I257", "I258")
def limits(case: Case) -> Iterator[Finding]:
    """Rank and axis sizes of inputs and weights beyond the target's registers."""
    tensor = case.target.tensor
    if tensor.max_rank is None and tensor.max_dim is None:
        return
    seen: list[tuple[Subject, str, tuple[int, ...]]] = [
        (of_tensor(h), h.name, h.record.shape) for h, _ in pairs(case)
    ]
    if case.graph is not None:
        for weight in case.graph.initializers.values():
            reader = next(iter(case.graph.consumers(weight.name)), None)
            if reader is not None:
                subject = Subject(kind="node", name=safe(reader.label), node=reader.index)
                seen.append((subject, weight.name, weight.shape))
    for subject, name, shape in seen:
        found = limit_of(case, subject, name, shape)
        if found is not None:
            yield found


def limit_of(
    case: Case, subject: Subject, name: str, shape: tuple[int, ...], *, fallback: bool = False
) -> Finding | None:
    """Return a finding if a shape exceeds the target's limits.

    Args:
        case: Holds the target.
        subject: What the finding points at.
        name: The tensor.
        shape: Its shape.
        fallback: Whether the operator may run on the host instead (a warning then).
    """
    tensor = case.target.tensor
    severity = "warning" if fallback else None
    if tensor.max_rank is not None and len(shape) > tensor.max_rank:
        return finding(
            "I257",
            subject,
            f"{safe(name)}: rank {len(shape)} {shape_text(shape)}; {safe(case.target.name)} takes "
            f"at most {tensor.max_rank}",
            evidence={"rank": len(shape), "max_rank": tensor.max_rank, "shape": list(shape)},
            fix="join axes with a Reshape before it",
            severity=severity,  # type: ignore[arg-type]
            origin="declared",
        )
    wide = [a for a, n in enumerate(shape) if tensor.max_dim is not None and n > tensor.max_dim]
    if wide:
        return finding(
            "I258",
            subject,
            f"{safe(name)}: axis {joined(wide)} has {shape[wide[0]]} elements; the registers of "
            f"{safe(case.target.name)} hold at most {tensor.max_dim}",
            evidence={"axes": wide, "size": shape[wide[0]], "max_dim": tensor.max_dim,
                      "shape": list(shape)},
            fix=f"split the axis into parts of at most {tensor.max_dim}",
            severity=severity,  # type: ignore[arg-type]
            origin="declared",
        )  # fmt: skip
    return None


@rule(2, "I263")
def opset(case: Case) -> Iterator[Finding]:
    """The model's opset against the range that the target's compiler reads."""
    if case.model is None:
        return
    operators, version = case.target.operators, case.model.opset.get("")
    if version is None:
        return
    low, high = operators.opset_min, operators.opset_max
    if (low is None or version >= low) and (high is None or version <= high):
        return
    wants = f"{low or 1} to {high}" if high is not None else f"{low} or newer"
    yield finding(
        "I263",
        Subject(kind="model", name=safe(case.model.name)),
        f"opset {version}; the compiler of {safe(case.target.name)} reads {wants}",
        evidence={"opset": version, "opset_min": low, "opset_max": high},
        fix=f"export with opset_version={high if high and version > high else low}, or use "
        "onnx.version_converter",
        origin="declared",
    )


def _padded(case: Case, host: HostTensor, axes: list[int], step: int) -> Iterator[Finding]:
    shape = host.array.shape
    wrong = [a for a in axes if shape[a] % step]
    if not wrong:
        return
    padded = [-(-n // step) * step if a in wrong else n for a, n in enumerate(shape)]
    waste = product(padded) / product(shape) - 1
    sizes = ", ".join(f"axis {a}: {shape[a]} pads to {padded[a]}" for a in wrong)
    yield finding(
        "I255",
        of_tensor(host),
        f"{safe(host.name)}: {sizes} (multiples of {step}); {waste:.0%} more elements than given",
        evidence={"shape": list(shape), "padded": padded, "multiple": step, "waste": waste},
        fix=f"choose sizes that are multiples of {step} where the model lets you",
        # A few rows of padding are seldom worth a change of the model.
        severity="warning" if waste >= 0.05 else "info",
    )
