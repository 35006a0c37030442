"""Rearrangements of a tensor that a wrong layout makes, the likelier first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations
from math import prod

import numpy as np

from npudbg.layers.compare.sources import Candidate, strides

BLOCKS = (4, 8, 16, 32)
_ALIGNMENTS = (4, 8, 16, 32, 64, 128)
_MOST_AXES = 6
_LONGEST_TAIL = 16


def candidates(golden: tuple[int, ...], got: tuple[int, ...]) -> Iterator[Candidate]:
    """Give the rearrangements of a golden shape that a buffer of that size may hold.

    The likelier and the simpler come first.
    """
    yield from _reversed(golden, got)
    yield from _permuted(golden, got)
    # One group of channels is both: a buffer of five axes was declared to be packed.
    last = [_padded, _packed] if len(got) <= len(golden) else [_packed, _padded]
    for each in last:
        yield from each(golden, got)


def _orders(golden: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Give the permutations of the axes, axes of one element keeping their place."""
    moving = [axis for axis, n in enumerate(golden) if n != 1]
    if len(moving) > _MOST_AXES:
        orders: Iterator[tuple[int, ...]] = _swaps(moving)
    else:
        orders = permutations(moving)
    named = [p for p in _NAMES if len(p) == len(golden)]
    seen = set()
    for order in orders:
        rest = iter(order)
        full = tuple(axis if golden[axis] == 1 else next(rest) for axis in range(len(golden)))
        if full not in seen:
            seen.add(full)
            named.append(full) if full not in named else None
    yield from named


def _swaps(axes: list[int]) -> Iterator[tuple[int, ...]]:
    """Give exchanges of two axes and moves of one axis (for very many axes)."""
    yield tuple(axes)
    for i in range(len(axes)):
        for j in range(len(axes)):
            moved = axes[:i] + axes[i + 1 :]
            yield (*moved[:j], axes[i], *moved[j:])
            swapped = list(axes)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            yield tuple(swapped)


_NAMES = {
    (0, 2, 3, 1): "channels last (NHWC) where channels first (NCHW) is expected",
    (0, 3, 1, 2): "channels first (NCHW) where channels last (NHWC) is expected",
    (0, 1, 3, 2): "with height and width exchanged",
    (0, 2, 3, 4, 1): "channels last (NDHWC) where channels first (NCDHW) is expected",
    (0, 4, 1, 2, 3): "channels first (NCDHW) where channels last (NDHWC) is expected",
    (1, 0): "transposed",
}


def _named(order: tuple[int, ...]) -> str:
    known = _NAMES.get(order)
    axes = ",".join(str(n) for n in order)
    return f"{known}, axes ({axes})" if known else f"with its axes in the order ({axes})"


def _permuted(golden: tuple[int, ...], got: tuple[int, ...]) -> Iterator[Candidate]:
    if prod(got) != prod(golden):
        return
    own = strides(golden)
    orders = [p for p in _orders(golden) if p != tuple(range(len(golden)))]
    for order in orders:
        shape = tuple(golden[axis] for axis in order)
        honest = got == shape
        yield Candidate(
            kind="transposed" if honest else "reinterpreted",
            text=f"{_named(order)}, shape {list(shape)}"
            + ("" if honest else f", read as {list(got)}"),
            shape=shape,
            steps=tuple(own[axis] for axis in order),
            permutation=order,
        )
    for order in orders:
        # The buffer was in order, was read in another layout and then transposed back.
        shape = tuple(golden[axis] for axis in order)
        inner = strides(shape)
        yield Candidate(
            kind="reinterpreted-transposed",
            text=f"in order, but read as {list(shape)} and transposed by the inverse of "
            f"({','.join(str(n) for n in order)})",
            shape=golden,
            steps=tuple(inner[order.index(axis)] for axis in range(len(golden))),
            permutation=order,
        )


def _channel_axes(golden: tuple[int, ...]) -> list[int]:
    axes = {3: [1, 0, 2], 4: [1, 3], 5: [1, 4]}.get(len(golden), [len(golden) - 1])
    return [axis for axis in axes if axis >= 0 and golden[axis] > 1]


