"""What a user's words refer to: nodes, tensors and their elements, addresses, commands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions import evaluate, parse
from npudbg.debugger.expressions.evaluate import element
from npudbg.debugger.expressions.tree import Index, Slice
from npudbg.debugger.expressions.values import ArrayValue
from npudbg.debugger.scope import CommandScope
from npudbg.session.commands import Space, space_name
from npudbg.session.records import NodeRecord, TensorRecord
from npudbg.session.text import safe

SPACES = {"host": Space.HOST, "ddr": Space.DDR, "sram": Space.SRAM}
_NUMBER = r"(?:0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,19})"
_ADDRESS = re.compile(
    rf"\*?(?:(?P<space>[A-Za-z]+):)?(?P<base>{_NUMBER})"
    rf"(?:(?:\+|,)(?P<plus>{_NUMBER})|\.\.(?P<end>{_NUMBER}))?"
)
_TENSOR_CALL = re.compile(r"tensor\(\s*([\"'])(.*?)\1\s*\)", re.DOTALL)
_INDEXED = re.compile(r"(.*?)(\[[^\[\]]*\])", re.DOTALL)

Selection = tuple["int | slice", ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A range of addresses in a space."""

    space: int
    low: int
    nbytes: int
    sized: bool = True

    @property
    def text(self) -> str:
        """As people read it: ``sram:0x00000100+64``."""
        return f"{space_name(self.space)}:{self.low:#010x}+{self.nbytes}"


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor, or a part of one."""

    record: TensorRecord
    selection: Selection = ()
    suffix: str = ""

    @property
    def text(self) -> str:
        """As people read it."""
        return safe(self.record.name, 60) + self.suffix

    def part(self, value: ArrayValue) -> object:
        """Return the part of the tensor's values."""
        return element(value, self.selection) if self.selection else value


def integer(text: str, what: str) -> int:
    """Return a whole number.

    Raises:
        DebuggerError: It is none.
    """
    word = text.strip().replace("_", "")
    if not re.fullmatch(_NUMBER, word):
        raise DebuggerError(f"{what}: expected a whole number, got {safe(text.strip(), 30)!r}")
    return _int(word)


def _int(word: str) -> int:
    return int(word, 16) if word[:2].lower() == "0x" else int(word)


