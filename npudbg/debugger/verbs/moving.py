"""Steps and runs, forward and backward."""

from __future__ import annotations

from npudbg.debugger import references
from npudbg.debugger.breakpoints import Stop
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.locations import condition, locate, split_condition
from npudbg.debugger.registry import Run, Verb, completed
from npudbg.debugger.stopping import move, where
from npudbg.session.lines import Line, line
from npudbg.session.text import safe

_GROUP = "Moving"
_MOST = 1 << 40


def count_of(text: str) -> int:
    """Return how often something is to be done: 1 where nothing is said.

    Raises:
        DebuggerError: No whole number of at least 1.
    """
    if not text:
        return 1
    count = references.integer(text, "how often")
    if not 1 <= count <= _MOST:
        raise DebuggerError(f"how often: expected 1 to {_MOST}, got {count}")
    return count


def _step(sign: int) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        context.cursor.require()
        goal = context.cursor.goal_step(sign * count_of(text))
        if goal == context.cursor.seq:
            return move(context, goal, "end of the record" if sign > 0 else "start of the record")
        return move(context, goal, "step" if sign > 0 else "reverse step")

    return run


def _next(sign: int) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        context.cursor.require()
        goal = context.cursor.goal_next(sign * count_of(text))
        if goal == context.cursor.seq:
            return move(context, goal, "end of the record" if sign > 0 else "start of the record")
        return move(context, goal, "next node" if sign > 0 else "previous node")

    return run


def _finish(context: Context, text: str) -> list[Line]:
    _nothing(text, "finish")
    context.cursor.require()
    return move(context, context.cursor.goal_finish(), "end of the node")


def _back_finish(context: Context, text: str) -> list[Line]:
    _nothing(text, "reverse-finish")
    context.cursor.require()
    return move(context, context.cursor.goal_back_finish(), "start of the node")


def _continue(sign: int) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        context.cursor.require()
        lines: list[Line] = []
        end = context.cursor.last if sign > 0 else 0
        for _ in range(min(count_of(text), 1_000_000)):
            lines = move(context, end, "end of the record" if sign > 0 else "start of the record")
            if context.cursor.seq == end:
                break
        return lines

    return run


def _until(sign: int) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        cursor = context.cursor
        cursor.require()
        if not text:
            return _next(sign)(context, "")
        place, test = split_condition(text)
        location = locate(context, place, conditional=bool(test))
        stop = Stop(0, "breakpoint", location.text, location.matcher)
        if test:
            stop.condition, stop.condition_text = condition(test), test
        before, end = cursor.seq, cursor.last if sign > 0 else 0
        lines = move(context, end, f"until {location.text}", also=[stop])
        if not stop.hits:
            return [line((f"{location.text} was not met on the way", "warn")), *lines[-2:]]
        return lines if cursor.seq != before else where(context)

    return run


def _goto(context: Context, text: str) -> list[Line]:
    goal = _place(context, text)
    context.frame.clear()
    context.listed = None
    context.cursor.goto(goal, "")
    return where(context)


def _place(context: Context, text: str) -> int:
    """Return the command that a goto means."""
    cursor = context.cursor
    cursor.require()
    word, _, rest = text.partition(" ")
    if not text:
        raise DebuggerError("goto where? a command, cycle N, a bookmark, a node, start or end")
    if text in cursor.bookmarks:
        return cursor.bookmarks[text]
    if text in ("start", "end"):
        return 0 if text == "start" else cursor.last
    if word == "bookmark":
        name = rest.strip()
        if name not in cursor.bookmarks:
            known = ", ".join(cursor.bookmarks) or "none is set"
            raise DebuggerError(f"no bookmark {safe(name, 40)} ({safe(known, 200)})")
        return cursor.bookmarks[name]
    if word == "cycle":
        return cursor.at_cycle(references.integer(rest, "cycle"))
    if text[0] in "+-" and text[1:].isdigit():
        return cursor.goal_step(int(text))
    seq = locate(context, text, conditional=False).seq
    if seq < 0:
        raise DebuggerError(
            f"{safe(text, 40)}: stands for many commands; use until or a breakpoint"
        )
    return seq


def _start(context: Context, text: str) -> list[Line]:
    _nothing(text, "start")
    return _goto(context, "start")


def _end(context: Context, text: str) -> list[Line]:
    _nothing(text, "end")
    return _goto(context, "end")


def _bookmark(context: Context, text: str) -> list[Line]:
    cursor = context.cursor
    cursor.require()
    if not text:
        return bookmark_lines(context)
    word, _, rest = text.partition(" ")
    if word == "delete" and rest.strip():
        return delete_bookmark(context, rest.strip())
    if not text.isidentifier() or len(text) > 40 or text in ("start", "end", "cycle", "bookmark"):
        raise DebuggerError(
            f"{safe(text, 40)}: a bookmark's name is one word of letters and digits"
        )
    if len(cursor.bookmarks) >= 1000 and text not in cursor.bookmarks:
        raise DebuggerError("1000 bookmarks are set; delete some")
    cursor.bookmarks[text] = cursor.seq
    return [line(f"bookmark {text} at command {cursor.seq}")]


