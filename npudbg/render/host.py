"""Layer 1: how each input lies in the host's memory, against what the target demands."""

from __future__ import annotations

from npudbg.render import numbers
from npudbg.render.fit import fit, wrapped
from npudbg.render.marks import SEVERITY, worst
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.lines import Line, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe
from npudbg.targets.profile import Target


def inputs_of(session: Session) -> list[TensorRecord]:
    """Return the tensors that the user handed over (not the device's copies of them)."""
    inputs = [t for t in session.tensors if t.role == "input"]
    return [t for t in inputs if t.space == "host"] or inputs


def about(session: Session, tensor: TensorRecord, layer: int) -> list[Finding]:
    """Return the findings of a layer that point at a tensor."""
    return [
        f
        for f in session.findings
        if f.layer == layer
        and f.subject.kind in ("tensor", "address")
        and (f.subject.tensor == tensor.id or f.subject.name in (tensor.name, safe(tensor.name)))
    ]


def host_lines(session: Session, target: Target | None, width: int) -> list[Line]:
    """Return layer 1 in lines: a block an input, its findings below it, then the rest."""
    tensors = inputs_of(session)
    lines: list[Line] = []
    seen: list[Finding] = []
    for tensor in tensors:
        found = about(session, tensor, 1)
        seen += found
        lines += tensor_block(tensor, found, target, width)
    lines += finding_notes([f for f in session.findings if f.layer == 1 and f not in seen], width)
    if not tensors:
        lines.append(line(("no input tensor was recorded", "dim")))
    return lines


def tensor_block(
    tensor: TensorRecord, found: list[Finding], target: Target | None, width: int
) -> list[Line]:
    """Return one input: name, address and alignment, strides, buffer, findings."""
    mark, style = worst(found)
    subject = Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id)
    rows = [
        line(
            (f"{mark} ", style),
            (safe(tensor.name, 400), "title"),
            f"  {numbers.shape(tensor.shape)} {safe(tensor.dtype, 16)}",
        ),
        _address(tensor, target),
        _strides(tensor),
        line(
            "  buffer   ",
            (f"{numbers.nbytes(tensor.base_nbytes)}, offset {tensor.offset}", "number"),
            f", owner {safe(tensor.owner, 40)}",
        ),
    ]
    lines = [fit(line(*row.spans, subject=subject), width) for row in rows]
    return lines + finding_notes(found, width)


def finding_notes(found: list[Finding], width: int) -> list[Line]:
    """Return findings as wrapped notes, each opening its subject."""
    lines = []
    for each in found:
        mark, style = SEVERITY[each.severity]
        lead = f"  {mark} {safe(each.code, 8)} "
        for row in wrapped(safe(each.message, 1000), width, lead=lead):
            head, *rest = row.spans
            lines.append(line((head.text, style), *rest, subject=each.subject))
    return lines


def alignment(address: int) -> int:
    """Return the largest power of two that divides an address (at most 2 MiB)."""
    return (address & -address) if address else 1 << 21


def packed_strides(tensor: TensorRecord) -> tuple[int, ...] | None:
    """Return the strides of the tensor in C order, in bytes (None for no plain dtype)."""
    try:
        step = numpy_dtype(tensor.dtype).itemsize
    except (TypeError, ValueError):
        return None
    strides = []
    for size in reversed(tensor.shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _address(tensor: TensorRecord, target: Target | None) -> Line:
    if tensor.address is None:
        return line("  address  ", ("not known", "dim"))
    wants = _demands(target)
    parts: list[tuple[str, Style]] = []
    for name, demand in wants:
        rest = tensor.address % demand
        parts.append(
            (f"  {name} {numbers.nbytes(demand)} ✓", "ok")
            if not rest
            else (f"  {name} {numbers.nbytes(demand)} ! off by {rest:#x}", "error")
        )
    if not wants:
        aligned = numbers.nbytes(min(alignment(tensor.address), 1 << 21))
        parts.append((f"  aligned to {aligned}, no demand known", "dim"))
    return line(
        "  address  ",
        (numbers.address(tensor.address), "address"),
        (f" {tensor.address_origin}", "dim"),
        *parts,
    )


def _demands(target: Target | None) -> list[tuple[str, int]]:
    if target is None:
        return []
    found = [
        ("DMA", target.dma.base_alignment),
        ("tensor", target.tensor.base_alignment),
        ("line", target.cache.line_bytes),
    ]
    return [(name, value) for name, value in found if value]


def _strides(tensor: TensorRecord) -> Line:
    text = ",".join(str(s) for s in tensor.strides) or "none"
    packed = packed_strides(tensor)
    empty = 0 in tensor.shape
    if packed is None or not tensor.strides or empty:
        return line("  strides  ", (text, "number"), ("  carry no meaning here", "dim"))
    # The stride of an axis of one element is never used.
    same = all(
        a == b or n == 1 for a, b, n in zip(tensor.strides, packed, tensor.shape, strict=False)
    )
    if same:
        return line("  strides  ", (text, "number"), ("  = C order ✓", "ok"))
    return line(
        "  strides  ",
        (text, "number"),
        (f"  ! C order is {','.join(str(s) for s in packed)}", "error"),
    )
