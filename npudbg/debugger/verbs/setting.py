"""`set`: bytes, tensors, precisions and faults changed in a run that is done again."""

from __future__ import annotations

from dataclasses import replace

from npudbg.debugger import references
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.registry import Verb, completed
from npudbg.session.commands import Space, space_name
from npudbg.session.lines import Line, line
from npudbg.session.rerun import Changes, Poke
from npudbg.session.text import safe

_USAGE = "set ADDR = BYTES | tensor T = FILE | precision NODE fp32 | fault SPEC | nofault [SPEC]"
_WORDS = ("clear", "fault", "nofault", "precision", "tensor")


def _set(context: Context, text: str) -> list[Line]:
    if not text:
        return _listed(context.changes)
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    if text == "clear":
        context.changes = Changes()
        return [line("no changes; the next set starts from the run as it was recorded")]
    if word == "tensor":
        changes = _tensor(context, rest)
    elif word == "precision":
        changes = _precision(context, rest)
    elif word == "fault":
        changes = _fault(context, rest)
    elif word == "nofault":
        changes = _no_fault(context, rest or "all")
    else:
        changes = _poke(context, text)
    if context.forker is None:
        raise DebuggerError(
            "nothing here can run the device again; see npudbg fork for a saved session"
        )
    forked = context.forker(changes)
    context.changes = changes
    return [
        *_listed(changes),
        *forked.lines,
        line(("session: ", "dim"), safe(forked.path, 300)),
        line(("open it with npudbg replay; set clear forgets the changes", "dim")),
    ]


def _poke(context: Context, text: str) -> Changes:
    """Return the changes with bytes written after the command at the cursor."""
    from npudbg.session.pokes import parse_data

    place, equals, data_text = text.partition("=")
    where = references.address(context, place.strip()) if equals else None
    if where is None:
        raise DebuggerError(f"set what? {_USAGE}")
    context.cursor.require()
    if where.space not in (Space.SRAM, Space.DDR):
        raise DebuggerError("only sram and ddr can be changed; set tensor changes an input")
    data, flip = parse_data(data_text)
    if where.sized and where.nbytes != len(data):
        raise DebuggerError(f"{len(data)} bytes for a range of {where.nbytes}")
    poke = Poke(
        after=context.cursor.seq,
        space="sram" if space_name(where.space) == "sram" else "ddr",
        address=where.low,
        data=data,
        flip=flip,
    )
    return replace(context.changes, pokes=(*context.changes.pokes, poke))


def _tensor(context: Context, text: str) -> Changes:
    from npudbg.graph.feeds import read_feed

    name, equals, file = (part.strip() for part in text.rpartition("="))
    if not (name and equals and file):
        raise DebuggerError("expected set tensor NAME = FILE.npy")
    ref = references.tensor(context, name)
    if ref.selection:
        raise DebuggerError("only a whole tensor can be replaced; set ADDR = BYTES changes a part")
    arrays = [array for _, array in read_feed(file.strip("\"'"))]
    if len(arrays) != 1:
        raise DebuggerError(f"{safe(file, 80)}: holds {len(arrays)} arrays; expected one")
    # The device's copy of an input has the input's values.
    base = ref.record.name.removesuffix("@ddr")
    known = base if context.session.tensor(base) is not None else ref.record.name
    return replace(context.changes, replace={**context.changes.replace, known: arrays[0]})


def _precision(context: Context, text: str) -> Changes:
    name, _, wanted = text.rpartition(" ")
    if wanted != "fp32" or not name.strip():
        raise DebuggerError(
            "expected set precision NODE fp32: a node's results are kept in the model's own type"
        )
    record = references.node(context, name)
    return replace(context.changes, raised=context.changes.raised | {record.label})


def _fault(context: Context, text: str) -> Changes:
    if not text:
        raise DebuggerError("set fault what? as --fault takes it: dropped-dma:tensor=conv1")
    before = context.changes
    return replace(
        before,
        faults=(*before.faults, text),
        without=tuple(w for w in before.without if w != text),
    )


def _no_fault(context: Context, spec: str) -> Changes:
    """Return the changes without a fault: of these changes, else of the recorded run."""
    before = context.changes
    left = tuple(f for f in before.faults if spec not in ("all", f, f.partition(":")[0].strip()))
    if len(left) < len(before.faults) and spec != "all":
        return replace(before, faults=left)
    return replace(before, faults=left, without=tuple(dict.fromkeys((*before.without, spec))))


def _listed(changes: Changes) -> list[Line]:
    found = [
        line(
            (f"  {p.space}:{p.address:#010x} ", "address"),
            f"{'^' if p.flip else ''}= {safe(p.data[:16].hex(' '), 60)}"
            f"{' …' if len(p.data) > 16 else ''} after command {p.after}",
        )
        for p in changes.pokes
    ]
    found += [line(f"  tensor {safe(n, 60)} = values of a file") for n in changes.replace]
    found += [line(f"  precision {safe(n, 60)} fp32") for n in sorted(changes.raised)]
    found += [line(f"  fault {safe(spec, 100)}") for spec in changes.faults]
    found += [line(f"  nofault {safe(spec, 100)}") for spec in changes.without]
    title = "changes to the recorded run" if found else "no changes to the recorded run"
    return [line((title, "title")), *found]


VERBS = (
    Verb(
        "set",
        _set,
        _USAGE,
        "do the run again with something changed, into a session of its own",
        "Changing",
        complete=lambda _, start: completed(_WORDS, start),
        more=(
            "BYTES go after the command at the cursor: 01 02, f32:nan, f16:1.5,2; ^80 flips bits",
            "Changes add up: set alone lists them, set clear forgets them.",
            "npudbg compare shows the two sessions side by side.",
        ),
    ),
)
