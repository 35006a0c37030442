"""Binding of a model's open axes: what the user said, what the inputs show, what is left."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npudbg.graph.ir import Graph
from npudbg.session.errors import UserError
from npudbg.session.records import ValueContract
from npudbg.session.text import safe

Shape = tuple[int, ...]
MAX_AXIS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Bound:
    """A symbol's value and how it came by it (``--dim``, ``input x``, ``default``)."""

    symbol: str
    value: int
    how: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """An axis that two sources give two sizes; layer 2 judges it.

    Attributes:
        symbol: The symbol, or ``input.AXIS`` for an axis without one.
        kept: The value in force, with its source.
        other: The value that disagrees, with its source.
    """

    symbol: str
    kept: Bound
    other: Bound

    def __str__(self) -> str:
        return (
            f"{safe(self.symbol)} is {self.kept.value} by {safe(self.kept.how)} and "
            f"{self.other.value} by {safe(self.other.how)}"
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """The result of :func:`bind`.

    Attributes:
        shapes: Shape per input: as given, else as bound.
        expected: Per input, the model's shape with every bound axis filled in
            (None where an axis or the rank stays open; only so for given inputs).
        symbols: Value per symbol.
        sources: How each symbol was bound.
        conflicts: Given shapes that disagree with a symbol's value.
        notes: One line for each value that npudbg chose itself.
    """

    shapes: Mapping[str, Shape]
    expected: Mapping[str, tuple[int | None, ...] | None]
    symbols: Mapping[str, int]
    sources: Mapping[str, Bound]
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()


def bind(
    graph: Graph, given: Mapping[str, Sequence[int]], dims: Mapping[str, int] | None = None
) -> Binding:
    """Bind every open axis of the model's inputs.

    ``dims`` comes first, then the shapes of given inputs.  An open first axis of an
    input that is not given becomes 1.  Given inputs keep their shape, whatever the
    model says: judging it is layer 2's work.

    Args:
        graph: The model.
        given: Shape of each input at hand, by name.
        dims: ``--dim`` values by symbol or ``input.AXIS``.

    Raises:
        UserError: A ``dims`` key that means nothing or contradicts the model, or axes that
            nothing binds.
    """
    state = _State(graph)
    for key, value in (dims or {}).items():
        state.take_option(key, value)
    for name, shape in given.items():
        contract = graph.input(name)
        if contract is not None:
            state.take_shape(contract, tuple(int(n) for n in shape))
    missing = [c for c in graph.inputs if c.name not in given]
    state.take_defaults(missing)
    shapes: dict[str, Shape] = {}
    open_axes: list[str] = []
    for contract in missing:
        filled = state.fill(contract)
        if filled is None:
            raise UserError(
                f"input {safe(contract.name)!r}: the model does not even state how many axes it "
                f"has; give it with --input {safe(contract.name)}=FILE"
            )
        open_axes += [_axis_name(contract, i) for i, n in enumerate(filled) if n is None]
        shapes[contract.name] = tuple(n for n in filled if n is not None)
    if open_axes:
        raise _unbound(open_axes)
    shapes.update({name: tuple(int(n) for n in shape) for name, shape in given.items()})
    return Binding(
        shapes=shapes,
        expected={c.name: state.fill(c) for c in (*graph.inputs, *graph.defaults)},
        symbols={b.symbol: b.value for b in state.symbols.values()},
        sources=dict(state.symbols),
        conflicts=tuple(state.conflicts),
        notes=tuple(state.notes),
    )


class _State:
    """What is bound so far."""

    def __init__(self, graph: Graph) -> None:
        self.symbols: dict[str, Bound] = {}
        self.axes: dict[tuple[str, int], Bound] = {}
        self.conflicts: list[Conflict] = []
        self.notes: list[str] = []
        self._inputs = {c.name: c for c in (*graph.inputs, *graph.defaults)}
        shapes = [c.shape for c in (*self._inputs.values(), *graph.outputs)]
        self._known = list(dict.fromkeys(d for s in shapes for d in s or () if isinstance(d, str)))

    def take_option(self, key: str, value: int) -> None:
        if isinstance(value, bool) or not 0 <= value <= MAX_AXIS:
            raise UserError(f"--dim {safe(key)}={value}: a size of 0 or more was expected")
        bound = Bound(key, value, f"--dim {key}")
        if key in self._known:
            self._option(key, bound)
            return
        name, dot, axis_text = key.rpartition(".")
        contract = self._inputs.get(name)
        if not dot or contract is None or not (axis_text.isascii() and axis_text.isdigit()):
            raise self._unknown(key)
        rank = None if contract.shape is None else len(contract.shape)
        # More digits than any rank has: do not even convert.
        axis = int(axis_text[:6])
        if contract.shape is None or rank is None or axis >= rank:
            have = "no stated rank" if rank is None else f"{rank} axes, 0 to {rank - 1}"
            raise UserError(f"--dim {safe(key)}={value}: input {safe(name)!r} has {have}")
        fixed = contract.shape[axis]
        if isinstance(fixed, int) and fixed != value:
            raise UserError(
                f"--dim {safe(key)}={value}: axis {axis} of {safe(name)!r} is fixed at {fixed} by "
                "the model"
            )
        if isinstance(fixed, str):
            self._option(fixed, Bound(fixed, value, bound.how))
        else:
            self.axes[name, axis] = bound

    def _option(self, symbol: str, bound: Bound) -> None:
        before = self.symbols.setdefault(symbol, bound)
        if before.value != bound.value:
            raise UserError(
                f"{safe(before.how)}={before.value} and {safe(bound.how)}={bound.value} give the "
                f"axis {safe(symbol)!r} two sizes; keep one"
            )

    def take_shape(self, contract: ValueContract, shape: Shape) -> None:
        if contract.shape is None or len(contract.shape) != len(shape):
            return
        how = f"input {contract.name}"
        for axis, (stated, size) in enumerate(zip(contract.shape, shape, strict=True)):
            if isinstance(stated, str):
                bound = Bound(stated, size, how)
                before = self.symbols.setdefault(stated, bound)
                if before.value != size:
                    self.conflicts.append(Conflict(stated, before, bound))
            elif stated is None:
                told = self.axes.get((contract.name, axis))
                name = f"{contract.name}.{axis}"
                if told is not None and told.value != size:
                    self.conflicts.append(Conflict(name, told, Bound(name, size, how)))

    def take_defaults(self, missing: Sequence[ValueContract]) -> None:
        for contract in missing:
            first = contract.shape[0] if contract.shape else 0
            label = f"axis 0 of input {safe(contract.name)!r}"
            if isinstance(first, str) and first not in self.symbols:
                self.symbols[first] = Bound(first, 1, "default")
                self.notes.append(f"{label} ({safe(first)}) is taken as 1; --dim changes it")
            elif first is None and (contract.name, 0) not in self.axes:
                key = f"{contract.name}.0"
                self.axes[contract.name, 0] = Bound(key, 1, "default")
                self.notes.append(f"{label} is taken as 1; --dim {safe(key)}=N changes it")

    def fill(self, contract: ValueContract) -> tuple[int | None, ...] | None:
        if contract.shape is None:
            return None
        return tuple(self._size(contract.name, i, d) for i, d in enumerate(contract.shape))

    def _size(self, name: str, axis: int, stated: int | str | None) -> int | None:
        if isinstance(stated, int):
            return stated
        bound = self.axes.get((name, axis)) if stated is None else self.symbols.get(stated)
        return None if bound is None else bound.value

    def _unknown(self, key: str) -> UserError:
        names = list(self._known)
        for contract in self._inputs.values():
            names += [f"{contract.name}.{i}" for i in range(len(contract.shape or ()))]
        near = difflib.get_close_matches(key, names, 1, 0.5)
        if near:
            hint = f"; did you mean {safe(near[0])}?"
        else:
            hint = f"; known: {safe(', '.join(names) or 'none', 160)}"
        return UserError(f"--dim {safe(key)}: the model has no such axis{hint}")


def _axis_name(contract: ValueContract, axis: int) -> str:
    stated = contract.shape[axis] if contract.shape else None
    return stated if isinstance(stated, str) else f"{contract.name}.{axis}"


def _unbound(names: list[str]) -> UserError:
    unique = list(dict.fromkeys(names))
    example = " ".join(f"--dim {safe(n)}=224" for n in unique[:6])
    more = f" … ({len(unique)} in all)" if len(unique) > 6 else ""
    listed = ", ".join(safe(n) for n in unique[:6])
    return UserError(
        f"the model leaves {'axis' if len(unique) == 1 else 'axes'} {listed}{more} open: "
        f"give each a size, for example {example}{more}, or give the inputs themselves"
    )
