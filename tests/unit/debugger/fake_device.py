"""A tiny device that writes real, consistent sessions, and knows every byte it ever wrote.

What each command wrote is kept as plain pairs of addresses and bytes, computed by
indexing alone; the oracle replays them one by one and shares no code with the debugger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from npudbg.session.commands import ACCESS, COMMAND, Kind, Space, Status
from npudbg.session.records import (
    Counter,
    Finding,
    MemoryRegion,
    Meta,
    NodeRecord,
    Subject,
    TensorRecord,
    Verdict,
)
from npudbg.session.scan import scan
from npudbg.session.writer import SessionWriter

DDR, SRAM = 0x4000_0000, 0x100
DDR_BYTES, SRAM_BYTES = 16384, 2048
ENGINES = ("dma0", "dma1", "mac", "vec", "host")


@dataclass
class Event:
    """Bytes that came to lie in memory after a command (writer -1: by none)."""

    seq: int
    writer: int
    space: int
    places: np.ndarray
    data: np.ndarray


@dataclass(repr=False)
class Fake:
    """A session under construction, then what is known of it."""

    path: Path
    tensors: dict[int, TensorRecord] = field(default_factory=dict)
    arrays: dict[int, np.ndarray] = field(default_factory=dict)
    history: dict[int, list[tuple[int, np.ndarray, np.ndarray]]] = field(default_factory=dict)
    nodes: list[NodeRecord] = field(default_factory=list)
    rows: list[tuple] = field(default_factory=list)
    reads: list[tuple] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    statics: list[tuple[int, int]] = field(default_factory=list)
    payloads: dict[int, bytes] = field(default_factory=dict)
    observed: dict[tuple[int, int], bytes] = field(default_factory=dict)
    clock: int = 0

    # -- building ------------------------------------------------------------------------

    def tensor(self, name, array, role="activation", address=None, producer=-1):
        number = len(self.tensors)
        self.arrays[number] = array
        self.history[number] = []
        self.tensors[number] = TensorRecord(
            id=number, name=name, role=role, shape=array.shape, dtype=array.dtype.str,
            strides=array.strides, address=address, space="ddr", base_nbytes=array.nbytes,
            producer=producer, owner="device", stats=scan(array),
        )  # fmt: skip
        return number

    def change(self, number, **what):
        import msgspec

        self.tensors[number] = msgspec.structs.replace(self.tensors[number], **what)

    def issue(self, kind, engine, node, tensor, tile, src, dst, nbytes, box, status=Status.OK):
        seq = len(self.rows)
        full = [(0, 1)] * 6
        full[: len(box)] = box
        if box == ():
            full = [(0, 0)] * 6 if kind in (Kind.FLUSH, Kind.WAIT, Kind.INVALIDATE) else full
        cost = 10 + nbytes // 8
        self.rows.append(
            (seq, self.clock, self.clock + cost, src[1], dst[1], nbytes, node, tensor, tile,
             kind, ENGINES.index(engine), status, src[0], dst[0], 0, 0, full)
        )  # fmt: skip
        self.clock += cost // 2 + 1
        return seq

    def offsets(self, tensor, box):
        """Byte offsets of a box in its C-order tensor, in C order of the box."""
        array = self.arrays[tensor]
        grid = np.arange(array.nbytes).reshape((*array.shape, array.dtype.itemsize))
        return grid[tuple(slice(a, b) for a, b in box)].reshape(-1)

    def packed(self, tensor, box):
        part = self.arrays[tensor][tuple(slice(a, b) for a, b in box)]
        return np.frombuffer(np.ascontiguousarray(part).tobytes(), np.uint8)

    def load(self, node, tensor, tile, box, slot, by):
        places = self.offsets(tensor, box)
        address = self.tensors[tensor].address
        data = self.packed(tensor, box)
        seq = self.issue(
            Kind.DMA_LOAD, "dma0", node, tensor, tile, (Space.DDR, address + int(places[0])),
            (Space.SRAM, slot), len(data), box,
        )  # fmt: skip
        span = int(places[-1] - places[0] + 1)
        self.reads.append((seq, address + int(places[0]), span, tensor, -1, Space.DDR, 0, by))
        self.events.append(Event(seq, seq, Space.SRAM, slot + np.arange(len(data)), data))
        return seq

    def kernel(self, node, tensor, tile, box, slot, operands, payload=None, status=Status.OK):
        data = self.packed(tensor, box)
        seq = self.issue(
            Kind.KERNEL, "mac", node, tensor, tile, (Space.SRAM, operands[0][1]),
            (Space.SRAM, slot), len(data), box, status,
        )  # fmt: skip
        for number, (source, place, size, by) in enumerate(operands):
            self.reads.append((seq, place, size, source, number, Space.SRAM, 0, by))
        if status == Status.HUNG:
            return seq
        if payload is not None:
            self.payloads[seq] = payload.tobytes()
            data = payload
        self.events.append(Event(seq, seq, Space.SRAM, slot + np.arange(len(data)), data))
        self.history[tensor].append((seq, self.offsets(tensor, box), data))
        return seq

    def store(self, node, tensor, tile, box, slot, by):
        places = self.offsets(tensor, box)
        address = self.tensors[tensor].address
        data = self.packed(tensor, box)
        seq = self.issue(
            Kind.DMA_STORE, "dma1", node, tensor, tile, (Space.SRAM, slot),
            (Space.DDR, address + int(places[0])), int(places[-1] - places[0] + 1), box,
        )  # fmt: skip
        self.reads.append((seq, slot, len(data), tensor, -1, Space.SRAM, 0, by))
        self.events.append(Event(seq, seq, Space.DDR, address + places, data))
        self.history[tensor].append((seq, places, data))
        return seq

    def host(self, node, tensor, kind=Kind.HOST, src=(Space.NONE, 0)):
        array, address = self.arrays[tensor], self.tensors[tensor].address
        box = [(0, n) for n in array.shape]
        goal = (Space.DDR, address)
        seq = self.issue(kind, "host", node, tensor, -1, src, goal, array.nbytes, box)
        places, data = np.arange(array.nbytes), self.packed(tensor, box)
        self.events.append(Event(seq, seq, Space.DDR, address + places, data))
        self.history[tensor].append((seq, places, data))
        return seq

    def write_back(self, tensor, offset, data):
        """A dirty line of the host's cache falls on a tensor; its recorded bytes stay."""
        address = self.tensors[tensor].address + offset
        seq = self.issue(
            Kind.FLUSH, "host", -1, tensor, -1, (Space.HOST, address), (Space.DDR, address),
            len(data), (),
        )  # fmt: skip
        self.payloads[seq] = data.tobytes()
        self.events.append(Event(seq, seq, Space.DDR, address + np.arange(len(data)), data))
        self.history[tensor].append((seq, offset + np.arange(len(data)), data))
        return seq

    def poke(self, seq, operand, place, data):
        """A kernel finds bytes that no command had written (it is issued already)."""
        before = self.memory(Space.SRAM, place, len(data), seq)[0]
        self.observed[seq, operand] = data.tobytes()
        other = np.flatnonzero(np.frombuffer(before, np.uint8) != data)
        # Found before the kernel wrote: what it wrote itself lies over it.
        own = next(i for i, e in enumerate(self.events) if e.writer == seq)
        self.events.insert(own, Event(seq, -2, Space.SRAM, place + other, data[other]))

    def node(self, op, name, inputs, outputs, first, **what):
        self.nodes.append(
            NodeRecord(
                index=len(self.nodes), name=name, op_type=op, inputs=tuple(inputs),
                outputs=tuple(outputs), kernel=what.pop("kernel", op.lower()), engine="mac",
                group=len(self.nodes), first_seq=first,
                last_seq=len(self.rows) - 1 if first >= 0 else -1, **what,
            )
        )  # fmt: skip

    def save(self):
        writer = SessionWriter(self.path)
        consumers = {}
        for node in self.nodes:
            writer.add_node(node)
            for each in node.inputs:
                consumers.setdefault(each, []).append(node.index)
        for number in list(self.tensors):
            self.change(number, consumers=tuple(consumers.get(number, ())),
                        blob=writer.put_array(self.arrays[number]))  # fmt: skip
            writer.add_tensor(self.tensors[number])
        rows = np.array(self.rows, COMMAND)
        for at in range(0, len(rows), 37):
            writer.append_commands(rows[at : at + 37])
        writer.append_accesses(np.array(self.reads, ACCESS))
        for seq, data in self.payloads.items():
            writer.put_payload(seq, data)
        for (seq, operand), data in self.observed.items():
            writer.put_observed(seq, operand, data)
        writer.set_counters([Counter(name="pe_utilisation", value=0.36, unit="fraction")])
        writer.add_findings(
            [Finding(code="O401", name="non-finite-origin", layer=4, severity="error",
                     certainty="proven", message="NaN", subject=Subject(kind="command", seq=9))]
        )  # fmt: skip
        writer.set_verdict(Verdict(layer=4, code="O401", summary="NaN", finding=0))
        writer.set_meta(
            Meta(target="generic", engines=ENGINES, clock_hz=1_000_000_000, regions=(
                MemoryRegion(space="ddr", base=DDR, nbytes=DDR_BYTES),
                MemoryRegion(space="sram", base=0, nbytes=SRAM_BYTES + SRAM),
            ))
        )  # fmt: skip
        return writer.close()

    # -- the oracle ----------------------------------------------------------------------

    def since(self, number):
        firsts = [n.first_seq for n in self.nodes if number in n.inputs and n.first_seq >= 0]
        return min(firsts, default=0)

    def memory(self, space, address, nbytes, seq):
        """Bytes, whether known, and writers: by replaying everything from the start."""
        data = np.zeros(nbytes, np.uint8)
        known = np.zeros(nbytes, bool)
        writers = np.full(nbytes, -1)

        def lay(writer, places, what):
            mine = (places >= address) & (places < address + nbytes)
            data[places[mine] - address] = what[mine]
            known[places[mine] - address] = True
            writers[places[mine] - address] = writer

        placed = []
        if space == Space.DDR:
            for number, record in self.tensors.items():
                if record.first_seq < 0 and record.address is not None:
                    raw = np.frombuffer(self.arrays[number].tobytes(), np.uint8)
                    placed.append((self.since(number), record.address + np.arange(len(raw)), raw))
        for _, places, raw in sorted(placed, key=lambda p: -p[0]):
            lay(-1, places, raw)
        moments = [(e.seq, 0, i) for i, e in enumerate(self.events) if e.space == space]
        moments += [(since - 1, 1, i) for i, (since, _, _) in enumerate(placed) if since > 0]
        for when, is_placed, i in sorted(moments):
            if when > seq:
                break
            if is_placed:
                lay(-1, placed[i][1], placed[i][2])
            else:
                lay(self.events[i].writer, self.events[i].places, self.events[i].data)
        return data.tobytes(), known, writers

    def values(self, number, seq):
        """A tensor's bytes after a command, and which had been made."""
        array = self.arrays[number]
        raw = np.zeros(array.nbytes, np.uint8)
        made = np.zeros(array.nbytes, bool)
        if not self.history[number]:
            return np.frombuffer(array.tobytes(), np.uint8), ~made
        for when, places, data in self.history[number]:
            if when <= seq:
                raw[places], made[places] = data, True
        return raw, made


