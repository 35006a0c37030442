"""info: one verb, many subjects."""

from __future__ import annotations

from npudbg.debugger import references
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.registry import Run, Verb, completed
from npudbg.debugger.verbs import info_graph, info_run
from npudbg.debugger.verbs.displays import display_lines
from npudbg.debugger.verbs.info_dma import dma
from npudbg.debugger.verbs.moving import bookmark_lines, places
from npudbg.debugger.verbs.sessions import session_list
from npudbg.debugger.verbs.stops import stop_lines, tensors
from npudbg.session.lines import Line, line
from npudbg.session.text import safe


def _stops(context: Context, text: str) -> list[Line]:
    """Breakpoints and watchpoints."""
    return stop_lines(context)


def _bookmarks(context: Context, text: str) -> list[Line]:
    """Bookmarks."""
    return bookmark_lines(context)


def _life(context: Context, text: str) -> list[Line]:
    """The seven steps of a tensor's life, from its allocation to the host's reading it."""
    from npudbg.render.life import life_lines

    record = references.tensor(context, text or "out").record
    return life_lines(context.session, record, context.width, target=context.target)


def _display(context: Context, text: str) -> list[Line]:
    """What is shown at every stop."""
    return display_lines(context) or [line(("nothing is displayed", "dim"))]


TOPICS: dict[str, Run] = {
    "registers": info_run.registers,
    "nodes": info_graph.nodes,
    "node": info_graph.node,
    "tensors": info_graph.tensors,
    "tensor": info_graph.tensor,
    "commands": info_graph.commands,
    "command": info_graph.command,
    "dma": dma,
    "breakpoints": _stops,
    "watchpoints": _stops,
    "findings": info_run.findings,
    "engines": info_run.engines,
    "counters": info_run.counters,
    "memory": info_run.memory,
    "life": _life,
    "display": _display,
    "bookmarks": _bookmarks,
    "sessions": session_list,
}
"""What there is information about."""
_SHORT = {"b": "breakpoints", "break": "breakpoints", "r": "registers", "t": "tensor",
          "n": "node", "f": "findings", "c": "command", "m": "memory"}  # fmt: skip


def info(context: Context, text: str) -> list[Line]:
    """Show a topic, by its name or a beginning of it."""
    word, _, rest = text.partition(" ")
    if not word:
        return [
            line((f"info {name:<12} ", "key"), (run.__doc__ or "").strip().splitlines()[0])
            for name, run in TOPICS.items()
        ]
    word = _SHORT.get(word, word)
    if word in TOPICS:
        return TOPICS[word](context, rest.strip())
    found = [name for name in TOPICS if name.startswith(word)]
    # Of `node` and `nodes` the plural is meant: it needs no name.
    if len({TOPICS[name].__module__ + name.rstrip("s") for name in found}) == 1:
        return TOPICS[found[0]](context, rest.strip())
    if found:
        raise DebuggerError(f"info {safe(word, 20)} can be {', '.join(found)}")
    raise DebuggerError(f"no info on {safe(word, 30)}; there is {', '.join(TOPICS)}")


def _complete(context: Context, start: str) -> list[str]:
    word, space, rest = start.partition(" ")
    if not space:
        return completed(TOPICS, word)
    if word in ("tensor", "tensors", "life"):
        return [f"{word} {name}" for name in tensors(context, rest)]
    if word in ("node", "nodes", "commands"):
        return [f"{word} {name}" for name in places(context, rest)]
    return []


VERBS = (
    Verb(
        "info",
        info,
        "info TOPIC [WHAT]",
        "what there is to know; info alone lists topics",
        "Looking",
        ("i",),
        complete=_complete,
    ),
)
