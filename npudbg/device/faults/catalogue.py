"""The faults that can be injected: what each does, and what it needs to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault.

    Attributes:
        name: What ``--fault`` takes.
        needs: Keys that must be given.
        takes: Further keys that may be given.
        effect: What the device does.
        seen: Where it comes from on a board.
    """

    name: str
    needs: tuple[str, ...]
    takes: tuple[str, ...]
    effect: str
    seen: str


_PLACE = ("tensor", "tile", "way", "seq")

KINDS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        FaultKind(
            "dropped-dma", (), _PLACE,
            "the transfer completes and moves nothing; SRAM or DDR keeps its old bytes",
            "a descriptor that was overwritten, or a ring that wrapped",
        ),
        FaultKind(
            "short-dma", (), (*_PLACE, "bytes"),
            "only the first bytes of the transfer move",
            "a byte count taken as a word count, or a burst that was aborted",
        ),
        FaultKind(
            "length-overflow", (), (*_PLACE, "bits"),
            "the length field keeps its low bits only",
            "a transfer longer than the descriptor's field",
        ),
        FaultKind(
            "late-dma", (), _PLACE,
            "the kernel starts before its operand has arrived and reads the old bytes",
            "a missing dependency between a queue and an engine",
        ),
        FaultKind(
            "duplicated-dma", (), _PLACE,
            "the transfer is done once more, later, over what then lies there",
            "a descriptor ring that was replayed after a timeout",
        ),
        FaultKind(
            "misaligned-dma", (), (*_PLACE, "bytes"),
            "the source begins some bytes below the address that was meant",
            "low address bits that the engine does not have",
        ),
        FaultKind(
            "bit-flip", ("addr", "after"), ("space", "bit"),
            "one bit of memory changes after a command",
            "marginal SRAM voltage, a row that was not refreshed",
        ),
        FaultKind(
            "weight-bit-flip", ("tensor",), ("index", "bit"),
            "one bit of a weight in device memory is wrong",
            "a damaged model file, or memory that failed",
        ),
        FaultKind(
            "nan-weight", ("tensor",), ("index",),
            "one element of a weight in device memory is NaN",
            "a conversion that overflowed, a write that went astray",
        ),
        FaultKind(
            "corrupted-scale", ("tensor",), ("factor", "index"),
            "a scale in device memory is multiplied by a factor",
            "quantisation parameters of another model version",
        ),
        FaultKind(
            "missing-flush", ("tensor",), (),
            "the device reads what the buffer held one frame before",
            "a non-coherent driver whose sync_for_device was left out",
        ),
        FaultKind(
            "missing-invalidate", ("tensor",), (),
            "the host reads from its cache what the output held before",
            "a non-coherent driver whose sync_for_cpu was left out",
        ),
        FaultKind(
            "late-writeback", ("tensor",), ("line",),
            "a dirty cache line over an output is written back after the DMA",
            "memset of an output buffer without sync_for_device",
        ),
        FaultKind(
            "torn-line", ("tensor",), (),
            "a neighbour in the same cache line is written back over what a camera's DMA had put "
            "into an input: its bytes in that line are those of the frame before",
            "two buffers on the heap whose boundary falls inside a cache line",
        ),
        FaultKind(
            "hang", (), ("node", "tile", "seq"),
            "a kernel starts and never ends",
            "wrong descriptors or weights, an address that does not answer",
        ),
        FaultKind(
            "no-recovery", (), ("node", "tile", "seq", "retries"),
            "a kernel never ends; the driver resets the device and submits the job again, and no "
            "command is taken any more",
            "a driver that does not handle the firmware's error, a reset line that is not wired",
        ),
        FaultKind(
            "lost-interrupt", (), (),
            "all commands end and the host is never told",
            "an interrupt that was masked or acknowledged too early",
        ),
        FaultKind(
            "deadlock", (), ("node", "tile"),
            "two DMA channels wait for each other's buffer",
            "a schedule that fills both buffers before it drains one",
        ),
        FaultKind(
            "missing-device", (), ("retries",),
            "nothing takes the first command; the driver waits, resets and tries again",
            "a virtual machine, a container without the device node, a driver that did not probe",
        ),
        FaultKind(
            "iommu-fault", (), (*_PLACE, "how"),
            "the transfer is refused: its buffer is not mapped (how=unmapped), was unmapped after "
            "this transfer (how=early) or is mapped for reading (how=read-only)",
            "dma_unmap before the job's fence, a buffer of another context, a wrong direction",
        ),
        FaultKind(
            "truncated-address", (), (*_PLACE, "bits"),
            "the descriptor keeps the low bits of the address (default: all but the highest); the "
            "IOMMU refuses what is left, and without one other memory is read or written",
            "a 64-bit address in a 32-bit register or field",
        ),
        FaultKind(
            "bank-conflict", (), (*_PLACE, "factor"),
            "a transfer's bursts collide in one SRAM bank and take longer",
            "operands whose addresses differ by a multiple of the bank stride",
        ),
        FaultKind(
            "clock-drop", (), ("seq", "factor"),
            "from a command on, everything takes longer",
            "a frequency that is not locked, thermal throttling",
        ),
    )
}  # fmt: skip


def listing() -> list[tuple[str, str, str]]:
    """Return name with keys, effect and origin of every kind."""
    rows = []
    for kind in KINDS.values():
        keys = [f"{k}=…" for k in kind.needs] + [f"[{k}=…]" for k in kind.takes]
        rows.append((f"{kind.name}{':' if keys else ''}{','.join(keys)}", kind.effect, kind.seen))
    return rows
