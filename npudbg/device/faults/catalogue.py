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
        example: A specification; NAME stands for a tensor's or a node's name.
        found: Codes of the findings that name it.
    """

    name: str
    needs: tuple[str, ...]
    takes: tuple[str, ...]
    effect: str
    seen: str
    example: str
    found: str


_PLACE = ("tensor", "tile", "way", "seq")

KINDS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        FaultKind(
            "dropped-dma", (), _PLACE,
            "the transfer completes and moves nothing; SRAM or DDR keeps its old bytes",
            "a descriptor that was overwritten, or a ring that wrapped",
            "dropped-dma:tensor=NAME,way=store", "T341",
        ),
        FaultKind(
            "short-dma", (), (*_PLACE, "bytes"),
            "only the first bytes of the transfer move",
            "a byte count taken as a word count, or a burst that was aborted",
            "short-dma:tensor=NAME,tile=2,bytes=64", "T342",
        ),
        FaultKind(
            "length-overflow", (), (*_PLACE, "bits"),
            "the length field keeps its low bits only",
            "a transfer longer than the descriptor's field",
            "length-overflow:tensor=NAME,bits=10", "T342",
        ),
        FaultKind(
            "late-dma", (), _PLACE,
            "the kernel starts before its operand has arrived and reads the old bytes",
            "a missing dependency between a queue and an engine",
            "late-dma:tensor=NAME", "T343",
        ),
        FaultKind(
            "duplicated-dma", (), _PLACE,
            "the transfer is done once more, later, over what then lies there",
            "a descriptor ring that was replayed after a timeout",
            "duplicated-dma:tensor=NAME", "T344",
        ),
        FaultKind(
            "misaligned-dma", (), (*_PLACE, "bytes"),
            "the source begins some bytes below the address that was meant",
            "low address bits that the engine does not have",
            "misaligned-dma:tensor=NAME,bytes=16", "T345",
        ),
        FaultKind(
            "bit-flip", ("addr", "after"), ("space", "bit"),
            "one bit of memory changes after a command",
            "marginal SRAM voltage, a row that was not refreshed",
            "bit-flip:space=ddr,addr=0x40001000,after=20,bit=7", "T344 T348",
        ),
        FaultKind(
            "weight-bit-flip", ("tensor",), ("index", "bit"),
            "one bit of a weight in device memory is wrong",
            "a damaged model file, or memory that failed",
            "weight-bit-flip:tensor=NAME,index=3,bit=30", "T347",
        ),
        FaultKind(
            "nan-weight", ("tensor",), ("index",),
            "one element of a weight in device memory is NaN",
            "a conversion that overflowed, a write that went astray",
            "nan-weight:tensor=NAME", "T347",
        ),
        FaultKind(
            "corrupted-scale", ("tensor",), ("factor", "index"),
            "a scale in device memory is multiplied by a factor",
            "quantisation parameters of another model version",
            "corrupted-scale:tensor=NAME,factor=16", "T347",
        ),
        FaultKind(
            "missing-flush", ("tensor",), (),
            "the device reads what the buffer held one frame before",
            "a non-coherent driver whose sync_for_device was left out",
            "missing-flush:tensor=NAME", "T350",
        ),
        FaultKind(
            "missing-invalidate", ("tensor",), (),
            "the host reads from its cache what the output held before",
            "a non-coherent driver whose sync_for_cpu was left out",
            "missing-invalidate:tensor=NAME", "T351",
        ),
        FaultKind(
            "late-writeback", ("tensor",), ("line",),
            "a dirty cache line over an output is written back after the DMA",
            "memset of an output buffer without sync_for_device",
            "late-writeback:tensor=NAME", "T352",
        ),
        FaultKind(
            "torn-line", ("tensor",), (),
            "a neighbour in the same cache line is written back over what a camera's DMA had put "
            "into an input: its bytes in that line are those of the frame before",
            "two buffers on the heap whose boundary falls inside a cache line",
            "torn-line:tensor=NAME", "T353",
        ),
        FaultKind(
            "hang", (), ("node", "tile", "seq"),
            "a kernel starts and never ends",
            "wrong descriptors or weights, an address that does not answer",
            "hang:node=NAME,tile=1", "T310",
        ),
        FaultKind(
            "no-recovery", (), ("node", "tile", "seq", "retries"),
            "a kernel never ends; the driver resets the device and submits the job again, and no "
            "command is taken any more",
            "a driver that does not handle the firmware's error, a reset line that is not wired",
            "no-recovery:node=NAME,retries=2", "T310 T363",
        ),
        FaultKind(
            "lost-interrupt", (), (),
            "all commands end and the host is never told",
            "an interrupt that was masked or acknowledged too early",
            "lost-interrupt", "T360",
        ),
        FaultKind(
            "deadlock", (), ("node", "tile"),
            "two DMA channels wait for each other's buffer",
            "a schedule that fills both buffers before it drains one",
            "deadlock:node=NAME", "T361",
        ),
        FaultKind(
            "missing-device", (), ("retries",),
            "nothing takes the first command; the driver waits, resets and tries again",
            "a virtual machine, a container without the device node, a driver that did not probe",
            "missing-device", "T312",
        ),
        FaultKind(
            "iommu-fault", (), (*_PLACE, "how"),
            "the transfer is refused: its buffer is not mapped (how=unmapped), was unmapped after "
            "this transfer (how=early) or is mapped for reading (how=read-only)",
            "dma_unmap before the job's fence, a buffer of another context, a wrong direction",
            "iommu-fault:tensor=NAME,how=early", "T362",
        ),
        FaultKind(
            "truncated-address", (), (*_PLACE, "bits"),
            "the descriptor keeps the low bits of the address (default: all but the highest); the "
            "IOMMU refuses what is left, and without one other memory is read or written",
            "a 64-bit address in a 32-bit register or field",
            "truncated-address:tensor=NAME,way=store", "T349 T362",
        ),
        FaultKind(
            "bank-conflict", (), (*_PLACE, "factor"),
            "a transfer's bursts collide in one SRAM bank and take longer",
            "operands whose addresses differ by a multiple of the bank stride",
            "bank-conflict:tensor=NAME,factor=8", "T370",
        ),
        FaultKind(
            "clock-drop", (), ("seq", "factor"),
            "from a command on, everything takes longer",
            "a frequency that is not locked, thermal throttling",
            "clock-drop:seq=100,factor=4", "T371",
        ),
    )
}  # fmt: skip


KEYS: dict[str, str] = {
    "tensor": "transfers of this tensor; of a weight fault, the weight (in double quotes where a "
    "name holds a comma)",
    "node": "the node's name, as `npudbg graph` and the report show it",
    "tile": "which tile, from 0; without it the first that fits",
    "way": "load or store; without it the first of the tensor, else a load",
    "seq": "the command's number in a run without the fault; goes before all others",
    "bytes": "short-dma: how many move (default half); misaligned-dma: how far below (default 64)",
    "bits": "how many low bits are kept: of the length (default 16), of the address (default all "
    "but the highest)",
    "addr": "address of the byte",
    "after": "command after which it changes",
    "space": "sram or ddr (default sram)",
    "bit": "which bit of the byte (default 0), or of the weight's element (default the second "
    "highest)",
    "index": "which element, in C order, modulo the size (default 0)",
    "factor": "corrupted-scale: default 16; bank-conflict, clock-drop: how many times as long",
    "line": "which cache line of the output, from 0",
    "how": "unmapped, early or read-only",
    "retries": "how often the driver tries again (default 3)",
}
"""What each key means."""
