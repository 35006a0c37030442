"""Breakpoints, watchpoints, and what is done with them."""

from __future__ import annotations

from math import prod

from npudbg.debugger import references
from npudbg.debugger.breakpoints import Location, Stop, StopKind
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.locations import again, condition, locate, split_condition
from npudbg.debugger.registry import Run, Verb, completed
from npudbg.debugger.touching import MOST_WATCHED, Touching
from npudbg.debugger.verbs.moving import places
from npudbg.debugger.watching import TensorWatch
from npudbg.session.lines import Line, line
from npudbg.session.text import safe

_GROUP = "Stopping"
_MOST_STOPS = 1000
_OPTIONS = {"-l": "-l", "-location": "-l", "-w": "-w", "-write": "-w"}
_HOW: dict[StopKind, dict[str, bool]] = {
    "watch": {"changes": True},
    "watch -w": {"writes": True},
    "rwatch": {"reads": True},
    "awatch": {"reads": True, "writes": True},
}


def _break(*, temporary: bool) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        place, test = _split(context, text)
        tree = condition(test) if test else None
        location = locate(context, place, conditional=bool(test))
        stop = context.table.add("breakpoint", location.text, location.matcher)
        stop.condition, stop.condition_text = tree, test
        stop.temporary, stop.node = temporary, location.node
        stop.resolve = again(context, location, place, conditional=bool(test))
        return [_described(stop)]

    return run


def _watch(kind: StopKind) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        context.cursor.require()
        place, test = _split(context, text)
        tree = condition(test) if test else None
        options, place = _options(place)
        fixed, of = "-l" in options, kind
        if "-w" in options:
            if kind != "watch":
                raise DebuggerError(f"{kind} takes no -w; watch -w stops at every write")
            of = "watch -w"
        if not place:
            raise DebuggerError(f"{of} what? an address, a tensor, or t[0,3,2]")
        what, how = _watched(context, place), _HOW[of]
        found = _watching(context, what, fixed, how)
        stop = context.table.add(of, found.text, found.matcher)
        stop.condition, stop.condition_text = tree, test
        stop.resolve = lambda other: _watching(other, _same(other, what), fixed, how)
        return [_described(stop)]

    return run


def _options(text: str) -> tuple[set[str], str]:
    """Split ``-l -w PLACE`` into its options, by their short names, and the place."""
    found: set[str] = set()
    while True:
        word, _, rest = text.partition(" ")
        if word not in _OPTIONS:
            return found, text
        found.add(_OPTIONS[word])
        text = rest.strip()


def _watched(context: Context, place: str) -> references.Range | references.TensorRef:
    if context.session.tensor(place) is None:
        where = references.address(context, place)
        if where is not None:
            return where
    return references.tensor(context, place)


def _same(
    other: Context, what: references.Range | references.TensorRef
) -> references.Range | references.TensorRef:
    """Return the same addresses, or the tensor of the same name, in another session."""
    if isinstance(what, references.Range):
        return what
    record = other.session.tensor(what.record.name)
    if record is None:
        raise DebuggerError(f"no tensor {what.text}")
    if what.selection and record.shape != what.record.shape:
        raise DebuggerError(f"tensor {what.text} has another shape")
    return references.TensorRef(record, what.selection, what.suffix)


def _watching(
    context: Context,
    what: references.Range | references.TensorRef,
    fixed: bool,
    how: dict[str, bool],
) -> Location:
    if isinstance(what, references.TensorRef):
        if not fixed:
            return Location(f"tensor {what.text}", TensorWatch(context, what, **how))
        where = address_of(context, what)
    else:
        where = what
    if how.get("changes") and where.nbytes > MOST_WATCHED:
        raise DebuggerError(
            f"{where.nbytes:,} bytes; watch compares at most {MOST_WATCHED:,}: name a part, "
            "or use watch -w"
        )
    return Location(where.text, Touching(context, where, **how))


