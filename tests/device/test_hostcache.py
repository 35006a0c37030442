"""The CPU's cache against a naive model of it, and what mistakes of maintenance leave behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudbg.device import coherency
from npudbg.device.hostcache import HostCache, Ram
from npudbg.targets.profile import Cache

BASE, SIZE, LINE = 0x1000, 256, 16


class Naive:
    """Every byte on its own: in memory, perhaps in the cache, perhaps dirty with its line."""

    def __init__(self, lines):
        self.ram = [0xFF] * SIZE
        self.cached: dict[int, int] = {}
        self.order: list[int] = []  # lines, least recently used first
        self.dirty: set[int] = set()
        self.lines = lines

    def _touch(self, line):
        if line in self.order:
            self.order.remove(line)
        else:
            if self.lines and len(self.order) >= self.lines:
                self.drop(self.order[0], write=True)
            for i in range(line * LINE, (line + 1) * LINE):
                self.cached[i] = self.ram[i]
        self.order.append(line)

    def drop(self, line, *, write):
        if write:
            self.write_back(line)
        self.dirty.discard(line)
        self.order.remove(line)
        for i in range(line * LINE, (line + 1) * LINE):
            del self.cached[i]

    def write_back(self, line):
        if line in self.dirty:
            for i in range(line * LINE, (line + 1) * LINE):
                self.ram[i] = self.cached[i]
        self.dirty.discard(line)

    def step(self, what, at, data):
        lines = range(at // LINE, (at + len(data) - 1) // LINE + 1)
        if what == "device":
            self.ram[at : at + len(data)] = data
        elif what in ("write", "read"):
            out = []
            for line in lines:
                self._touch(line)
                for i in range(max(at, line * LINE), min(at + len(data), (line + 1) * LINE)):
                    if what == "write":
                        self.cached[i] = data[i - at]
                        self.dirty.add(line)
                    out.append(self.cached[i])
            return bytes(out)
        else:
            for line in lines:
                if line in self.order:
                    if what == "clean":
                        self.write_back(line)
                    else:
                        self.drop(line, write=what == "evict")
        return None


STEP = st.tuples(
    st.sampled_from(["write", "read", "device", "clean", "invalidate", "evict"]),
    st.integers(0, SIZE - 1),
    st.binary(min_size=1, max_size=48),
)


@given(st.lists(STEP, max_size=40), st.sampled_from([None, 1, 2, 5]))
def test_the_cache_is_the_naive_one(steps, lines):
    naive = Naive(lines)
    ram = Ram(BASE, SIZE)
    cache = HostCache(ram, LINE, lines * LINE if lines else None)
    for what, at, data in steps:
        data = data[: SIZE - at]
        if what == "evict":
            data = data[:1]
        said = naive.step(what, at, data)
        if what == "device":
            ram.write(BASE + at, data)
        elif what == "write":
            cache.write(BASE + at, data)
        elif what == "read":
            assert cache.read(BASE + at, len(data)) == said
        elif what == "clean":
            cache.clean(BASE + at, len(data))
        elif what == "invalidate":
            cache.invalidate(BASE + at, len(data))
        else:
            cache.evict(BASE + at)
        assert ram.read(BASE, SIZE) == bytes(naive.ram)


def test_memory_beyond_its_end_is_an_open_bus():
    ram = Ram(BASE, 16)
    ram.write(BASE + 12, bytes(8))
    assert ram.read(BASE + 8, 12) == b"\xff" * 4 + bytes(4) + b"\xff" * 4
    assert ram.read(BASE + 64, 4) == b"\xff" * 4


def test_an_unflushed_buffer_is_old_where_the_cache_still_holds_it():
    old, new = bytes([1]) * 256, bytes([2]) * 256
    assert coherency.read_unflushed(Cache(line_bytes=64), 0, old, new) == old
    # Two lines fit: the first two of four were given up while the buffer was filled.
    small = Cache(line_bytes=64, size_bytes=128)
    assert coherency.read_unflushed(small, 0, old, new) == new[:128] + old[128:]


def test_an_undropped_output_is_old_where_the_cache_still_holds_it():
    result = bytes([3]) * 256
    assert coherency.read_undropped(Cache(line_bytes=64), 0, bytes(256), result) == bytes(256)
    # Reading the output pushes out, one by one, the lines that would still have been hit.
    small = Cache(line_bytes=64, size_bytes=128)
    assert coherency.read_undropped(small, 0, bytes(256), result) == result


@pytest.mark.parametrize(
    ("address", "number", "expected"),
    [
        (0x40, 1, (0x80, 64)),
        (0x50, 0, (0x50, 48)),  # the line's first 16 bytes are someone else's
        (0x50, 2, (0xC0, 64)),
    ],
)
def test_a_late_write_back_costs_one_line(address, number, expected):
    result = bytes(range(176))
    held, low, length = coherency.after_eviction(
        Cache(line_bytes=64), address, bytes(176), result, number
    )
    assert (low, length) == expected
    at = low - address
    assert held == result[:at] + bytes(length) + result[at + length :]


def test_a_torn_line_gives_back_its_part_of_the_frame_before():
    old, new = bytes([1]) * 100, bytes([2]) * 100
    beside = coherency.neighbour_of(Cache(line_bytes=64), 0x4C, 100, {"left": (0, 0x4C)})
    assert beside == coherency.Neighbour("left", 0x40)
    held = coherency.read_torn(Cache(line_bytes=64), 0x4C, old, new, 0x40, 0x40)
    assert held == old[:52] + new[52:]  # 0x4C to 0x7F


def test_whole_lines_have_no_neighbour():
    cache = Cache(line_bytes=64)
    assert coherency.neighbour_of(cache, 0x40, 128, {"other": (0xC0, 64)}) is None
    assert coherency.neighbour_of(cache, 0x40, 100, {}) == coherency.Neighbour(None, 0x80)