def build(path: Path, seed: int = 0, nodes: int = 6) -> Fake:
    """Write a session of ``nodes`` nodes with tiles, reuse of both memories, and every oddity."""
    rng = np.random.default_rng(seed)
    fake = Fake(Path(path))
    taken = [(DDR, 0)]

    def place(nbytes):
        # Places are reused in turn, so that later tensors cover earlier ones.
        base, used = taken[0]
        if used + nbytes > DDR_BYTES // 3:
            used = 0
        taken[0] = (base, used + nbytes + 16)
        return base + used

    shape = (2, 6, 8)
    image = rng.standard_normal(shape).astype("<f4")
    source = fake.tensor("image@ddr", image, "input", place(image.nbytes))
    first = fake.host(-1, source, Kind.DMA_LOAD, (Space.HOST, 0x7000))
    fake.change(source, first_seq=first, last_seq=first)
    fake.issue(Kind.FLUSH, "host", -1, source, -1, (Space.HOST, 0x7000), (Space.NONE, 0), 64, ())
    by = first
    for number in range(nodes):
        dtype = ("<f4", "<f2", "|i1")[number % 3]
        value = (rng.standard_normal(shape) * 50).astype(dtype)
        address = DDR + DDR_BYTES // 3 + (number % 2) * 1024
        weight = fake.tensor(
            f"/w{number}", rng.standard_normal((4, 5)).astype("<f4"), "weight",
            # Over what an earlier tensor has left there, where it was longer than this one.
            place(80) if number % 2 else address + 200,
        )  # fmt: skip
        out = fake.tensor(f"t{number}", value, "activation", address, number)
        begin = len(fake.rows)
        if number % 4 == 3:
            fake.issue(Kind.WAIT, "host", number, -1, -1, (Space.NONE, 0), (Space.NONE, 0), 0, ())
            by = fake.host(number, out)
            fake.change(out, first_seq=by, last_seq=by)
            fake.node("NonZero", f"node{number}", (source, weight), (out,), begin, kernel="host")
            source = out
            continue
        halves = 2
        cuts = [0, 2, 5, 8] if number % 2 else [0, 4, 8]
        fixed = fake.load(number, weight, 0, [(0, 4), (0, 5)], SRAM, -1)
        stores = []
        for tile, (low, high) in enumerate(pairwise(cuts)):
            box = [(0, 2), (tile * 3, tile * 3 + 3), (0, 8)]
            if number % 2:
                box = [(0, 2), (0, 6), (low, high)]
            area = SRAM + 128 + (tile % halves) * 800
            size = len(fake.packed(source, box))
            got = fake.load(number, source, tile, box, area, by)
            payload = None
            if number == 1 and tile == 1:
                payload = rng.integers(0, 256, len(fake.packed(out, box)), dtype=np.uint8)
            made = fake.kernel(
                number, out, tile, box, area + 400,
                [(source, area, size, got), (weight, SRAM, 80, fixed)], payload,
            )  # fmt: skip
            if number == 2 and tile == 0:
                changed = fake.packed(source, box).copy()
                changed[5] ^= 0x40
                fake.poke(made, 0, area, changed)
            stores.append(fake.store(number, out, tile, box, area + 400, made))
        by = stores[-1]
        fake.change(out, first_seq=stores[0], last_seq=by)
        op = ("Conv", "Relu", "Add")[number % 3]
        fake.node(op, f"node{number}", (source, weight), (out,), begin, tiles=len(stores))
        source = out
    fake.write_back(source, 8, np.full(16, 0xEE, np.uint8))
    fake.issue(Kind.WAIT, "host", -1, -1, -1, (Space.NONE, 0), (Space.NONE, 0), 0, ())
    fake.kernel(nodes - 1, source, 9, [(0, 1), (0, 1), (0, 1)], SRAM, [(source, SRAM, 4, -1)],
                status=Status.HUNG)  # fmt: skip
    fake.save()
    return fake
