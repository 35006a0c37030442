"""Fitting text into columns: cutting, padding, wrapping, by cells on the screen."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.session.lines import Line, Span, Style

ELLIPSIS = "…"


def cells(text: str) -> int:
    """Return how many columns a text takes (a wide character takes two)."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` columns; what is cut is marked with ``…``."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    if text.isascii():
        return text[: width - 1] + ELLIPSIS
    kept, used = [], 0
    for char in text:
        size = cells(char)
        if used + size > width - 1:
            break
        kept.append(char)
        used += size
    return "".join(kept) + ELLIPSIS


def cut_middle(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` columns, keeping its head and (more of) its tail.

    Names in a graph share long heads (``/backbone/blocks.3/…``): the tail tells.
    """
    if cells(text) <= width or width < 8 or not text.isascii():
        return cut(text, width)
    head = (width - 1) // 4
    return text[:head] + ELLIPSIS + text[len(text) - (width - 1 - head) :]


def left(text: str, width: int) -> str:
    """Return ``text`` cut or padded on the right to ``width`` columns."""
    text = cut(text, width)
    return text + " " * (width - cells(text))


def right(text: str, width: int) -> str:
    """Return ``text`` cut or padded on the left to ``width`` columns."""
    text = cut(text, width)
    return " " * (width - cells(text)) + text


def fit(line: Line, width: int) -> Line:
    """Return a line of at most ``width`` columns."""
    if cells(line.text) <= width:
        return line
    spans, room = [], width
    for span in line.spans:
        size = cells(span.text)
        if size <= room - 1:
            spans.append(span)
            room -= size
            continue
        # One column stays for the mark that says something was cut.
        spans.append(Span(cut(span.text + "  ", room), span.style))
        break
    return Line(tuple(spans), line.subject)


def wrap(text: str, width: int, hang: int = 0) -> Iterator[str]:
    """Yield ``text`` in lines of at most ``width`` columns; later ones indented by ``hang``.

    A word longer than a line is cut into pieces, never lost.
    """
    width = max(width, hang + 8)
    current, lead = "", ""
    for word in text.split():
        while True:
            joined = f"{current} {word}" if current else lead + word
            if cells(joined) <= width:
                current = joined
                break
            if current:
                yield current
                current, lead = "", " " * hang
                continue
            head = _head(word, width - len(lead))
            yield lead + head
            word, lead = word[len(head) :], " " * hang
            if not word:
                break
    if current:
        yield current


def wrapped(text: str, width: int, style: Style = "", *, lead: str = "") -> list[Line]:
    """Return ``lead`` and ``text`` as lines, later lines indented to where the text began."""
    hang = cells(lead)
    rows = list(wrap(text, max(width - hang, 8)))
    return [
        Line((Span(lead if n == 0 else " " * hang), Span(row, style)))
        for n, row in enumerate(rows or [""])
    ]


def within(each: Line, width: int) -> list[Line]:
    """Return a line as it is where it fits; else wrapped below the end of its first words."""
    if cells(each.text) <= width or not each.spans:
        return [each]
    head, *rest = each.spans
    if not rest:
        head, rest = Span("  "), [head]
    grave = [span.style for span in rest if span.style in ("error", "warn")]
    lead = head.text if head.text.endswith(" ") else f"{head.text} "
    text = "".join(span.text for span in rest)
    first, *more = wrapped(text.strip(), width, grave[0] if grave else "", lead=lead)
    first = Line((Span(lead, head.style), *first.spans[1:]))
    return [Line(row.spans, each.subject) for row in (first, *more)]


def _head(word: str, width: int) -> str:
    size = 0
    for count, char in enumerate(word):
        size += cells(char)
        if size > width:
            return word[: max(count, 1)]
    return word