def address_of(context: Context, ref: references.TensorRef) -> references.Range:
    """Return the addresses of a tensor, or of a part of it.

    Raises:
        DebuggerError: It has no place in memory, or the part is scattered.
    """
    record = ref.record
    layout = context.state.written.layout(record.id)
    if record.address is None or record.space not in references.SPACES or layout is None:
        raise DebuggerError(f"tensor {ref.text} has no place in memory; leave out -l")
    space = int(references.SPACES[record.space])
    if not ref.selection:
        return references.Range(space, record.address, layout.nbytes)
    picked = [range(size)[pick] for pick, size in zip(ref.selection, record.shape, strict=False)]
    axes = [range(p, p + 1) if isinstance(p, int) else p for p in picked]
    axes += [range(size) for size in record.shape[len(axes) :]]
    if any(not len(axis) for axis in axes):
        raise DebuggerError(f"{ref.text}: no element is selected")
    first = last = 0
    for axis, size in zip(axes, record.shape, strict=True):
        first, last = first * size + min(axis), last * size + max(axis)
    if last - first + 1 != prod(len(axis) for axis in axes):
        raise DebuggerError(f"{ref.text} is scattered in memory; leave out -l, or name one run")
    base = record.address + first * layout.itemsize
    return references.Range(space, base, (last - first + 1) * layout.itemsize)


def _split(context: Context, text: str) -> tuple[str, str]:
    if len(context.table.stops) >= _MOST_STOPS:
        raise DebuggerError(f"{_MOST_STOPS} breakpoints are set; delete some")
    return split_condition(text)


def _described(stop: Stop) -> Line:
    test = f" if {safe(stop.condition_text, 80)}" if stop.condition_text else ""
    once = "temporary " if stop.temporary else ""
    return line((f"{once}{stop.title}", "mark"), f": {stop.text}{test}")


def numbers(context: Context, text: str) -> list[int]:
    """Return the numbers of ``1 3-5``; all, for an empty text.

    Raises:
        DebuggerError: Not a number, or of no stop.
    """
    if not text:
        return list(context.table.stops)
    found: list[int] = []
    for word in text.replace(",", " ").split():
        low, dash, high = word.partition("-")
        first = references.integer(low, "number")
        last = references.integer(high, "number") if dash else first
        if last - first > _MOST_STOPS or last < first:
            raise DebuggerError(f"{safe(word, 30)}: expected a range such as 2-5")
        found += [context.table.get(n).number for n in range(first, last + 1)]
    return found


def _delete(context: Context, text: str) -> list[Line]:
    if text.split()[:1] == ["bookmark"]:
        from npudbg.debugger.verbs.moving import delete_bookmark

        return delete_bookmark(context, text.partition(" ")[2].strip())
    found = dict.fromkeys(numbers(context, text))
    for number in found:
        context.table.delete(number)
    return [line(f"deleted {', '.join(map(str, found)) or 'nothing: none is set'}")]


def _switch(on: bool) -> Run:
    def run(context: Context, text: str) -> list[Line]:
        found = dict.fromkeys(numbers(context, text))
        for number in found:
            context.table.get(number).enabled = on
        word = "enabled" if on else "disabled"
        return [line(f"{word} {', '.join(map(str, found)) or 'nothing: none is set'}")]

    return run


def _condition(context: Context, text: str) -> list[Line]:
    number, _, test = text.partition(" ")
    stop = context.table.get(references.integer(number, "number"))
    test = test.strip()
    stop.condition = condition(test) if test else None
    stop.condition_text = test
    return [_described(stop)]


def _ignore(context: Context, text: str) -> list[Line]:
    number, _, count = text.partition(" ")
    stop = context.table.get(references.integer(number, "number"))
    stop.ignore = references.integer(count, "how often")
    return [line(f"{stop.title} is passed by {stop.ignore} times")]


