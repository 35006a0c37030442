"""Going between a session and its forks, and what each of them is."""

from __future__ import annotations

from collections.abc import Iterable

from npudbg.debugger import changed, references
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.registry import Verb, completed
from npudbg.debugger.sessions import Opened, Sessions
from npudbg.debugger.stopping import where
from npudbg.debugger.verbs.displays import display_lines
from npudbg.session.lines import Line, Style, line
from npudbg.session.text import safe

_LEAST_VERDICT = 24


def arrived(
    sessions: Sessions, told: Iterable[Line] = (), differences: Iterable[Line] = ()
) -> list[Line]:
    """Return what is said where one comes to a session: which, and what is shown there.

    Args:
        sessions: Where one has arrived.
        told: What could not come along.
        differences: What is different from where one came from.
    """
    current = sessions.current
    return [
        *session_lines(current),
        *differences,
        *told,
        *where(current.context),
        *display_lines(current.context),
    ]


def session_lines(opened: Opened, mark: str = "") -> list[Line]:
    """Return a session as lines: its number and verdict, what it changed, its file."""
    session = opened.context.session
    room = opened.context.width
    of = f"fork of {opened.parent}" if opened.parent else "as recorded"
    name = f"{mark}session {opened.number}"
    state = f"  {of}  {safe(session.status, 20)}  "
    verdict, style = _verdict(opened, max(room - len(name) - len(state), _LEAST_VERDICT))
    head = line((name, "title"), state, (verdict, style))
    pad = " " * len(mark)
    forker = opened.context.forker
    kept = forker is None or forker.keep
    return [
        head,
        *(line((f"{pad}  set ", "dim"), each) for each in changed.words(opened.changes)),
        line(
            (f"{pad}  file ", "dim"),
            safe(session.path, 300),
            ("" if kept else "  removed at the end; --save keeps a run and its forks", "warn"),
        ),
    ]


def _verdict(opened: Opened, room: int) -> tuple[str, Style]:
    verdict = opened.context.session.verdict
    if verdict is None:
        return "not judged", "warn"
    if verdict.layer == 0:
        return "nothing at fault", "ok"
    text = f"layer {verdict.layer}: {safe(verdict.code, 8)} {safe(verdict.summary, 1000)}".strip()
    return (text if len(text) <= room else f"{text[: room - 1]}…"), "error"


def session_list(context: Context, text: str) -> list[Line]:
    """The session as it was recorded, its forks, and their verdicts."""
    sessions = context.sessions
    return [
        each
        for opened in sessions.all
        for each in session_lines(opened, "> " if opened is sessions.current else "  ")
    ]


def _number(context: Context, text: str, otherwise: int) -> int:
    """Return the session that a number, ``parent``, or nothing means."""
    current = context.sessions.current
    if not text:
        return otherwise
    if text == "parent":
        if not current.parent:
            raise DebuggerError("this is the session as it was recorded; it has no parent")
        return current.parent
    return context.sessions.get(references.integer(text, "session")).number


def _session(context: Context, text: str) -> list[Line]:
    sessions = context.sessions
    if not text:
        return session_lines(sessions.current)
    told = sessions.go(_number(context, text, 0))
    return arrived(sessions, told)


def _compare(context: Context, text: str) -> list[Line]:
    sessions, current = context.sessions, context.sessions.current
    number = _number(context, text, current.parent)
    if number in (0, current.number):
        raise DebuggerError("compare with which session? info sessions lists them")
    if context.forker is None:
        raise DebuggerError("nothing here can compare; see npudbg compare for two saved sessions")
    other = sessions.get(number).context.session
    return [
        line((f"session {number} | session {current.number}", "title")),
        *context.forker.compare(other, current.context.session),
    ]


def _complete(context: Context, start: str) -> list[str]:
    sessions = context.sessions
    words = [str(each.number) for each in sessions.all if each is not sessions.current]
    return completed([*words, *(["parent"] if sessions.current.parent else [])], start)


_GROUP = "Changing"

VERBS = (
    Verb(
        "session",
        _session,
        "session [N | parent]",
        "go to a session by its number in info sessions, or to the one this is a fork of",
        _GROUP,
        complete=_complete,
        more=(
            "Each session keeps its cursor and its bookmarks. Breakpoints, watchpoints, displays",
            "and golden values come along. session alone says which one this is.",
        ),
    ),
    Verb(
        "compare",
        _compare,
        "compare [N | parent]",
        "what differs between a session (the parent, without a number) and this one",
        _GROUP,
        complete=_complete,
        more=("npudbg compare A B says it in full.",),
    ),
)
