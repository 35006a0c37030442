"""Tiles: cutting a group's output so that operands and results fit in SRAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from npudbg.device.kernels.base import Box, Kernel, Op, volume, whole

Key = tuple[str, int]
"""A slot of the tile: tensor name and, for one tensor read in two regions, a number."""

ALIGN = 64
_MAX_TILES = 1 << 17


@dataclass(slots=True)
class Step:
    """One kernel of a group.

    Attributes:
        node: Index of the node.
        op: Shapes and attributes.
        kernel: Its kernel.
        reads: Tensor name per operand (``""`` = omitted).
        writes: Tensor name per output (``""`` = omitted).
        out_itemsizes: Bytes per element per output.
        in_itemsizes: Bytes per element per operand.
    """

    node: int
    op: Op
    kernel: Kernel
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    in_itemsizes: tuple[int, ...]
    out_itemsizes: tuple[int, ...]


@dataclass(slots=True)
class Region:
    """A region of a tensor that a tile holds in SRAM."""

    tensor: str
    box: Box
    nbytes: int
    slot: int = 0


@dataclass(slots=True)
class Tile:
    """One tile of a group.

    Attributes:
        loads: Regions that DMA brings in.
        steps: Per kernel: regions read (operand number, region) and regions written.
        stores: Regions that DMA takes out.
    """

    loads: list[Region] = field(default_factory=list)
    steps: list[tuple[list[tuple[int, Region]], list[Region]]] = field(default_factory=list)
    stores: list[Region] = field(default_factory=list)


@dataclass(slots=True)
class Tiling:
    """How a group is cut and where its regions lie.

    Attributes:
        tiles: In execution order.
        fixed_bytes: Size of the area of stationary operands (weights) at SRAM's start.
        half_bytes: Size of one tile's area.
        halves: 2 = double buffered.
        stationary: Tensors that lie in the fixed area.
    """

    tiles: list[Tile]
    fixed_bytes: int
    half_bytes: int
    halves: int
    stationary: frozenset[str]


def align(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to the SRAM slot alignment."""
    return -(-nbytes // ALIGN) * ALIGN


def tile_group(
    steps: Sequence[Step],
    escaping: frozenset[str],
    stationary: frozenset[str],
    sram_bytes: int,
    granule: Mapping[int, int] | None = None,
) -> Tiling | None:
    """Cut a group into tiles that fit, or return None if it cannot be.

    Args:
        steps: Kernels in order; all outputs but those of a lone first kernel have
            the shape of the first kernel's output.
        escaping: Tensors read outside of the group.
        stationary: Operands that stay in SRAM as long as their region is the same.
        sram_bytes: Size of SRAM.
        granule: By output axis, the multiple at which the array wastes nothing: cuts
            keep to it as long as anything else can be cut.
    """
    granule = granule or {}
    first = steps[0]
    shape = first.op.outputs[0]
    if shape is None:
        return None
    extents = list(shape)
    allowed = set(range(len(shape)))
    for step in steps:
        allowed &= set(step.kernel.axes(step.op))
    order = [a for a in first.kernel.axes(first.op) if a in allowed]
    while True:
        sample = _tile(steps, tuple((0, n) for n in extents), escaping)
        if sample is None:
            return None
        count = 1
        for n, e in zip(shape, extents, strict=True):
            count *= -(-n // e) if e else 1
        need = _need(sample, stationary, halves=2 if count > 1 else 1)
        if need <= sram_bytes:
            tiling = _cut(steps, shape, extents, order, escaping, stationary)
            if tiling is None:
                return None
            if tiling.fixed_bytes + tiling.halves * tiling.half_bytes <= sram_bytes:
                return tiling
        axis = next((a for a in order if extents[a] > granule.get(a, 1)), None)
        multiple = granule.get(axis, 1) if axis is not None else 1
        if axis is None:
            axis = next((a for a in order if extents[a] > 1), None)
        if axis is None or count > _MAX_TILES:
            return None
        # Keep the cut coarse and even: halve, then round up.
        half = -(-extents[axis] // 2)
        extents[axis] = -(-half // multiple) * multiple


def _cut(
    steps: Sequence[Step],
    shape: Sequence[int],
    extents: Sequence[int],
    order: Sequence[int],
    escaping: frozenset[str],
    stationary: frozenset[str],
) -> Tiling | None:
    ranges = [
        [(s, min(s + e, n)) for s in range(0, n, max(e, 1))] or [(0, 0)]
        for n, e in zip(shape, extents, strict=True)
    ]
    # The first-choice axis runs innermost: operands that do not depend on it stay.
    nest = [a for a in range(len(shape)) if a not in order] + list(reversed(order))
    tiles = []
    for chosen in product(*(ranges[a] for a in nest)):
        box: list[tuple[int, int]] = [(0, 0)] * len(shape)
        for axis, part in zip(nest, chosen, strict=True):
            box[axis] = part
        tile = _tile(steps, tuple(box), escaping)
        if tile is None:
            return None
        tiles.append(tile)
    fixed, half = _place(tiles, steps, stationary)
    return Tiling(tiles, fixed, half, 2 if len(tiles) > 1 else 1, stationary)


def _tile(steps: Sequence[Step], box: Box, escaping: frozenset[str]) -> Tile | None:
    """Return the regions of one tile, without their places."""
    tile = Tile()
    here: dict[str, Region] = {}
    loaded: dict[tuple[str, Box], Region] = {}
    for step in steps:
        boxes = step.kernel.boxes(step.op, box)
        if boxes is None:
            boxes = [None if s is None else whole(s) for s in step.op.operands]
            if box != whole(step.op.outputs[0] or ()):
                return None
        reads: list[tuple[int, Region]] = []
        for i, region_box in enumerate(boxes):
            name = step.reads[i] if i < len(step.reads) else ""
            if region_box is None or not name:
                continue
            region = here.get(name)
            if region is None:
                region = loaded.get((name, region_box))
            if region is None:
                region = Region(name, region_box, volume(region_box) * step.in_itemsizes[i])
                loaded[name, region_box] = region
                tile.loads.append(region)
            reads.append((i, region))
        writes = []
        for i, name in enumerate(step.writes):
            out = step.op.outputs[i]
            if not name or out is None:
                continue
            out_box = box if i == 0 else other_output(step.op, out, box)
            if out_box is None:
                return None
            region = Region(name, out_box, volume(out_box) * step.out_itemsizes[i])
            here[name] = region
            writes.append(region)
            if name in escaping:
                tile.stores.append(region)
        tile.steps.append((reads, writes))
    return tile


def other_output(op: Op, shape: tuple[int, ...], box: Box) -> Box | None:
    """Return the region of a further output that goes with ``box`` of the first."""
    first = op.outputs[0]
    if first == shape:
        return box
    if box == whole(first or ()):
        return whole(shape)
    if op.op_type == "Split" and first is not None:
        axis = op.int("axis", 0) % len(shape)
        return (*box[:axis], (0, shape[axis]), *box[axis + 1 :])
    return None


def _need(tile: Tile, stationary: frozenset[str], halves: int) -> int:
    fixed = sum(align(r.nbytes) for r in tile.loads if r.tensor in stationary)
    moving = sum(align(r.nbytes) for r in tile.loads if r.tensor not in stationary)
    made = sum(align(r.nbytes) for _, writes in tile.steps for r in writes)
    if len(tile.steps) > 2:
        made = _peak(tile, stationary) - moving
    return fixed + halves * (moving + made)


def _peak(tile: Tile, stationary: frozenset[str]) -> int:
    """Bytes of one tile's area when a region is given up after its last use."""
    last = _last_uses(tile)
    live = sum(align(r.nbytes) for r in tile.loads if r.tensor not in stationary)
    peak = live
    for at, (reads, writes) in enumerate(tile.steps):
        live += sum(align(r.nbytes) for r in writes)
        peak = max(peak, live)
        for region in {id(r): r for _, r in reads}.values():
            if last.get(id(region)) == at and region.tensor not in stationary:
                live -= align(region.nbytes)
    return peak


def _last_uses(tile: Tile) -> dict[int, int]:
    last: dict[int, int] = {}
    for at, (reads, _) in enumerate(tile.steps):
        for _, region in reads:
            last[id(region)] = at
    for region in tile.stores:
        last[id(region)] = len(tile.steps)
    return last


def _place(
    tiles: Sequence[Tile], steps: Sequence[Step], stationary: frozenset[str]
) -> tuple[int, int]:
    """Give every region its offset; returns the sizes of the fixed and the tile area.

    All tiles share one plan, made for the largest region of each slot, so that a
    tile's addresses depend only on its half of the double buffer.
    """
    sizes: dict[Key, int] = {}
    lives: dict[Key, list[int]] = {}
    keys: list[list[tuple[Key, Region]]] = []
    for tile in tiles:
        named: list[tuple[Key, Region]] = []
        seen: dict[int, Key] = {}
        count: dict[str, int] = {}

        def key_of(
            region: Region,
            seen: dict[int, Key] = seen,
            count: dict[str, int] = count,
            named: list[tuple[Key, Region]] = named,
        ) -> Key:
            key = seen.get(id(region))
            if key is None:
                key = (region.tensor, count.get(region.tensor, 0))
                count[region.tensor] = key[1] + 1
                seen[id(region)] = key
                named.append((key, region))
            return key

        for region in tile.loads:
            _live(lives, key_of(region), 0)
        for at, (reads, writes) in enumerate(tile.steps):
            for _, region in reads:
                _live(lives, key_of(region), at)
            for region in writes:
                _live(lives, key_of(region), at)
        for region in tile.stores:
            _live(lives, key_of(region), len(tile.steps))
        for key, region in named:
            sizes[key] = max(sizes.get(key, 0), align(region.nbytes))
        keys.append(named)
    offsets: dict[Key, int] = {}
    fixed = 0
    for key in sizes:
        if key[0] in stationary:
            offsets[key] = fixed
            fixed += sizes[key]
    half = 0
    placed: list[Key] = []
    for key in sorted(
        (k for k in sizes if k[0] not in stationary), key=lambda k: (lives[k][0], -sizes[k])
    ):
        # First fit among the slots that live at the same time.
        taken = sorted(
            (offsets[o], offsets[o] + sizes[o])
            for o in placed
            if lives[o][0] <= lives[key][1] and lives[key][0] <= lives[o][1]
        )
        at = 0
        for low, high in taken:
            if at + sizes[key] <= low:
                break
            at = max(at, high)
        offsets[key] = at
        placed.append(key)
        half = max(half, at + sizes[key])
    for named in keys:
        for key, region in named:
            region.slot = offsets[key]
    return fixed, half


def _live(lives: dict[Key, list[int]], key: Key, at: int) -> None:
    span = lives.setdefault(key, [at, at])
    span[0], span[1] = min(span[0], at), max(span[1], at)
