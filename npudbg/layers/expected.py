"""What the model expects of an input's shape, with the axes filled in that the user bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from npudbg.layers.case import Case, HostTensor
from npudbg.session.records import ValueContract

Expected = tuple[int | str | None, ...]

UNBOUNDED = 1 << 62
"""Sizes from here on (INT64_MAX above all) are compilers' way to write 'no upper bound'."""

_MAX_RANK = 6
_USUAL = ((0, 3, 1, 2), (0, 2, 3, 1), (2, 0, 1), (1, 2, 0), (0, 2, 1))


def pairs(case: Case) -> Iterator[tuple[HostTensor, ValueContract]]:
    """Yield the tensors fed that the model has a plain tensor input for."""
    for host in case.inputs:
        contract = case.contract(host.name)
        if contract is not None and contract.kind in ("tensor", "optional"):
            yield host, contract


def expected_shape(case: Case, contract: ValueContract) -> Expected | None:
    """Return the model's shape with ``--dim`` filled in; None where the rank is unknown."""
    if contract.shape is None:
        return None
    return tuple(_axis(case, contract.name, n, size) for n, size in enumerate(contract.shape))


def open_axes(case: Case, contract: ValueContract) -> list[int]:
    """Return the axes that neither the model nor the user gives a size."""
    shape = expected_shape(case, contract) or ()
    return [axis for axis, size in enumerate(shape) if not isinstance(size, int)]


def fits(shape: Sequence[int], expected: Expected) -> bool:
    """Tell whether a shape agrees with an expectation (an open axis takes any size)."""
    return len(shape) == len(expected) and all(
        not isinstance(e, int) or e == n for n, e in zip(shape, expected, strict=True)
    )


def fitting_transposes(shape: Sequence[int], expected: Expected) -> list[tuple[int, ...]]:
    """Return the axes for ``transpose`` that make ``shape`` fit, the usual ones first."""
    rank = len(shape)
    if rank != len(expected) or rank > _MAX_RANK:
        return []
    found = [
        p for p in permutations(range(rank)) if fits([shape[a] for a in p], expected) and _moves(p)
    ]
    return sorted(found, key=lambda p: (p not in _USUAL, _moves(p), p))


def missing_axes(
    shape: Sequence[int], expected: Expected
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return which axes of ``expected`` a shape lacks, and the transpose that it needs first.

    Axes of one element, or of any size, are the likelier ones to have been left
    out; no transpose is likelier than one.
    """
    lacking = len(expected) - len(shape)
    if lacking < 1 or len(expected) > _MAX_RANK:
        return None
    choices = [
        (axes, order)
        for order in permutations(range(len(shape)))
        for axes in combinations(range(len(expected)), lacking)
        if fits(
            [shape[a] for a in order], tuple(e for n, e in enumerate(expected) if n not in axes)
        )
    ]
    return min(
        choices,
        key=lambda c: (_cost(c[0], expected), bool(_moves(c[1])), c[1] not in _USUAL, *c),
        default=None,
    )


def surplus_axes(shape: Sequence[int], expected: Expected) -> tuple[int, ...] | None:
    """Return the axes of one element that a shape has too many, or None."""
    extra = len(shape) - len(expected)
    ones = [axis for axis, n in enumerate(shape) if n == 1]
    for axes in combinations(ones, extra):
        if fits([n for axis, n in enumerate(shape) if axis not in axes], expected):
            return axes
    return None


def _axis(case: Case, name: str, axis: int, size: int | str | None) -> int | str | None:
    if isinstance(size, int):
        return size if 0 <= size < UNBOUNDED else case.dims.get(f"{name}.{axis}")
    if size is not None and size in case.dims:
        return case.dims[size]
    return case.dims.get(f"{name}.{axis}", size)


def _moves(order: Sequence[int]) -> int:
    return sum(a != n for n, a in enumerate(order))


def _cost(axes: tuple[int, ...], expected: Expected) -> int:
    return sum(expected[a] != 1 and isinstance(expected[a], int) for a in axes)
