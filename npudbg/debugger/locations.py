"""Where a breakpoint stands: from ``conv1 if nan(out)`` to something that finds commands."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from npudbg.debugger import references
from npudbg.debugger.breakpoints import At, Column, Location, Matcher
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions import parse
from npudbg.debugger.expressions.tree import Node
from npudbg.debugger.touching import Touching
from npudbg.session.commands import Kind
from npudbg.session.memory.geometry import Ints
from npudbg.session.reader import Session
from npudbg.session.records import Finding
from npudbg.session.text import safe

_IF = re.compile(r"(?:^|\s)if(?=[\s(]|$)")
_MOST_OF_AN_OPERATOR = 100_000
_NUMBERED = "command"
"""Place of a location that is a command by number: another session may number it otherwise."""


def split_condition(text: str) -> tuple[str, str]:
    """Split ``LOCATION if CONDITION``; either may be left out.

    Raises:
        DebuggerError: Nothing follows the ``if``.
    """
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            match = _IF.match(text, at)
            if match is not None:
                test = text[match.end() :].strip()
                if not test:
                    raise DebuggerError("expected an expression after if, as in: b n if nan(out)")
                return text[:at].strip(), test
    return text.strip(), ""


def condition(text: str) -> Node:
    """Return the tree of a condition.

    Raises:
        DebuggerError: It is no expression.
    """
    return parse(text)


def locate(context: Context, text: str, *, conditional: bool) -> Location:
    """Return what a breakpoint's words mean.

    A node, operator or tensor stops where its work begins; with a condition, at each of
    its commands for which the condition holds.

    Raises:
        DebuggerError: Nothing here has that name, or it has no commands.
    """
    context.cursor.require()
    if not text:
        if conditional:
            return Location("every command", Column())
        return _command(context, str(context.cursor.seq), conditional)
    word, _, rest = text.partition(" ")
    named = _FORMS.get(word.lower())
    if named is not None and rest.strip():
        return named(context, rest.strip(), conditional)
    if text.isascii() and text.isdigit():
        return _command(context, text, conditional)
    if text.startswith("*") or ":" in text or text[:2].lower() == "0x":
        where = references.address(context, text)
        if where is not None:
            return _range(context, where)
    return _bare(context, text, conditional)


def again(
    context: Context, location: Location, text: str, *, conditional: bool
) -> Callable[[Context], Location]:
    """Return what finds a location in another session that is open.

    Args:
        context: Where it was found.
        location: What was found.
        text: The words that meant it.
        conditional: As for :func:`locate`.
    """

    def named(other: Context) -> Location:
        return locate(other, location.place or text, conditional=conditional)

    def numbered(other: Context) -> Location:
        seq = other.sessions.alike(context.session, other.session).counterpart(location.seq)
        if seq is None:
            raise DebuggerError(f"no command does what {location.seq} did")
        return _command(other, str(seq), conditional)

    return numbered if location.place == _NUMBERED else named


def _bare(context: Context, text: str, conditional: bool) -> Location:
    session, word = context.session, text.strip("\"'")
    if session.node(word) is not None:
        return _node(context, word, conditional)
    if any(n.op_type == word for n in session.nodes):
        return _operator(context, word, conditional)
    if session.tensor(word) is not None:
        return _tensor(context, word, conditional)
    if word.upper() in Kind.__members__:
        return _kind(context, word, conditional)
    if word in session.meta.engines:
        return _engine(context, word, conditional)
    if _finding_of(context, word) is not None:
        return _finding(context, word, conditional)
    known = [
        *(n.label for n in session.nodes[:3000]),
        *sorted({n.op_type for n in session.nodes}),
        *(t.name for t in session.tensors[:3000]),
        *Kind.__members__,
        *session.meta.engines,
    ]
    raise references.unknown("node", word, known)


def _command(context: Context, text: str, conditional: bool) -> Location:
    seq = references.integer(text, "command")
    if not 0 <= seq <= context.cursor.last:
        raise DebuggerError(f"no command {seq}; there are 0 to {context.cursor.last}")
    return Location(f"command {seq}", At([seq]), seq=seq, place=_NUMBERED)


def _node(context: Context, text: str, conditional: bool) -> Location:
    record = references.node(context, text)
    seqs = commands_of(context, record.index)
    if not len(seqs):
        why = record.kernel or record.status
        raise DebuggerError(f"node {safe(record.label, 60)} has no commands ({safe(why, 24)})")
    name = f"node {record.index} {safe(record.label, 60)}"
    matcher = At(seqs if conditional else seqs[:1])
    return Location(name, matcher, record.index, int(seqs[0]), f"node {record.label}")


def _operator(context: Context, text: str, conditional: bool) -> Location:
    word = text.strip("\"'")
    nodes = [n for n in context.session.nodes if n.op_type.lower() == word.lower()]
    if not nodes:
        raise references.unknown("node", word, {n.op_type for n in context.session.nodes})
    if conditional:
        matcher: Matcher = Column("node", [n.index for n in nodes])
    else:
        firsts = [s[:1] for n in nodes[:_MOST_OF_AN_OPERATOR]
                  if len(s := commands_of(context, n.index))]  # fmt: skip
        if not firsts:
            raise DebuggerError(f"no node {safe(word, 40)} has commands: all were folded or views")
        matcher = At(np.concatenate(firsts))
    name = safe(nodes[0].op_type, 40)
    return Location(f"operator {name} ({len(nodes)} nodes)", matcher)


def _tensor(context: Context, text: str, conditional: bool) -> Location:
    ref = references.tensor(context, text)
    rows = context.tensors.rows(context.tensors.root(ref.record.id))
    if not len(rows):
        raise DebuggerError(
            f"no command writes tensor {ref.text} (role {ref.record.role}); "
            "rwatch stops where it is read"
        )
    seqs = rows["seq"]
    matcher = At(seqs if conditional else seqs[:1])
    place = f"tensor {ref.record.name}{ref.suffix}"
    return Location(f"tensor {ref.text}", matcher, seq=int(seqs[0]), place=place)


def _kind(context: Context, text: str, conditional: bool) -> Location:
    name = {"LOAD": "DMA_LOAD", "STORE": "DMA_STORE"}.get(text.upper(), text.upper())
    if name not in Kind.__members__:
        raise DebuggerError(f"no kind {safe(text, 30)}; there are {', '.join(Kind.__members__)}")
    return Location(f"kind {name}", Column("kind", [int(Kind[name])]))


def _engine(context: Context, text: str, conditional: bool) -> Location:
    engines = context.session.meta.engines
    if text not in engines:
        raise DebuggerError(f"no engine {safe(text, 30)}; there are {', '.join(engines)}")
    return Location(f"engine {text}", Column("engine", [engines.index(text)]))


def _address(context: Context, text: str, conditional: bool) -> Location:
    where = references.address(context, text)
    if where is None:
        raise DebuggerError(
            f"{safe(text, 40)}: expected an address such as sram:0x100, 0x40000000+64"
        )
    return _range(context, where)


def _range(context: Context, where: references.Range) -> Location:
    return Location(f"access to {where.text}", Touching(context, where, reads=True, writes=True))


def _cycle(context: Context, text: str, conditional: bool) -> Location:
    seq = context.cursor.at_cycle(references.integer(text, "cycle"))
    return Location(f"command {seq}, at cycle {safe(text, 24)}", At([seq]), seq=seq)


def _finding(context: Context, text: str, conditional: bool) -> Location:
    finding = _finding_of(context, text)
    if finding is None:
        codes = sorted({f.code for f in context.session.findings})
        raise DebuggerError(f"no finding {safe(text, 30)}; there are {', '.join(codes) or 'none'}")
    seq = finding_seq(context, finding)
    if seq < 0:
        raise DebuggerError(f"finding {safe(finding.code, 12)} points at no command")
    name = f"finding {safe(finding.code, 12)}"
    return Location(name, At([seq]), seq=seq, place=f"finding {finding.code}")


def _finding_of(context: Context, text: str) -> Finding | None:
    findings = context.session.findings
    number = text.lstrip("#")
    if text.startswith("#") and number.isascii() and number.isdigit() and len(number) < 9:
        return findings[int(number)] if int(number) < len(findings) else None
    return next((f for f in findings if f.code.lower() == text.lower()), None)


def finding_seq(context: Context, finding: Finding) -> int:
    """Return the command that a finding points at, or -1."""
    for subject in (finding.subject, *finding.related):
        if subject.seq is not None and 0 <= subject.seq <= context.cursor.last:
            return subject.seq
    subject = finding.subject
    if subject.tensor is not None and 0 <= subject.tensor < len(context.session.tensors):
        rows = context.tensors.rows(context.tensors.root(subject.tensor))
        if len(rows):
            return int(rows["seq"][0])
        loaded = first_load(context.session, subject.tensor)
        if loaded >= 0:
            return loaded
    if subject.node is not None and 0 <= subject.node < len(context.session.nodes):
        seqs = commands_of(context, subject.node)
        if len(seqs):
            return int(seqs[0])
    return -1


def first_load(session: Session, number: int) -> int:
    """Return the first command that brings a tensor to a kernel, or -1.

    A weight is there from the start: what matters is where it is first read.
    """
    for consumer in session.tensors[number].consumers:
        node = session.nodes[consumer] if consumer < len(session.nodes) else None
        if node is None or node.first_seq < 0:
            continue
        rows = session.commands(node.first_seq, node.last_seq + 1)
        seqs = rows["seq"][(rows["kind"] == Kind.DMA_LOAD) & (rows["tensor"] == number)]
        if len(seqs):
            return int(seqs[0])
    return -1


def commands_of(context: Context, node: int) -> Ints:
    """Return the commands of a node, ascending."""
    record = context.session.nodes[node]
    if record.first_seq < 0:
        return np.empty(0, np.int64)
    rows = context.session.commands(record.first_seq, record.last_seq + 1)
    return np.asarray(rows["seq"][rows["node"] == node], np.int64)


Form = Callable[[Context, str, bool], Location]
_FORMS: dict[str, Form] = {
    "node": _node,
    "op": _operator,
    "operator": _operator,
    "tensor": _tensor,
    "kind": _kind,
    "engine": _engine,
    "addr": _address,
    "address": _address,
    "seq": _command,
    "command": _command,
    "cycle": _cycle,
    "finding": _finding,
}
FORMS = tuple(_FORMS)
"""The words that say what follows."""
