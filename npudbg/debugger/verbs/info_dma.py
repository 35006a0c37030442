"""info dma: the descriptor of a transfer, and where its cycles go."""

from __future__ import annotations

from typing import Any

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.device.banks import conflict_cycles, conflicts, operands_of
from npudbg.device.descriptors import Descriptor, descriptor_of
from npudbg.session.commands import kind_name, space_name
from npudbg.session.lines import Line, line
from npudbg.session.text import safe


def dma(context: Context, text: str) -> list[Line]:
    """The DMA descriptor of a transfer: the cursor's, or of a command by number."""
    context.cursor.require()
    seq = references.integer(text, "command") if text else context.cursor.seq
    if not 0 <= seq <= context.cursor.last:
        raise DebuggerError(f"no command {seq}; there are 0 to {context.cursor.last}")
    if context.target is None:
        raise DebuggerError("the session carries no target profile; info command shows the row")
    row = context.row(seq)
    lines = descriptor_lines(context, row)
    if not lines:
        raise DebuggerError(
            f"command {seq} is {kind_name(int(row['kind']))}, which has no DMA descriptor; "
            "expected a LOAD or STORE of a tensor"
        )
    number = int(row["tensor"])
    head = line(
        (f"command {seq} {kind_name(int(row['kind']))} ", "title"),
        safe(context.session.tensors[number].name, 60),
        subject=words.subject(context, row),
    )
    return [head, *lines]


def descriptor_lines(context: Context, row: Any) -> list[Line]:
    """Return a transfer's descriptor as lines; none for another command or without a profile."""
    found = None if context.target is None else descriptor_of(context.session, row, context.target)
    if found is None:
        return []
    engines, engine = context.session.meta.engines, int(row["engine"])
    channel = safe(engines[engine], 12) if engine < len(engines) else f"e{engine}"
    src = f"{space_name(int(row['src_space']))}:{words.address(int(row['src']))}"
    dst = f"{space_name(int(row['dst_space']))}:{words.address(int(row['dst']))}"
    shape = found.shape
    count = f"{shape.descriptors:,} descriptors" if shape.descriptors > 1 else "1 descriptor"
    return [
        line(
            ("  channel ", "dim"), f"{channel}  ", (src, "address"), " to ", (dst, "address"),
            f"  {count}, {shape.dimensions}D",
        ),
        line(("  shape   ", "dim"), _shape(found)),
        line(("  length  ", "dim"), *_length(found)),
        line(
            ("  bursts  ", "dim"),
            f"{found.bursts:,} of up to {context.target.dma.burst_bytes} B, {found.splits:,} cut "
            f"at a boundary of {words.nbytes(context.target.dma.boundary_bytes)}",
        ),
        line(("  cycles  ", "dim"), _cycles(found), (f"  {context.origin}", "dim")),
    ]  # fmt: skip


def conflict_lines(context: Context, row: Any) -> list[Line]:
    """Return what operands in one bank cost a kernel; nothing where the profile is silent."""
    memory = None if context.target is None else context.target.memory
    if memory is None or not memory.bank_conflict_cycles:
        return []
    operands = operands_of(context.session, row)
    words_waiting = conflicts(memory, operands)
    if not words_waiting:
        return []
    cost, took = conflict_cycles(memory, operands), int(row["end"]) - int(row["start"])
    return [
        line(
            ("  banks   ", "dim"),
            f"{words_waiting:,} words wait for another operand's in the same of "
            f"{memory.sram_banks} banks: {cost:,} of {took:,} cycles",
            (f"  {context.origin}", "dim"),
        )
    ]


def _shape(found: Descriptor) -> str:
    shape = found.shape
    text = f"run {words.nbytes(shape.run)} of {found.element} B elements"
    pairs = zip(shape.counts[::-1], shape.pitches[::-1], strict=True)
    return text + "".join(f", x {n:,} every {pitch:,} B" for n, pitch in pairs)


def _length(found: Descriptor) -> tuple[Any, ...]:
    text = f"{found.length:,} B, field {found.field:#x}"
    if found.bits is None:
        return (text, (" (its width is not in the profile)", "dim"))
    if found.truncated:
        return (text, (f" of {found.bits} bits: the length does not fit", "error"))
    return (f"{text} of {found.bits} bits",)


def _cycles(found: Descriptor) -> str:
    parts = found.cycles
    text = (
        f"{found.took:,} = set-up {parts.setup:,} + bursts {parts.data:,} "
        f"+ page splits {parts.splits:,}"
    )
    more = found.took - parts.total
    return f"{text} {'+' if more > 0 else '-'} other {abs(more):,}" if more else text