def stop_lines(context: Context) -> list[Line]:
    """Return the breakpoints and watchpoints as lines."""
    stops = context.table.stops.values()
    if not stops:
        return [line(("no breakpoints or watchpoints; b NODE sets one", "dim"))]
    lines = []
    for stop in stops:
        state = "" if stop.enabled else "  disabled"
        state += "  temporary" if stop.temporary else ""
        state += f"  not in this session: {stop.missing}" if stop.missing else ""
        state += f"  ignore {stop.ignore}" if stop.ignore else ""
        lines.append(
            line(
                (f"{stop.number:>4} {stop.kind:<10} ", "mark"),
                safe(stop.text, 100),
                (f" if {safe(stop.condition_text, 100)}" if stop.condition_text else "", "key"),
                (f"  hit {stop.hits}x{state}", "dim"),
            )
        )
    return lines


def tensors(context: Context, start: str) -> list[str]:
    """Return tensors' names, for completion."""
    names = (t.name for t in context.session.tensors[:5000] if t.name.isprintable())
    return completed(names, start)


def _watchable(context: Context, start: str) -> list[str]:
    """Return tensors' names, also behind options."""
    _, place = _options(start)
    head = start[: len(start) - len(place)]
    return [head + name for name in tensors(context, place)]


def _stops(context: Context, start: str) -> list[str]:
    return completed(map(str, context.table.stops), start)


_WATCH = "LOCATION = ADDRESS[+BYTES] | TENSOR | TENSOR[0,3,2] | -l TENSOR (its addresses)"

VERBS = (
    Verb(
        "break",
        _break(temporary=False),
        "break [LOCATION] [if EXPR]",
        "stop at a node, operator, tensor, address, command, kind, engine or finding",
        _GROUP,
        ("b", "br"),
        complete=places,
        more=(
            "conv1 | op Conv | tensor x | sram:0x100+64 | 1234 | kind DMA_STORE | engine dma0",
            "finding O401 | cycle 5000.  A node, operator or tensor stops where it begins;",
            "with a condition at each of its commands: b conv1 if max(abs(out)) > 6e4",
        ),
    ),
    Verb(
        "tbreak",
        _break(temporary=True),
        "tbreak [LOCATION] [if EXPR]",
        "the same, once",
        _GROUP,
        ("tb", "tbr"),
        complete=places,
    ),
    Verb(
        "watch",
        _watch("watch"),
        "watch [-l] [-w] LOCATION [if EXPR]",
        "stop where bytes change; with -w at every write, of the same bytes too",
        _GROUP,
        complete=_watchable,
        more=(_WATCH, "Each stop shows the old and the new value, forward and backward alike."),
    ),
    Verb(
        "rwatch",
        _watch("rwatch"),
        "rwatch [-l] LOCATION [if EXPR]",
        "stop where it is read",
        _GROUP,
        complete=_watchable,
        more=(_WATCH,),
    ),
    Verb(
        "awatch",
        _watch("awatch"),
        "awatch [-l] LOCATION [if EXPR]",
        "stop where it is read or written",
        _GROUP,
        complete=_watchable,
        more=(_WATCH,),
    ),
    Verb(
        "delete",
        _delete,
        "delete [N …]",
        "delete breakpoints (all, without numbers)",
        _GROUP,
        ("d", "del"),
        complete=_stops,
    ),
    Verb(
        "disable",
        _switch(False),
        "disable [N …]",
        "let breakpoints not count",
        _GROUP,
        complete=_stops,
    ),
    Verb(
        "enable",
        _switch(True),
        "enable [N …]",
        "let them count again",
        _GROUP,
        ("en",),
        complete=_stops,
    ),
    Verb(
        "condition",
        _condition,
        "condition N [EXPR]",
        "give one a condition, or take it",
        _GROUP,
        ("cond",),
        complete=_stops,
    ),
    Verb("ignore", _ignore, "ignore N COUNT", "pass one by COUNT times", _GROUP, complete=_stops),
)