def address(context: Context, text: str, nbytes: int = 1) -> Range | None:
    """Return the range that ``sram:0x100``, ``0x100+64`` or ``ddr:0x0..0x40`` means.

    None when the text has not the form of an address.

    Raises:
        DebuggerError: No such space, an end before the start, or a space to be named.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    base = _int(match["base"])
    sized = bool(match["plus"] or match["end"])
    if match["plus"]:
        nbytes = _int(match["plus"])
    elif match["end"]:
        nbytes = _int(match["end"]) - base
    if nbytes <= 0:
        raise DebuggerError(f"{safe(text.strip(), 60)}: the range is empty")
    name = match["space"]
    if name is not None and name.lower() not in SPACES:
        raise DebuggerError(f"no space {safe(name, 20)}; there are {', '.join(SPACES)}")
    space = SPACES[name.lower()] if name is not None else _space_of(context, base)
    return Range(int(space), base, nbytes, sized)


def _space_of(context: Context, base: int) -> Space:
    found = {
        SPACES[r.space]
        for r in context.session.meta.regions
        if r.space in SPACES and r.base <= base < r.base + r.nbytes
    }
    if not found:
        # A session without a memory map: the space in which a tensor lies there.
        found = {
            SPACES[t.space]
            for t in context.session.tensors
            if t.space in SPACES and t.address is not None
            and t.address <= base < t.address + max(t.base_nbytes, 1)
        }  # fmt: skip
    if len(found) == 1:
        return found.pop()
    raise DebuggerError(
        f"{base:#x} can be in any space; say which: sram:{base:#x}, ddr:{base:#x} or host:{base:#x}"
    )


def node(context: Context, text: str) -> NodeRecord:
    """Return the node of a name, label or index.

    Raises:
        DebuggerError: There is none.
    """
    word = _unquoted(text)
    nodes = context.session.nodes
    if not word:
        found = context.cursor.node(context.cursor.seq) if context.cursor.last >= 0 else None
        if found is None:
            raise DebuggerError("the command at the cursor belongs to no node; name one")
        return found
    named = context.session.node(word)
    if named is not None:
        return named
    number = word.lstrip("#")
    if number.isascii() and number.isdigit() and len(number) < 10 and int(number) < len(nodes):
        return nodes[int(number)]
    raise unknown("node", word, (n.label for n in nodes[:5000]))


def tensor(context: Context, text: str) -> TensorRef:
    """Return the tensor, or part of one, that a text names.

    ``NAME``, ``NAME[0,3,2:4]``, ``tensor("NAME")[…]``, ``#12``, or ``out`` for the one
    that the command at the cursor moves or makes.

    Raises:
        DebuggerError: There is no such tensor or no such part.
    """
    word = text.strip()
    whole = _named(context, _unquoted(word))
    if whole is not None:
        return TensorRef(whole)
    match = _INDEXED.fullmatch(word)
    if match is None:
        raise _no_tensor(context, word)
    record = _named(context, _unquoted(match[1].strip()))
    if record is None:
        raise _no_tensor(context, match[1].strip())
    return TensorRef(record, selection(context, record, match[2]), match[2].replace(" ", ""))


def selection(context: Context, record: TensorRecord, text: str) -> Selection:
    """Return what ``[0,3,2:4]`` selects of a tensor.

    Raises:
        DebuggerError: It does not fit the shape.
    """
    tree = parse(f"x{text}")
    if not isinstance(tree, Index):
        raise DebuggerError(f"expected an index such as [0,3,2], got {safe(text, 40)}")
    if len(tree.parts) > len(record.shape):
        raise DebuggerError(
            f"{len(tree.parts)} indices for the {len(record.shape)} axes of {safe(record.name, 60)}"
        )
    scope = CommandScope(context, context.cursor.seq)
    chosen: list[int | slice] = []
    for part, size in zip(tree.parts, record.shape, strict=False):
        ends = (part.start, part.stop, part.step) if isinstance(part, Slice) else (part,)
        values: list[int | None] = []
        for end in ends:
            value = None if end is None else evaluate(end, scope, f"x{text}")
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise DebuggerError(f"{safe(text, 40)}: expected whole numbers")
            values.append(value)
        if isinstance(part, Slice):
            if values[2] == 0:
                raise DebuggerError("a slice's step cannot be 0")
            chosen.append(slice(*values))
            continue
        at = values[0]
        assert at is not None
        if not -size <= at < size:
            raise DebuggerError(f"index {at} is out of range 0..{size - 1} of {safe(record.name)}")
        chosen.append(at % size)
    return tuple(chosen)


def _named(context: Context, word: str) -> TensorRecord | None:
    call = _TENSOR_CALL.fullmatch(word)
    if call is not None:
        word = call[2]
    record = context.session.tensor(word)
    if record is not None:
        return record
    tensors = context.session.tensors
    number = word[1:]
    if word[:1] == "#" and number.isascii() and number.isdigit() and len(number) < 10:
        return tensors[int(number)] if int(number) < len(tensors) else None
    if word == "out":
        current = context.current_tensor()
        return tensors[current] if current >= 0 else None
    return None


def _no_tensor(context: Context, word: str) -> DebuggerError:
    return unknown("tensor", word, (t.name for t in context.session.tensors[:5000]))


def unknown(what: str, word: str, known: Iterable[str]) -> DebuggerError:
    """Return the error for a name that is not there, with the nearest that is."""
    near = difflib.get_close_matches(word[:200], list(known), 1, 0.5)
    hint = f"; did you mean {safe(near[0], 80)}?" if near else f"; see info {what}s"
    return DebuggerError(f"no {what} {safe(word, 60)}{hint}")


def _unquoted(text: str) -> str:
    word = text.strip()
    if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return word
