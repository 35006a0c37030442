"""From tiles to commands: LOAD, KERNEL and STORE rows with addresses and cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npudbg.device.banks import conflict_cycles
from npudbg.device.issue import Issuer, dma_channels
from npudbg.device.kernels.base import Box
from npudbg.device.tiling import Region, Step, Tile, Tiling
from npudbg.device.timing import dma_cycles, kernel_cycles
from npudbg.device.values import Value
from npudbg.session.commands import Kind, Space
from npudbg.targets.profile import Target

# Plain names: reading a member of an IntEnum costs a dictionary of attribute look-ups
# in older Pythons, and this code runs for every command.
LOAD, KERNEL, STORE = Kind.DMA_LOAD, Kind.KERNEL, Kind.DMA_STORE
NONE, DDR, SRAM = int(Space.NONE), int(Space.DDR), int(Space.SRAM)


@dataclass(slots=True)
class Action:
    """What a command does to memory, for a group that is executed byte by byte.

    Attributes:
        seq: The command.
        kind: DMA_LOAD, KERNEL or DMA_STORE.
        step: Position of the kernel in the group; -1 for a transfer.
        region: Region moved; for a kernel the one written.
        address: SRAM address of ``region``.
        output: For a kernel: which of its outputs.
        tile: Tile of the group.
        reads: For a kernel: operand number, region and SRAM address.
    """

    seq: int
    kind: Kind
    step: int
    region: Region
    address: int
    output: int = 0
    tile: int = 0
    reads: tuple[tuple[int, Region, int], ...] = ()


def span(shape: Sequence[int], box: Box, itemsize: int) -> tuple[int, int]:
    """Return offset and length in bytes of the range that encloses a box of a C-order tensor."""
    first = last = 0
    for n, (start, stop) in zip(shape, box, strict=True):
        if stop <= start:
            return 0, 0
        first = first * n + start
        last = last * n + stop - 1
    return first * itemsize, (last - first + 1) * itemsize


class Emitter:
    """Turns tiled groups into commands."""

    def __init__(self, target: Target, issuer: Issuer, dtype: str) -> None:
        """Remember the machine.

        Args:
            target: The profile.
            issuer: Where commands are recorded.
            dtype: Operand type for the matrix array's width.
        """
        self.target, self.issuer, self.dtype = target, issuer, dtype
        self._load_channels, self._store_channel = dma_channels(target, issuer)
        self._turn = 0
        self._sram_free = 0
        self._base = target.memory.sram_base

    def group(
        self, steps: Sequence[Step], tiling: Tiling, values: Mapping[str, Value]
    ) -> list[Action]:
        """Emit a group; returns what each command does to memory."""
        self._resident: dict[tuple[str, int], tuple[Box, int, int]] = {}
        # Another group lays SRAM out anew: nothing is written before the last one is done.
        self._half_free = [self._sram_free, self._sram_free]
        self._fixed_free = self._sram_free
        actions: list[Action] = []
        for number, tile in enumerate(tiling.tiles):
            half = number % tiling.halves
            area = self._base + tiling.fixed_bytes + half * tiling.half_bytes
            self._tile(number, tile, half, area, steps, tiling, values, actions)
        return actions

    def _tile(
        self,
        number: int,
        tile: Tile,
        half: int,
        area: int,
        steps: Sequence[Step],
        tiling: Tiling,
        values: Mapping[str, Value],
        actions: list[Action],
    ) -> None:
        where: dict[int, tuple[int, int, int]] = {}  # region -> address, writer, ready
        for region in tile.loads:
            where[id(region)] = self._load(
                number, region, half, area, steps[0].node, tiling, values, actions
            )
        done = 0
        for at, (step, (reads, writes)) in enumerate(zip(steps, tile.steps, strict=True)):
            done = self._kernel(number, at, step, reads, writes, area, where, values, actions)
        for region in tile.stores:
            done = max(done, self._store(number, region, where, values, actions))
        self._half_free[half] = done
        self._sram_free = max(self._sram_free, done)
        self._fixed_free = max(self._fixed_free, done)

    def _load(
        self,
        number: int,
        region: Region,
        half: int,
        area: int,
        node: int,
        tiling: Tiling,
        values: Mapping[str, Value],
        actions: list[Action],
    ) -> tuple[int, int, int]:
        value = values[region.tensor]
        stays = region.tensor in tiling.stationary
        address = (self._base if stays else area) + region.slot
        if stays:
            known = self._resident.get((region.tensor, region.slot))
            if known is not None and known[0] == region.box:
                return address, known[1], known[2]
        shape, itemsize = value.array.shape, value.array.dtype.itemsize
        offset, length = span(shape, region.box, itemsize)
        channel = self._load_channels[self._turn % len(self._load_channels)]
        self._turn += 1
        earliest = max(value.ready, self._fixed_free if stays else self._half_free[half])
        seq, end = self.issuer.issue(
            LOAD,
            channel,
            dma_cycles(self.target, shape, region.box, itemsize, value.address),
            earliest,
            node=node,
            tensor=value.id,
            tile=number,
            src=(DDR, value.address + offset),
            dst=(SRAM, address),
            nbytes=region.nbytes,
            box=region.box,
        )
        self.issuer.reads(seq, DDR, value.address + offset, length, value.id, -1, value.by)
        if stays:
            self._resident[region.tensor, region.slot] = (region.box, seq, end)
        actions.append(Action(seq, LOAD, -1, region, address, tile=number))
        return address, seq, end

    def _kernel(
        self,
        number: int,
        at: int,
        step: Step,
        reads: Sequence[tuple[int, Region]],
        writes: Sequence[Region],
        area: int,
        where: dict[int, tuple[int, int, int]],
        values: Mapping[str, Value],
        actions: list[Action],
    ) -> int:
        issuer = self.issuer
        engine = issuer.index[step.kernel.engine if step.kernel.engine != "-" else "vec"]
        sources = [(operand, region, *where[id(region)]) for operand, region in reads]
        earliest = max((s[4] for s in sources), default=0)
        first = next((region.box for operand, region in reads if operand == 0), None)
        waits = 0
        if engine == issuer.index["vec"]:
            waits = conflict_cycles(self.target.memory, [(s[2], s[1].nbytes) for s in sources])
        done = 0
        start = earliest
        for i, region in enumerate(writes):
            address = area + region.slot
            cycles = (
                kernel_cycles(self.target, step.kernel, step.op, region.box, first, self.dtype)
                + waits
                if i == 0
                else done - start
            )
            seq, end = issuer.issue(
                KERNEL,
                engine,
                cycles,
                earliest if i == 0 else start,
                node=step.node,
                tensor=values[region.tensor].id,
                tile=number,
                src=(SRAM, sources[0][2]) if sources else (NONE, 0),
                dst=(SRAM, address),
                nbytes=region.nbytes,
                box=region.box,
                after=i == 0,
            )
            start, done = end - cycles, end
            for operand, source, place, by, _ in sources:
                issuer.reads(seq, SRAM, place, source.nbytes, values[source.tensor].id, operand, by)
            where[id(region)] = (address, seq, end)
            actions.append(
                Action(
                    seq,
                    KERNEL,
                    at,
                    region,
                    address,
                    step.writes.index(region.tensor),
                    number,
                    tuple((s[0], s[1], s[2]) for s in sources),
                )
            )
        return done

    def _store(
        self,
        number: int,
        region: Region,
        where: Mapping[int, tuple[int, int, int]],
        values: Mapping[str, Value],
        actions: list[Action],
    ) -> int:
        value = values[region.tensor]
        address, by, ready = where[id(region)]
        shape, itemsize = value.array.shape, value.array.dtype.itemsize
        offset, length = span(shape, region.box, itemsize)
        seq, end = self.issuer.issue(
            STORE,
            self._store_channel,
            dma_cycles(self.target, shape, region.box, itemsize, value.address),
            ready,
            node=value.producer,
            tensor=value.id,
            tile=number,
            src=(SRAM, address),
            dst=(DDR, value.address + offset),
            nbytes=length,
            box=region.box,
        )
        self.issuer.reads(seq, SRAM, address, region.nbytes, value.id, -1, by)
        value.by = seq
        value.first = seq if value.first < 0 else value.first
        value.ready = max(value.ready, end)
        actions.append(Action(seq, STORE, -1, region, address, tile=number))
        return end
