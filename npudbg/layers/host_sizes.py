"""Sizes: the DMA length field, and lengths that have to be a multiple of something."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import has_elements, of_tensor
from npudbg.session.records import Finding
from npudbg.session.text import safe


@rule(1, "H118")
def dma_length(case: Case) -> Iterator[Finding]:
    """A tensor longer than one transfer's length field can say."""
    bits = case.target.dma.length_bits
    if not bits:
        return
    limit = (1 << bits) - 1
    for host in case.inputs:
        nbytes = host.array.nbytes
        if not has_elements(host) or nbytes <= limit:
            continue
        yield finding(
            "H118",
            of_tensor(host),
            f"{safe(host.name)}: {nbytes:#x} bytes do not fit the {bits}-bit DMA length field "
            f"(at most {limit:#x}); the field would hold {nbytes & limit:#x}",
            evidence={
                "nbytes": nbytes,
                "length_bits": bits,
                "max": limit,
                "truncated": nbytes & limit,
            },
            fix=f"cut it into {-(-nbytes // limit)} transfers, or lower the batch",
        )


@rule(1, "H114")
def padded_size(case: Case) -> Iterator[Finding]:
    """A length that the device pads, and whether the buffer has room for that."""
    target = case.target
    step = max(target.tensor.size_alignment or 1, target.dma.length_alignment or 1)
    if step < 2:
        return
    for host in case.inputs:
        nbytes, record = host.array.nbytes, host.record
        if not has_elements(host) or nbytes % step == 0:
            continue
        pad = step - nbytes % step
        ours = record.owner == "npudbg"
        room = 0 if ours else max(0, record.base_nbytes - record.offset - nbytes)
        if not ours and room >= pad:
            continue
        where = (
            "the board's buffer needs that room"
            if ours
            else f"its buffer has {room} bytes left: a padded transfer reads beyond it"
        )
        yield finding(
            "H114",
            of_tensor(host),
            f"{safe(host.name)}: {nbytes} bytes are not a multiple of {step}; {pad} bytes of "
            f"padding, and {where}",
            evidence={
                "nbytes": nbytes,
                "alignment": step,
                "remainder": nbytes % step,
                "padding": pad,
                "room": room,
            },
            fix=f"allocate {nbytes + pad} bytes for it",
            severity="info" if ours else "warning",
        )
