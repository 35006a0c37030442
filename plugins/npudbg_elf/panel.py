"""Sections and segments with their alignment, beside what the profile demands."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from npudbg.plugins import Line, PanelContext, Session, Subject, Target, UserError, line, safe
from npudbg_elf.image import read_image
from npudbg_elf.layout_rules import judge_image
from npudbg_elf.names import flags_text, machine_name, segment_name, type_name
from npudbg_elf.records import Image

EXTRA = "elf"
"""Key under which a session keeps the images that it was saved with."""
_MAX_FILES = 64


_NONE = (
    line(("no ELF file is kept in this session", "title")),
    line(""),
    line("Here stand the sections and segments of libraries and kernels for the board,"),
    line("each with its alignment beside what the profile demands, and what is wrong."),
    line(""),
    line(("  npudbg elf FILE… --target CHIP", "key"), "   judges files"),
    line(("  npudbg elf FILE… --save SESSION", "key"), "  keeps them in a session of their own"),
)


def session_images(session: Session) -> list[Image]:
    """Return the ELF files that a session was saved with; none if it has none."""
    stored = session.extra(EXTRA)
    if stored is None:
        return []
    try:
        return msgspec.convert(stored, list[Image])
    except (msgspec.ValidationError, RecursionError):
        raise UserError(f"{session.path}: its list of ELF files is damaged") from None


def panel_lines(context: PanelContext) -> list[Line]:
    """Return the panel: one block a file, faults first."""
    images = session_images(context.session) if context.session is not None else []
    images += [_read(path) for path in context.files[:_MAX_FILES] if _looks_elf(path)]
    if not images:
        return _window(list(_NONE), context)
    lines: list[Line] = []
    for image in images:
        lines += image_lines(image, context.target)
    return _window(lines, context)


def image_lines(image: Image, target: Target | None) -> list[Line]:
    """Return one file's sections and segments, each with its demand and its faults."""
    subject = Subject(kind="file", name=image.path, file=image.path)
    lines = [line((safe(image.path), "title"), f": {describe(image)}", subject=subject)]
    found = judge_image(image, target) if target is not None else []
    bad: dict[str, list[str]] = {}
    for each in found:
        bad.setdefault(each.subject.name, []).append(each.code)
        if each.subject.kind == "file":
            lines.append(
                line((f"  {each.code} {safe(each.message, 300)}", "error"), subject=subject)
            )
    if image.segments:
        lines.append(line(("  segment      offset     vaddr      memsz    align  flags", "dim")))
    for segment in image.segments:
        name = segment_name(segment)
        marks = " ".join(bad.get(name, ()))
        where = Subject(kind="section", name=name, address=segment.vaddr, file=image.path)
        lines.append(
            line(
                f"  {name:<12.12} {segment.offset:#010x}",
                (f" {segment.vaddr:#010x}", "address"),
                f" {segment.memsz:>9} {segment.align:#8x}  {flags_text(segment)}",
                (f"  {marks}", "error"),
                subject=where,
            )
        )
    if image.sections:
        lines.append(line(("  section              addr            size    align  rest", "dim")))
    for section in image.sections[1:]:
        marks = " ".join(bad.get(section.label, ()))
        rest = section.addr % section.align if section.align > 1 else 0
        where = Subject(kind="section", name=section.label, address=section.addr, file=image.path)
        lines.append(
            line(
                f"  {section.label:<18.18}",
                (f" {section.addr:#010x}", "address"),
                f" {section.size:>9} {section.align:>8}  {rest:#x}",
                (f"  {marks}", "error"),
                subject=where,
            )
        )
    return lines


def describe(image: Image) -> str:
    """Return one line on what a file is."""
    if image.kind != "elf":
        return f"{image.kind}, {image.nbytes} bytes"
    if not image.bits:
        return f"ELF, damaged or cut in its header, {image.nbytes} bytes"
    return (
        f"ELF{image.bits} {machine_name(image.machine)} {type_name(image.type)} "
        f"{image.order}-endian, {len(image.sections)} sections, {len(image.segments)} segments, "
        f"{image.nbytes} bytes"
    )


def _window(lines: list[Line], context: PanelContext) -> list[Line]:
    if not context.height or len(lines) <= context.height:
        return lines
    chosen = context.selection
    at = next(
        (n for n, each in enumerate(lines) if chosen is not None and each.subject == chosen), 0
    )
    start = min(max(at - context.height // 2, 0), len(lines) - context.height)
    return lines[start : start + context.height]


def _looks_elf(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except (OSError, ValueError):
        return False


def _read(path: str) -> Image:
    info = Path(path).stat()
    return _cached(path, info.st_mtime_ns, info.st_size)


@lru_cache(maxsize=_MAX_FILES)
def _cached(path: str, mtime: int, size: int) -> Image:
    return read_image(path)
