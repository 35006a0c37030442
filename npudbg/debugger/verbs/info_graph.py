"""info about the graph: nodes, tensors, commands."""

from __future__ import annotations

import numpy as np

from npudbg.debugger import references, words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.locations import commands_of
from npudbg.debugger.verbs.info_dma import conflict_lines, descriptor_lines
from npudbg.debugger.verbs.listing import command_lines
from npudbg.debugger.verbs.tracing import dirty
from npudbg.session.commands import kind_name, space_name
from npudbg.session.lines import Line, Style, line
from npudbg.session.records import NodeRecord, Subject, TensorRecord
from npudbg.session.text import safe

_MOST = 200


def nodes(context: Context, text: str) -> list[Line]:
    """All nodes; with a text, those whose name or operator holds it."""
    wanted = text.lower()
    found = [
        n for n in context.session.nodes
        if wanted in n.label.lower() or wanted == n.op_type.lower()
    ]  # fmt: skip
    here = context.cursor.node(context.cursor.seq) if context.cursor.last >= 0 else None
    lines = [_node_line(n, "> " if here is not None and n.index == here.index else "  ")
             for n in found[:_MOST]]  # fmt: skip
    return _more(lines, len(found), "nodes")


def _node_line(node: NodeRecord, mark: str) -> Line:
    span = f"{node.first_seq}..{node.last_seq}" if node.first_seq >= 0 else "-"
    bad = node.status not in ("ok", "")
    return line(
        (mark, "current"),
        (f"{node.index:>5} ", "number"),
        f"{safe(node.op_type, 20):<18} {safe(node.engine, 5):<5} {span:>15}  ",
        safe(node.label, 60),
        (f"  {safe(node.status, 12)}" if bad else "", "error"),
        subject=Subject(kind="node", name=safe(node.label), node=node.index),
    )


def node(context: Context, text: str) -> list[Line]:
    """One node: the cursor's, or by name."""
    record = references.node(context, text)
    bad: Style = "ok" if record.status == "ok" else "error"
    lines = [
        line(
            (
                f"node {record.index} {safe(record.op_type, 24)} {safe(record.label, 100)}  ",
                "title",
            ),
            (safe(record.status, 16), bad),
            subject=Subject(kind="node", name=safe(record.label), node=record.index),
        ),
        line(
            f"  kernel {safe(record.kernel or '-', 24)} on {safe(record.engine, 12)}, "
            f"{record.tiles} tiles, {record.macs:,} MAC, "
            f"cycles {record.start:,}..{record.end:,}",
            (f"  {context.origin}", "dim"),
        ),
    ]
    if record.first_seq >= 0:
        own = commands_of(context, record.index)
        text = f"  commands {record.first_seq}..{record.last_seq}, {len(own):,} of its own"
        fused = [n.index for n in context.session.nodes
                 if n.first_seq == record.first_seq and n.index != record.index]  # fmt: skip
        text += f"; fused with node {', '.join(map(str, fused[:8]))}" if fused else ""
        lines.append(line(text))
    if record.note:
        lines.append(line(f"  {safe(record.note, 200)}"))
    for name, value in list(record.attributes.items())[:20]:
        lines.append(line(("  attribute ", "dim"), f"{safe(name, 40)} = {safe(value, 80)}"))
    for word, ids in (("reads", record.inputs), ("makes", record.outputs)):
        for number in ids[:32]:
            if 0 <= number < len(context.session.tensors):
                each = context.session.tensors[number]
                lines.append(line((f"  {word} ", "dim"), *_tensor_line(each, "").spans,
                                  subject=words.tensor_subject(each)))  # fmt: skip
    return lines


def tensors(context: Context, text: str) -> list[Line]:
    """All tensors; with a text, those whose name or role holds it."""
    wanted = text.lower()
    found = [t for t in context.session.tensors if wanted in t.name.lower() or wanted == t.role]
    current = context.current_tensor()
    lines = [_tensor_line(t, "> " if t.id == current else "  ") for t in found[:_MOST]]
    return _more(lines, len(found), "tensors")


def _tensor_line(record: TensorRecord, mark: str) -> Line:
    return line(
        (mark, "current"),
        (f"{record.id:>5} ", "number"),
        f"{record.role:<10} {safe(record.dtype, 10):<8} {words.shape(record):>16}  "
        f"{safe(record.name, 60)}",
        ("  dirty" if dirty(record) else "", "error"),
        subject=words.tensor_subject(record),
    )