def _packed(golden: tuple[int, ...], got: tuple[int, ...]) -> Iterator[Candidate]:
    """Give NC1HWC2 and NHC1WC2 of every block size."""
    own, total = strides(golden), prod(golden)
    if len(golden) < 3:
        return
    for axis in _channel_axes(golden):
        spatial = [a for a in range(len(golden)) if a != axis and (a > 0 or axis == 0)]
        batch = [0] if axis != 0 else []
        for block in BLOCKS:
            groups = -(-golden[axis] // block)
            for brick in (False, True):
                if brick and (len(spatial) < 2 or groups == 1):
                    continue
                outer, inner = (spatial[:-1], spatial[-1:]) if brick else ([], spatial)
                axes = [*batch, *outer, -1, *inner]
                shape = (*(groups if a < 0 else golden[a] for a in axes), block)
                if prod(got) not in (prod(shape), total):
                    continue
                steps = (*(block * own[axis] if a < 0 else own[a] for a in axes), own[axis])
                weights = (*(block if a < 0 else 0 for a in axes), 1)
                pad = groups * block - golden[axis]
                name = "NHC1WC2" if brick else "NC1HWC2"
                yield Candidate(
                    kind="packed-channels",
                    text=f"{name} {list(shape)} (C2={block}, {pad} pad channel"
                    f"{'' if pad == 1 else 's'}), read as {list(got)}",
                    shape=shape,
                    steps=steps,
                    bounds=((weights, golden[axis]),),
                    permutation=(*batch, *outer, axis, *inner) if brick else (),
                    axis=axis,
                    block=block,
                )


def _padded(golden: tuple[int, ...], got: tuple[int, ...]) -> Iterator[Candidate]:
    """Give buffers with one padded axis, in order or with the axes permuted."""
    own, total, held = strides(golden), prod(golden), prod(got)
    if held < total or not total:
        return
    identity = tuple(range(len(golden)))
    orders = [identity, *(p for p in islice(_orders(golden), 24) if p != identity)]
    for order in orders:
        sizes = tuple(golden[axis] for axis in order)
        for place in range(1 if len(sizes) > 1 else 0, len(sizes)):
            for pitch in _pitches(sizes, place, held, total, order == identity):
                shape = (*sizes[:place], pitch, *sizes[place + 1 :])
                weights = tuple(int(n == place) for n in range(len(sizes)))
                what = "rows" if place == len(sizes) - 1 else f"axis {order[place]}"
                turned = "" if order == identity else f" {_named(order)},"
                yield Candidate(
                    kind="padded",
                    text=f"{list(shape)}:{turned} {what} of {sizes[place]} elements stand "
                    f"{pitch} apart ({pitch - sizes[place]} of padding), read as {list(got)}",
                    shape=shape,
                    steps=tuple(own[axis] for axis in order),
                    bounds=((weights, sizes[place]),),
                    permutation=() if order == identity else order,
                    axis=order[place],
                    pitch=pitch,
                )


def _pitches(
    sizes: tuple[int, ...], place: int, held: int, total: int, plain: bool
) -> Iterator[int]:
    size = sizes[place]
    if held > total:
        if held * size % total == 0 and held * size // total > size:
            yield held * size // total
        return
    # The whole padded buffer is longer than what was read of it.
    found = {-(-size // alignment) * alignment for alignment in _ALIGNMENTS}
    if plain and place == len(sizes) - 1:
        found.update(range(size + 1, size + _LONGEST_TAIL + 1))
    yield from sorted(n for n in found if n > size)


def _reversed(golden: tuple[int, ...], got: tuple[int, ...]) -> Iterator[Candidate]:
    if got != golden:
        return
    own = strides(golden)
    channel = _channel_axes(golden)
    axes = [*channel, *(a for a in range(len(golden)) if a not in channel)]
    for axis in axes:
        if golden[axis] < 2:
            continue
        text = f"reversed along axis {axis}"
        if golden[axis] == 3 and axis in channel:
            text = f"with its three channels (axis {axis}) reversed: BGR for RGB"
        yield Candidate(
            kind="reversed",
            text=text,
            shape=golden,
            steps=tuple(-n if a == axis else n for a, n in enumerate(own)),
            start=(golden[axis] - 1) * own[axis],
            axis=axis,
        )
    for axis in channel:
        if golden[axis] not in (3, 4):
            continue
        for order in permutations(range(golden[axis])):
            table = np.array(order, np.int64) * own[axis]
            yield Candidate(
                kind="channel-order",
                text=f"with its channels (axis {axis}) in the order {list(order)}",
                shape=golden,
                steps=tuple(table if a == axis else n for a, n in enumerate(own)),
                permutation=order,
                axis=axis,
            )
