"""`set`: bytes, tensors, precisions and faults changed in a run that is done again."""

from __future__ import annotations

from npudbg.debugger import changed, references
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.registry import Verb, completed
from npudbg.debugger.verbs.sessions import arrived
from npudbg.debugger.verbs.stops import tensors
from npudbg.session.commands import Space, space_name
from npudbg.session.lines import Line, line
from npudbg.session.rerun import Changes, Poke
from npudbg.session.text import safe

_USAGE = "set ADDR = BYTES | tensor T = FILE | precision NODE fp32 | fault SPEC | nofault [SPEC]"
_WORDS = ("clear", "fault", "nofault", "precision", "tensor")


def asked(context: Context, text: str) -> Changes | None:
    """Return what a ``set`` changes; None if it makes no run.

    Raises:
        DebuggerError: It cannot be understood.
        UserError: A file that it names cannot be read.
    """
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    if not text or text == "clear":
        return None
    if word == "tensor":
        return _tensor(context, rest)
    if word == "precision":
        return _precision(context, rest)
    if word == "fault":
        if not rest:
            raise DebuggerError("set fault what? as --fault takes it: dropped-dma:tensor=conv1")
        return Changes(faults=(rest,))
    if word == "nofault":
        return Changes(without=(rest or "all",))
    return _poke(context, text)


def _set(context: Context, text: str) -> list[Line]:
    changes = asked(context, text)
    sessions = context.sessions
    if changes is not None:
        rerun = sessions.rerun(changes)
        forked = rerun.run()
        return arrived(sessions, sessions.adopt(rerun, forked), forked.lines)
    if text != "clear":
        return _listed(context)
    if sessions.current.number == 1:
        return [line("no changes; the next set starts from the run as it was recorded")]
    return arrived(sessions, sessions.go(1))


def _poke(context: Context, text: str) -> Changes:
    """Return the change of bytes after the command at the cursor."""
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
    return Changes(pokes=(poke,))


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
    return Changes(replace={known: arrays[0]})


def _precision(context: Context, text: str) -> Changes:
    name, _, wanted = text.rpartition(" ")
    if wanted != "fp32" or not name.strip():
        raise DebuggerError(
            "expected set precision NODE fp32: a node's results are kept in the model's own type"
        )
    return Changes(raised=frozenset({references.node(context, name).label}))


def _listed(context: Context) -> list[Line]:
    chain = context.sessions.changes()
    found = [line(f"  {each}") for _, changes in chain for each in changed.words(changes)]
    title = "changes to the recorded run" if found else "no changes to the recorded run"
    return [line((title, "title")), *found]


def _complete(context: Context, start: str) -> list[str]:
    word, space, rest = start.partition(" ")
    if not space:
        return completed(_WORDS, start)
    if word == "tensor" and "=" not in rest:
        return [f"{word} {name}" for name in tensors(context, rest)]
    if word == "precision":
        labels = (n.label for n in context.session.nodes[:5000] if n.label.isprintable())
        return [f"{word} {name}" for name in completed((f"{label} fp32" for label in labels), rest)]
    return []


VERBS = (
    Verb(
        "set",
        _set,
        _USAGE,
        "do the run again with something changed, and go to where you stand in the fork",
        "Changing",
        complete=_complete,
        more=(
            "BYTES go after the command at the cursor: 01 02, f32:nan, f16:1.5,2; ^80 flips bits",
            "Each fork is a session of its own: info sessions lists them, session N goes to one.",
            "Changes add up: a set in a fork forks the fork. Breakpoints, watchpoints and displays",
            "come along; the cursor and bookmarks stay at the same commands where they exist.",
            "set alone lists the changes; set clear goes back to the run as it was recorded.",
        ),
    ),
)
