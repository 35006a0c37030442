"""Lists of commands, and searching."""

from __future__ import annotations

import bisect

import numpy as np

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.locations import locate
from npudbg.debugger.registry import Verb
from npudbg.debugger.verbs.moving import places
from npudbg.session.commands import Kind
from npudbg.session.lines import Line, line
from npudbg.session.records import Subject
from npudbg.session.text import safe

_GROUP = "Looking"
_LISTED = 11
_MOST = 20


def command_lines(context: Context, low: int, count: int) -> list[Line]:
    """Return commands as lines, the cursor's marked."""
    cursor = context.cursor.seq
    return [
        words.command(context, row, "> " if int(row["seq"]) == cursor else "  ")
        for row in context.session.commands(low, low + count)
    ]


def list_commands(context: Context, text: str) -> list[Line]:
    """List commands: around the cursor, further on, or around a place."""
    context.cursor.require()
    if text:
        seq = locate(context, text, conditional=False).seq
        if seq < 0:
            raise DebuggerError(f"{safe(text, 40)}: stands for many commands; name one")
        low = max(seq - _LISTED // 2, 0)
    elif context.listed is not None:
        low = context.listed
    else:
        low = max(context.cursor.seq - _LISTED // 2, 0)
    if low > context.cursor.last:
        raise DebuggerError(f"the last command is {context.cursor.last}")
    context.listed = low + _LISTED
    return command_lines(context, low, _LISTED)


def _find(context: Context, text: str) -> list[Line]:
    if not text:
        raise DebuggerError(
            "find what? a part of a node's or tensor's name, an operator, an address"
        )
    wanted = text.lower()
    session = context.session
    nodes = [n for n in session.nodes if wanted in n.label.lower() or wanted == n.op_type.lower()]
    tensors = [t for t in session.tensors if wanted in t.name.lower()]
    lines = []
    for node in nodes[:_MOST]:
        span = (
            f"commands {node.first_seq}..{node.last_seq}" if node.first_seq >= 0 else "no commands"
        )
        lines.append(
            line(
                (f"node {node.index:>5}  ", "key"),
                f"{safe(node.op_type, 20)} {safe(node.label, 60)}  {span}",
                subject=Subject(kind="node", name=safe(node.label), node=node.index),
            )
        )
    for tensor in tensors[:_MOST]:
        lines.append(
            line(
                (f"tensor {tensor.id:>3}  ", "key"),
                f"{safe(tensor.name, 60)} {words.shape(tensor)} ",
                f"{safe(tensor.dtype, 12)} {tensor.role}",
                subject=words.tensor_subject(tensor),
            )
        )
    for count in (len(nodes) - _MOST, len(tensors) - _MOST):
        if count > 0:
            lines.append(line((f"… {count:,} more", "dim")))
    hit = _next_command(context, wanted, {n.index for n in nodes}, {t.id for t in tensors})
    if hit is not None:
        lines += [line(("next command:", "dim")), words.command(context, context.row(hit))]
    return lines or [line((f"nothing is called {safe(text, 60)}", "warn"))]


def _next_command(context: Context, wanted: str, nodes: set[int], tensors: set[int]) -> int | None:
    """Return the next command after the cursor that is meant."""
    session, cursor = context.session, context.cursor
    kinds = [int(k) for k in Kind if wanted in k.name.lower()]
    engines = [i for i, name in enumerate(session.meta.engines) if name.lower() == wanted]
    where = None
    if wanted[:1].isdigit() or ":" in wanted:
        where = references.address(context, wanted)
    if cursor.last < 0 or not (nodes or tensors or kinds or engines or where):
        return None
    first = bisect.bisect_right(session.chunk_starts, cursor.seq + 1) - 1
    for at in range(max(first, 0), len(session.chunk_starts)):
        rows = session.chunk(at)
        hit = np.isin(rows["node"], list(nodes)) | np.isin(rows["tensor"], list(tensors))
        hit |= np.isin(rows["kind"], kinds) | np.isin(rows["engine"], engines)
        if where is not None:
            inside = (rows["dst"] < where.low + where.nbytes) & (rows["dst_space"] == where.space)
            hit |= inside & (rows["dst"] + rows["nbytes"] > where.low)
        found = np.flatnonzero(hit & (rows["seq"] > cursor.seq))
        if len(found):
            return int(rows["seq"][found[0]])
    return None


VERBS = (
    Verb(
        "list",
        list_commands,
        "list [LOCATION]",
        "commands around the cursor or a place",
        _GROUP,
        ("l",),
        True,
        complete=places,
    ),
    Verb(
        "find",
        _find,
        "find TEXT",
        "nodes, tensors and the next command of that name",
        _GROUP,
        ("search",),
        complete=places,
    ),
)
