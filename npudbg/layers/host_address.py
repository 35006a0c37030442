"""Addresses: what the DMA engine, the kernels, the banks and the element type ask of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import address_origin, has_elements, of_tensor
from npudbg.session.records import Finding
from npudbg.session.text import safe


def judged_address(host: HostTensor) -> int | None:
    """Return an address that is worth judging, or None.

    Where npudbg itself put a file's values says nothing about the board; an
    address counts when the user declared it or when it is that of the user's own
    process.
    """
    if not has_elements(host) or host.record.address is None:
        return None
    if host.record.owner == "npudbg" and host.record.address_origin != "declared":
        return None
    return host.record.address


@rule(1, "H110")
def base_alignment(case: Case) -> Iterator[Finding]:
    """The base address against the alignments that the profile demands."""
    dma, tensor = case.target.dma.base_alignment, case.target.tensor.base_alignment
    for host in case.inputs:
        address = judged_address(host)
        if address is None:
            continue
        for step, who in ((dma, "the DMA engine"), (tensor, "a tensor's base")):
            if step and address % step:
                yield _misaligned(case, host, address, step, who, error=step == dma)
                break


@rule(1, "H111")
def element_alignment(case: Case) -> Iterator[Finding]:
    """An address that is not even a multiple of the element's own alignment."""
    for host in case.inputs:
        address, step = judged_address(host), host.array.dtype.alignment
        if address is None or step < 2 or address % step == 0:
            continue
        yield finding(
            "H111",
            of_tensor(host),
            f"{safe(host.name)}: address {address:#x} mod {step} = {address % step}: elements of "
            f"{host.array.dtype.name} straddle their own alignment{_because(host)}",
            evidence=_evidence(case, host, address, step),
            fix="copy it into an array of its own: x = x.copy()",
            origin=address_origin(host),
        )


@rule(1, "H116")
def bank_alignment(case: Case) -> Iterator[Finding]:
    """A base inside a word of a bank: each burst touches one bank more."""
    memory = case.target.memory
    stated = {"memory.sram_banks", "memory.bank_bytes_per_cycle"} <= set(case.target.sources)
    width = memory.bank_bytes_per_cycle
    if not stated or memory.sram_banks < 2 or width < 2:
        return
    burst = case.target.dma.burst_bytes
    for host in case.inputs:
        address = judged_address(host)
        if address is None or address % width == 0:
            continue
        words = (address + burst - 1) // width - address // width + 1
        yield finding(
            "H116",
            of_tensor(host),
            f"{safe(host.name)}: address {address:#x} mod {width} = {address % width}: a burst of "
            f"{burst} bytes touches {words} bank words instead of {-(-burst // width)}",
            evidence={
                "address": address,
                "bank_bytes": width,
                "remainder": address % width,
                "words": words,
                "words_aligned": -(-burst // width),
                "banks": memory.sram_banks,
            },
            fix=f"align the buffer to {width} bytes",
            origin=address_origin(host),
        )


@rule(1, "H117")
def address_mask(case: Case) -> Iterator[Finding]:
    """A declared address that the engine's address field cannot hold."""
    bits = case.target.dma.mask_bits
    if not bits:
        return
    limit = (1 << bits) - 1
    for host in case.inputs:
        address = judged_address(host)
        # A process's own addresses are virtual; only a declared one is the bus's.
        if address is None or host.record.address_origin != "declared":
            continue
        last = address + host.array.nbytes - 1
        if last <= limit:
            continue
        what = f"address {address:#x}" if address > limit else f"its last byte at {last:#x}"
        yield finding(
            "H117",
            of_tensor(host),
            f"{safe(host.name)}: {what} exceeds the {bits}-bit DMA mask (highest {limit:#x})",
            evidence={
                "address": address,
                "last": last,
                "mask_bits": bits,
                "highest": limit,
                "wrapped": address & limit,
            },
            fix=f"allocate below {limit + 1:#x} (the driver's own allocator does), or map it there",
            origin="declared",
        )


def _misaligned(
    case: Case, host: HostTensor, address: int, step: int, who: str, *, error: bool
) -> Finding:
    rest = address % step
    lost = step - rest
    if error:
        text = f"{who} wants {_bytes(step)}"
        after = f"; a transfer from {address - rest:#x} brings {rest:#x} bytes that are not its own"
    else:
        text = f"{who} should be a multiple of {_bytes(step)}"
        after = f"; {lost} bytes lost where the runtime aligns it up, a fault where it does not"
    return finding(
        "H110",
        of_tensor(host),
        f"{safe(host.name)}: base address {address:#x} mod {step} = {_remainder(rest)}; "
        f"{text}{after}{_because(host)}",
        evidence={**_evidence(case, host, address, step), "lost": lost},
        fix=f"allocate it aligned: posix_memalign(&p, {step}, size), or slice an over-sized "
        f"buffer at -address % {step}",
        severity="error" if error else "warning",
        origin=address_origin(host),
    )


def _evidence(case: Case, host: HostTensor, address: int, step: int) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "address": address,
        "alignment": step,
        "remainder": address % step,
        "offset": host.record.offset,
        "base_nbytes": host.record.base_nbytes,
        "owner": safe(host.record.owner, 60),
        "page_remainder": address % case.target.memory.page_bytes,
    }
    if case.target.cache.line_bytes:
        evidence["line_remainder"] = address % case.target.cache.line_bytes
    if host.record.address_origin != "declared":
        # NumPy's flag speaks of the dtype alone; the two are often taken for one.
        evidence["numpy_aligned"] = host.facts["aligned"]
    return evidence


def _because(host: HostTensor) -> str:
    """Name the view's offset where that is what spoils the alignment."""
    record = host.record
    if record.address_origin == "declared" or not record.offset:
        return ""
    return (
        f" (it starts {record.offset} bytes into a buffer of {record.base_nbytes}, "
        f"owner {safe(record.owner, 60)})"
    )


def _remainder(rest: int) -> str:
    return str(rest) if rest < 256 else f"{rest:#x}"


def _bytes(step: int) -> str:
    return f"{step >> 10} KB" if step >= 1024 and step % 1024 == 0 else f"{step} bytes"