def bookmark_lines(context: Context) -> list[Line]:
    """Return the bookmarks as lines, in their order."""
    marks = sorted(context.cursor.bookmarks.items(), key=lambda each: each[1])
    found = [line((f"{seq:>8}  ", "number"), safe(name, 60)) for name, seq in marks]
    return found or [line(("no bookmarks; bookmark NAME sets one here", "dim"))]


def delete_bookmark(context: Context, name: str) -> list[Line]:
    """Delete a bookmark.

    Raises:
        DebuggerError: There is none of that name.
    """
    if context.cursor.bookmarks.pop(name, None) is None:
        raise DebuggerError(f"no bookmark {safe(name, 40)}")
    return [line(f"bookmark {safe(name, 40)} deleted")]


def _when(context: Context, text: str) -> list[Line]:
    _nothing(text, "when")
    context.cursor.require()
    row, cursor, clock = context.row(), context.cursor, context.session.meta.clock_hz
    lasts = f" = {int(row['start']) / clock * 1e6:,.3f} us" if clock > 0 else ""
    return [
        line(
            (f"command {cursor.seq} of 0..{cursor.last}", "number"),
            f", cycle {int(row['start']):,} of {context.session.n_cycles:,}{lasts}",
            (f"  {context.origin}", "dim"),
        )
    ]


def _where(context: Context, text: str) -> list[Line]:
    _nothing(text, "where")
    return where(context)


def _nothing(text: str, verb: str) -> None:
    if text:
        raise DebuggerError(f"{verb} takes nothing; got {safe(text, 30)!r}")


def places(context: Context, start: str) -> list[str]:
    """Return what a location can be, for completion."""
    from npudbg.debugger.locations import FORMS
    from npudbg.session.commands import Kind

    session = context.session
    names = [
        *FORMS, *context.cursor.bookmarks, *Kind.__members__, *session.meta.engines,
        *(f.code for f in session.findings), *(n.label for n in session.nodes[:5000]),
        *(n.op_type for n in session.nodes[:5000]), *(t.name for t in session.tensors[:5000]),
    ]  # fmt: skip
    return completed((n for n in names if n.isprintable()), start)


VERBS = (
    Verb("step", _step(1), "step [N]", "one command, or N", _GROUP, ("s", "stepi", "si"), True),
    Verb(
        "next",
        _next(1),
        "next [N]",
        "to the first command of the next node",
        _GROUP,
        ("n", "nexti", "ni"),
        True,
        more=("Nodes that were fused run in one another and count as one.",),
    ),
    Verb("finish", _finish, "finish", "to the end of this node", _GROUP, ("fin",), True),
    Verb(
        "continue",
        _continue(1),
        "continue [N]",
        "to the next stop, or the end",
        _GROUP,
        ("c", "cont", "run", "r"),
        True,
    ),
    Verb(
        "until",
        _until(1),
        "until [LOCATION] [if EXPR]",
        "forward to a place (next, without one)",
        _GROUP,
        ("u", "advance"),
        complete=places,
    ),
    Verb(
        "reverse-step",
        _step(-1),
        "reverse-step [N]",
        "one command back, or N",
        _GROUP,
        ("rs", "rstep", "rsi", "reverse-stepi"),
        True,
    ),
    Verb(
        "reverse-next",
        _next(-1),
        "reverse-next [N]",
        "back to the start of the node before",
        _GROUP,
        ("rn", "rnext", "rni", "reverse-nexti"),
        True,
    ),
    Verb(
        "reverse-finish",
        _back_finish,
        "reverse-finish",
        "back to the start of this node",
        _GROUP,
        ("rfin", "rfinish"),
        True,
    ),
    Verb(
        "reverse-continue",
        _continue(-1),
        "reverse-continue [N]",
        "back to the stop before, or the start",
        _GROUP,
        ("rc", "rcont"),
        True,
    ),
    Verb(
        "reverse-until",
        _until(-1),
        "reverse-until [LOCATION] [if EXPR]",
        "back to a place",
        _GROUP,
        ("ru", "runtil"),
        complete=places,
    ),
    Verb("start", _start, "start", "to the first command", _GROUP),
    Verb("end", _end, "end", "to the last command", _GROUP),
    Verb(
        "goto",
        _goto,
        "goto SEQ | cycle N | +N | -N | start | end | BOOKMARK | LOCATION",
        "to a place at once",
        _GROUP,
        ("go", "jump", "j"),
        complete=places,
    ),
    Verb(
        "bookmark",
        _bookmark,
        "bookmark [NAME | delete NAME]",
        "name this command, list the names",
        _GROUP,
        ("mark",),
    ),
    Verb("when", _when, "when", "number and cycle of this command", _GROUP),
    Verb(
        "where", _where, "where", "what the command at the cursor does", _GROUP, ("frame", "f", "w")
    ),
)
