"""One transfer in full: its descriptor, and how it lies against the profile's demands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npudbg.device.descriptors import descriptor_of
from npudbg.render import numbers
from npudbg.render.commands import command_detail
from npudbg.render.fit import within
from npudbg.session.commands import Space, space_name
from npudbg.session.lines import Line, Span, line
from npudbg.session.reader import Session
from npudbg.targets.profile import Target


def transfer_detail(
    session: Session,
    row: Any,
    target: Target | None,
    descriptor: Iterable[Line],
    width: int,
    *,
    short: bool = False,
) -> list[Line]:
    """Return a command in full; for a transfer also its descriptor, alignment and banks.

    Args:
        session: The record.
        row: A row of :data:`~npudbg.session.commands.COMMAND`.
        target: The profile; None leaves out what it is held against.
        descriptor: The debugger's lines about the descriptor (or a kernel's banks).
        width: Columns; longer lines go on below themselves.
        short: Leave out what the command read: there is little room.
    """
    detail = command_detail(session, row, 1 << 16)
    if short:
        detail = [each for each in detail if not each.text.lstrip().startswith(("reads", "node"))]
    lines = [*detail, *descriptor, *alignment_lines(session, row, target)]
    return [part for each in lines for part in within(each, width)]


def alignment_lines(session: Session, row: Any, target: Target | None) -> list[Line]:
    """Return whether a transfer's addresses and length are multiples of what the engine wants.

    Figures that the profile does not state are not judged.  SRAM word ``w`` lies in bank
    ``w mod sram_banks``, as in :mod:`npudbg.device.banks`.  Nothing for other commands.
    """
    found = None if target is None else descriptor_of(session, row, target)
    if found is None or target is None:
        return []
    ends = (("from", "src"), ("to", "dst"))
    spans: list[Span] = [Span("  align   ", "dim")]
    base, step = target.dma.base_alignment, target.dma.length_alignment
    for word, name in ends:
        space, at = int(row[f"{name}_space"]), int(row[name])
        if base is not None and base > 1 and space in (Space.HOST, Space.DDR):
            spans += [Span(f"{word} "), *_multiple(at, base), Span("  ")]
    if step is not None and step > 1:
        spans += [Span(f"run of {found.shape.run:,} B "), *_multiple(found.shape.run, step)]
    if len(spans) == 1:
        spans.append(Span("the profile demands none", "dim"))
    lines = [Line(tuple(spans))]
    width, banks = target.memory.bank_bytes_per_cycle, target.memory.sram_banks
    for _, name in ends:
        space, at = int(row[f"{name}_space"]), int(row[name])
        if space == Space.SRAM and width > 0 and banks > 0:
            text = f"{space_name(space)} {numbers.address(at)} begins in bank {at // width % banks}"
            more = f", {at % width} B into its word" if at % width else ""
            lines.append(line(("  banks   ", "dim"), f"{text} of {banks}, {width} B a word{more}"))
    return lines


def _multiple(value: int, step: int) -> list[Span]:
    rest = value % step
    want = numbers.nbytes(step)
    if not rest:
        return [Span(f"a multiple of {want} ✓", "ok")]
    return [Span(f"! {rest:#x} past a multiple of {want}", "error")]
