"""The view as lines: lanes, then what stands in each row, then what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from npudbg.plugins import Line, Span, Style, Subject, line, safe
from npudbg_graph.lanes import Row, draw
from npudbg_graph.status import BAD, SPOILED, mark, subject_of
from npudbg_graph.view import Value, Vertex, View

_ASCII = str.maketrans(
    {
        "│": "|",
        "─": "-",
        "├": "+",
        "┤": "+",
        "┼": "+",
        "╰": "`",
        "╯": "'",
        "╭": ".",
        "╮": ".",
        "┬": "+",
        "┴": "+",
        "●": "*",
        "■": "#",
        "○": "o",
        "·": ".",
        "…": "~",
        "→": ">",
        "←": "<",
    }
)
LEGEND = (
    "■ input  ● ok  H host  N NaN origin  n NaN downstream  I/i the same for Inf  ! hung or failed"
)
_LANE_COLUMNS = 0.45
"""Share of the width that lanes may take."""


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw.

    Attributes:
        width: Columns a line may take; 0 for no limit.
        max_lanes: Most lanes; 0 lets the width decide.
        shapes: Say shape and dtype of what each vertex writes.
        ascii: Plain ASCII only.
    """

    width: int = 0
    max_lanes: int = 0
    shapes: bool = False
    ascii: bool = False

    @property
    def lanes(self) -> int:
        """Most lanes to draw."""
        return self.max_lanes or min(max(int((self.width or 100) * _LANE_COLUMNS) // 2, 2), 24)


def rows_of(view: View, look: Look) -> list[Row]:
    """Return the drawing's rows."""
    return draw(view.items, max_lanes=look.lanes, marks=[mark(v) for v in view.vertices])


def line_of(view: View, row: Row, look: Look, *, current: bool = False) -> Line:
    """Return one row of the drawing as a line."""
    if row.item is None:
        return _fit([Span(row.text, "dim")], look, None)
    vertex = view.vertices[row.item]
    before, after = row.text[: row.column], row.text[row.column + 1 :]
    sign = row.text[row.column]
    style = _style(vertex)
    spans = [
        Span(before, "dim"),
        Span(sign, style),
        Span(after, "dim"),
        Span("  "),
        Span(_label(vertex), "current" if current else ""),
    ]
    if vertex.status not in ("ok", "view"):
        spans.append(Span(f"  {vertex.status}", style))
    if vertex.codes:
        spans.append(Span(f"  {' '.join(safe(c, 12) for c in vertex.codes[:4])}", "error"))
    if look.shapes:
        spans.append(Span(f"  {_written(view, vertex)}", "key"))
    if row.more_from or row.more_to:
        spans.append(Span(f"  {_elsewhere(view, row)}", "mark"))
    return _fit(spans, look, row.item, view)


def with_detail(view: View, rows: list[Row], lines: list[Line], at: int, look: Look) -> list[Line]:
    """Return the lines of ``rows`` with what is known of vertex ``at`` below its row.

    Args:
        view: The graph.
        rows: Rows of the drawing, or a part of them.
        lines: One line a row.
        at: A vertex.
        look: How to draw.
    """
    place = next((n for n, row in enumerate(rows) if row.item == at), None)
    if place is None:
        return lines
    lanes = rows[place].below
    after = place + 1
    if after < len(rows) and rows[after].item is None and rows[after].text.strip("│ "):
        after += 1  # the row in which its outputs fork
    detail = [
        _fit([Span(f"{lanes}  ", "dim"), *each.spans], look, None, subject=each)
        for each in detail_lines(view, at, look)
    ]
    return lines[:after] + detail + lines[after:]


def detail_lines(view: View, at: int, look: Look) -> list[Line]:
    """Return what is known of one vertex: its values with their scan, its commands."""
    vertex = view.vertices[at]
    subject = subject_of(view, at)
    head = f"  {vertex.status}"
    if vertex.kernel:
        head += f", kernel {safe(vertex.kernel, 40)}"
    if vertex.engine:
        head += f" on {safe(vertex.engine, 20)}"
    if vertex.first_seq >= 0:
        head += f", commands {vertex.first_seq}-{vertex.last_seq} (simulated)"
    lines = [line((head, "key"), subject=subject)]
    if vertex.note:
        lines.append(line((f"  {safe(vertex.note, 200)}", "dim"), subject=subject))
    for word, values in (
        ("reads", vertex.reads),
        ("weight", vertex.weights),
        ("writes", vertex.writes),
    ):
        for number in values[:4]:
            lines.append(_value_line(word, view.values[number]))
        if len(values) > 4:
            lines.append(line((f"  {word:<7} … and {len(values) - 4} more", "dim")))
    return [_fit(list(each.spans), look, None, subject=each) for each in lines]


def to_ascii(lines: list[Line]) -> list[Line]:
    """Return lines with each drawing character replaced by a plain one."""
    return [
        Line(
            tuple(
                Span(s.text.translate(_ASCII).encode("ascii", "replace").decode(), s.style)
                for s in each.spans
            ),
            each.subject,
        )
        for each in lines
    ]


def vertex_name(view: View, at: int) -> str:
    """Return how a vertex is named in a reference: ``#12`` or an input's name."""
    vertex = view.vertices[at]
    return f"#{vertex.nodes[-1]}" if vertex.nodes else safe(vertex.name, 24)


def _label(vertex: Vertex) -> str:
    if vertex.kind == "input":
        return f"input {safe(vertex.name, 60)}"
    number = f"#{vertex.nodes[-1]}"
    if vertex.kind == "group":
        number = f"#{vertex.nodes[0]}-{vertex.nodes[-1]}"
    return f"{number} {safe(vertex.op, 40)} {safe(vertex.name, 60)}"


def _style(vertex: Vertex) -> Style:
    if vertex.status in BAD:
        return "error"
    if vertex.status in SPOILED:
        return "warn"
    return "dim" if vertex.kind == "input" else "ok"


def _written(view: View, vertex: Vertex) -> str:
    texts = [view.values[v].text or "?" for v in vertex.writes[:3]]
    return "→ " + " ".join(texts) + (" …" if len(vertex.writes) > 3 else "")


def _elsewhere(view: View, row: Row) -> str:
    parts = []
    for arrow, others in (("←", row.more_from), ("→", row.more_to)):
        if others:
            names = [vertex_name(view, o) for o in others]
            parts.append(f"{arrow}{','.join(names)}")
    return f"[{' '.join(parts)}]"


def _value_line(word: str, value: Value) -> Line:
    scan = ""
    if value.dirty:
        scan = f"  {value.nan} NaN, {value.inf} Inf ({value.origin})"
    tensor = value.tensor if value.tensor >= 0 else None
    return line(
        f"  {word:<7} {safe(value.name, 60)} ",
        (value.text, "key"),
        (scan, "error"),
        subject=Subject(kind="tensor", name=value.name, tensor=tensor),
    )


def _fit(
    spans: list[Span],
    look: Look,
    item: int | None,
    view: View | None = None,
    subject: Line | None = None,
) -> Line:
    """Cut a line to the width, and give it its subject."""
    target = subject.subject if subject is not None else None
    if item is not None and view is not None:
        target = subject_of(view, item)
    if not look.width:
        return Line(tuple(spans), target)
    left = look.width
    kept = []
    for span in spans:
        if left <= 0:
            break
        text = span.text if len(span.text) <= left else span.text[: left - 1] + "…"
        kept.append(Span(text, span.style))
        left -= len(text)
    return Line(tuple(kept), target)
