"""display: what is shown at every stop."""

from __future__ import annotations

from npudbg.debugger import references
from npudbg.debugger.context import Context, Display
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions import parse
from npudbg.debugger.registry import Verb
from npudbg.debugger.verbs.memory import examine
from npudbg.debugger.verbs.values import names, quiet, shown, value_of
from npudbg.session.errors import UserError
from npudbg.session.lines import Line, line
from npudbg.session.text import safe

_GROUP = "Looking"
_MOST_DISPLAYS = 50


def _is_memory(context: Context, text: str) -> bool:
    """Whether ``/FMT PLACE`` is meant: a name of ONNX begins with a slash, too."""
    form, _, place = text.partition(" ")
    if not text.startswith("/") or not place.strip():
        return False
    return form[-1] in "bhwgi" or references.address(context, place.strip()) is not None


def _display(context: Context, text: str) -> list[Line]:
    if not text:
        return display_lines(context) or [line(("nothing is displayed; display EXPR", "dim"))]
    if len(context.displays) >= _MOST_DISPLAYS:
        raise DebuggerError(f"{_MOST_DISPLAYS} displays are set; undisplay some")
    if _is_memory(context, text):
        wanted = f"x{text}"
    else:
        parse_or_name(context, text)
        wanted = f"p {text}"
    number = max((d.number for d in context.displays), default=0) + 1
    context.displays.append(Display(number, wanted))
    return shown_lines(context, context.displays[-1])


def parse_or_name(context: Context, text: str) -> None:
    """Make sure that a text can be displayed, now or later.

    Raises:
        DebuggerError: It is neither an expression nor a tensor.
    """
    try:
        parse(text)
    except DebuggerError as error:
        if quiet(context, text) is None:
            raise error from None


def shown_lines(context: Context, display: Display) -> list[Line]:
    """Return one display as lines; what has no value here says so."""
    verb, _, rest = display.text.partition(" ")
    head = line((f"{display.number}: {safe(display.text, 100)}", "key"))
    try:
        if verb == "p":
            lines = shown(context, value_of(context, rest))
        else:
            keep = context.next_address
            lines = examine(context, display.text[1:])
            context.next_address = keep
    except UserError as error:
        # What cannot be shown here may be at the next stop: no mistake of this one's.
        lines = [line((f"  {safe(error, 200)}", "dim"))]
    if len(lines) == 1:
        return [line(*head.spans, "  ", *lines[0].spans)]
    return [head, *lines]


def display_lines(context: Context) -> list[Line]:
    """Return all that is displayed at a stop."""
    return [each for display in context.displays for each in shown_lines(context, display)]


def _undisplay(context: Context, text: str) -> list[Line]:
    if not text:
        context.displays.clear()
        return [line("nothing is displayed any more")]
    for word in text.split():
        number = references.integer(word, "number")
        found = next((d for d in context.displays if d.number == number), None)
        if found is None:
            raise DebuggerError(f"no display {number}")
        context.displays.remove(found)
    return [line(f"undisplayed {safe(text, 60)}")]


VERBS = (
    Verb(
        "display",
        _display,
        "display EXPR | /FMT ADDR",
        "show it at every stop",
        _GROUP,
        ("disp",),
        complete=names,
    ),
    Verb("undisplay", _undisplay, "undisplay [N …]", "show it no more", _GROUP, ("undisp",)),
)