def tensor(context: Context, text: str) -> list[Line]:
    """One tensor: what it is, where it lies, how much of it is made at the cursor."""
    record = references.tensor(context, text or "out").record
    stats: Style = "error" if dirty(record) else "dim"
    lines = [
        line(
            (f"tensor {record.id} {safe(record.name, 100)}", "title"),
            f"  {record.role} {safe(record.dtype, 16)} {words.shape(record)}",
            subject=words.tensor_subject(record),
        ),
        line(f"  at {words.place(record)}, strides {record.strides}, offset {record.offset} B, "
             f"owner {safe(record.owner, 24)}"),
        line((f"  final values ({record.origin}): {words.stats(record.stats)}", stats)),
    ]  # fmt: skip
    if record.layout:
        lines.append(line(f"  layout {safe(record.layout, 24)}"))
    if record.quantization is not None:
        shown = record.quantization
        lines.append(line(f"  scale {shown.scale[:4]} zero point {shown.zero_point[:4]}"))
    if 0 <= record.producer < len(context.session.nodes):
        lines.append(line(("  made by ", "dim"), *_node_line(
            context.session.nodes[record.producer], "").spans))  # fmt: skip
    for number in record.consumers[:16]:
        if 0 <= number < len(context.session.nodes):
            lines.append(line(("  read by ", "dim"), *_node_line(
                context.session.nodes[number], "").spans))  # fmt: skip
    if record.blob is not None and context.state.written.layout(record.id) is not None:
        made = context.tensors.tensor_at(record.id, context.seq).written
        count = int(np.count_nonzero(made))
        when = f"after command {context.seq}" if context.cursor.last >= 0 else "in the record"
        lines.append(line(f"  {when}: {count:,} of {made.size:,} elements written"))
    elif record.value:
        lines.append(line(f"  value {safe(record.value, 120)}"))
    return lines


def commands(context: Context, text: str) -> list[Line]:
    """Commands around the cursor; with a node, that node's."""
    context.cursor.require()
    if not text:
        return command_lines(context, max(context.cursor.seq - 10, 0), 21)
    record = references.node(context, text)
    seqs = commands_of(context, record.index)
    lines = [words.command(context, context.row(int(seq))) for seq in seqs[:_MOST]]
    return _more(lines, len(seqs), "commands")


def command(context: Context, text: str) -> list[Line]:
    """One command: all its columns, and what it read."""
    seq = references.integer(text, "command") if text else context.cursor.seq
    context.cursor.require()
    if not 0 <= seq <= context.cursor.last:
        raise DebuggerError(f"no command {seq}; there are 0 to {context.cursor.last}")
    row = context.row(seq)
    lines = [
        line((f"command {seq} {kind_name(int(row['kind']))}", "title"),
             subject=words.subject(context, row)),
        words.command(context, row, "  "),
        line(
            f"  cycles {int(row['start']):,}..{int(row['end']):,} "
            f"({int(row['end']) - int(row['start']):,} cyc), tile {int(row['tile'])}, "
            f"node {int(row['node'])}",
            (f"  {context.origin}", "dim"),
        ),
        *descriptor_lines(context, row),
        *conflict_lines(context, row),
    ]  # fmt: skip
    for read in context.session.accesses(seq, seq + 1)[:32]:
        by = int(read["by"])
        who = f"put there by command {by}" if by >= 0 else "there from the start"
        number = int(read["tensor"])
        known = 0 <= number < len(context.session.tensors)
        name = safe(context.session.tensors[number].name, 48) if known else ""
        operand = f"in{int(read['operand'])}" if int(read["operand"]) >= 0 else "reads"
        lines.append(
            line(
                (f"  {operand:<5} ", "key"),
                (f"{space_name(int(read['space']))}:{words.address(int(read['addr']))}", "address"),
                f" {words.nbytes(int(read['nbytes']))} {name}, {who}",
                subject=Subject(kind="command", seq=by) if by >= 0 else None,
            )
        )
    for seen, operand_number in context.session.observations:
        if seen == seq:
            lines.append(
                line((f"  in{operand_number} held bytes that no command had written", "error"))
            )
    return lines


def _more(lines: list[Line], count: int, what: str) -> list[Line]:
    if count > len(lines):
        lines.append(line((f"… {count - len(lines):,} more; info {what} TEXT narrows", "dim")))
    return lines or [line((f"no {what}", "dim"))]
