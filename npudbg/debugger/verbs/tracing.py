"""From a tensor to what it was made of: bt, up, down."""

from __future__ import annotations

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.registry import Verb
from npudbg.debugger.verbs.moving import count_of
from npudbg.debugger.verbs.stops import tensors
from npudbg.session.lines import Line, Style, line
from npudbg.session.records import TensorRecord
from npudbg.session.text import safe

_GROUP = "Looking"
_MOST = 200


def dirty(record: TensorRecord) -> bool:
    """Whether a tensor holds NaN or Inf."""
    return record.stats is not None and record.stats.nonfinite > 0


def operands(context: Context, record: TensorRecord) -> list[TensorRecord]:
    """Return what a tensor's node read: dirty ones first, then by their place."""
    nodes, known = context.session.nodes, context.session.tensors
    if not 0 <= record.producer < len(nodes):
        return []
    ids = [t for t in nodes[record.producer].inputs if 0 <= t < len(known) and t != record.id]
    found = [known[t] for t in dict.fromkeys(ids)]
    return sorted(found, key=lambda t: (not dirty(t), t.role in ("weight", "constant")))


def chain(context: Context, start: TensorRecord, most: int = _MOST) -> list[TensorRecord]:
    """Return a tensor and its makers up to an input: the dirty operand wherever one is."""
    found, seen = [start], {start.id}
    while len(found) < most:
        above = [t for t in operands(context, found[-1]) if t.id not in seen]
        if not above:
            break
        found.append(above[0])
        seen.add(above[0].id)
    return found


def _bt(context: Context, text: str) -> list[Line]:
    most, word = _MOST, text
    if text.isascii() and text.isdigit():
        most, word = max(references.integer(text, "how many"), 1), ""
    record = _tensor(context, word)
    found = chain(context, record, min(most, _MOST))
    lines: list[Line] = []
    for number, each in enumerate(found):
        lines += _frame(context, number, each, found[number + 1 : number + 2])
    origin = next((t for t in reversed(found) if dirty(t)), None)
    if origin is not None:
        clean = all(not dirty(t) for t in operands(context, origin))
        where = _made_by(context, origin)
        text = "clean in, dirty out: it begins at" if clean else "the furthest dirty one is"
        lines.append(line((f"{text} {where}", "error"), subject=words.tensor_subject(origin)))
    return lines


def _frame(
    context: Context, number: int, record: TensorRecord, next_: list[TensorRecord]
) -> list[Line]:
    style: Style = "error" if dirty(record) else "ok" if record.stats is not None else "dim"
    state = "dirty" if dirty(record) else "clean" if record.stats is not None else "not scanned"
    lines = [
        line(
            (f"#{number:<3}", "number"),
            f"{safe(record.name, 48)} {words.shape(record)} {safe(record.dtype, 12)}  ",
            (state, style),
            (f"  {words.stats(record.stats)}", "dim"),
            subject=words.tensor_subject(record),
        ),
        line(f"      {_made_by(context, record)}"),
    ]
    follows = {t.id for t in next_}
    for other in operands(context, record):
        if other.id not in follows:
            word = (
                "dirty" if dirty(other) else "clean" if other.stats is not None else "not scanned"
            )
            lines.append(
                line(
                    (f"      also reads {other.role} {safe(other.name, 40)}: ", "dim"),
                    (word, "error" if dirty(other) else "dim"),
                    subject=words.tensor_subject(other),
                )
            )
    return lines


def _made_by(context: Context, record: TensorRecord) -> str:
    nodes = context.session.nodes
    if not 0 <= record.producer < len(nodes):
        return f"{record.role} of the model"
    node = nodes[record.producer]
    text = f"node {node.index} {safe(node.op_type, 24)} {safe(node.label, 48)}"
    if node.first_seq >= 0:
        return f"{text}, commands {node.first_seq}..{node.last_seq}"
    return f"{text} ({safe(node.kernel or node.status, 16)})"


def _tensor(context: Context, text: str) -> TensorRecord:
    if text:
        return references.tensor(context, text).record
    number = context.current_tensor()
    if number < 0:
        raise DebuggerError("the command at the cursor is of no tensor; name one")
    return context.session.tensors[number]


def _up(context: Context, text: str) -> list[Line]:
    for _ in range(min(count_of(text), _MOST)):
        record = _tensor(context, "")
        above = [t for t in operands(context, record) if t.id not in context.frame]
        if not above:
            raise DebuggerError(
                f"{safe(record.name, 60)} is made of nothing further: {record.role}"
            )
        if not context.frame:
            context.frame.append(record.id)
        context.frame.append(above[0].id)
        if len(context.frame) > _MOST:
            break
    return _shown(context)


def _down(context: Context, text: str) -> list[Line]:
    for _ in range(min(count_of(text), _MOST)):
        if len(context.frame) < 2:
            context.frame.clear()
            raise DebuggerError("already at the tensor of the cursor's command")
        context.frame.pop()
    return _shown(context)


def _shown(context: Context) -> list[Line]:
    record = context.session.tensors[context.frame[-1]]
    return _frame(context, len(context.frame) - 1, record, operands(context, record)[:1])


VERBS = (
    Verb(
        "backtrace",
        _bt,
        "backtrace [TENSOR | N]",
        "what a tensor was made of, up to an input",
        _GROUP,
        ("bt",),
        complete=tensors,
        more=("The dirty operand (NaN, Inf) is followed where there is one.",),
    ),
    Verb("up", _up, "up [N]", "to the operand that bt follows", _GROUP, (), True),
    Verb("down", _down, "down [N]", "back towards the cursor's tensor", _GROUP, (), True),
)
