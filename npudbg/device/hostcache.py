"""The CPU's cache over memory that a device writes and reads past it.

Whole lines, write-back, write-allocate, least recently used first out.  Where caches
are not coherent nothing here looks at what the device does: it is the driver that has
to clean lines before the device reads, and to drop them before the CPU reads.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from npudbg.device.memory import OPEN_BUS


class Ram:
    """A range of memory as a device sees it.

    Args:
        base: First address.
        nbytes: Size; beyond it reads give an open bus and writes are lost.
    """

    def __init__(self, base: int, nbytes: int) -> None:
        """Start with an open bus everywhere."""
        self.base, self.data = base, bytearray([OPEN_BUS]) * nbytes

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a range's bytes."""
        low, high = self._within(address, nbytes)
        if low >= high:
            return bytes([OPEN_BUS]) * nbytes
        found = bytes(self.data[low - self.base : high - self.base])
        before, after = low - address, address + nbytes - high
        return bytes([OPEN_BUS]) * before + found + bytes([OPEN_BUS]) * after

    def write(self, address: int, data: bytes) -> None:
        """Change a range's bytes."""
        low, high = self._within(address, len(data))
        if low < high:
            self.data[low - self.base : high - self.base] = data[low - address : high - address]

    def _within(self, address: int, nbytes: int) -> tuple[int, int]:
        return max(address, self.base), min(address + nbytes, self.base + len(self.data))


@dataclass(slots=True)
class _Line:
    data: bytearray
    dirty: bool = False


class HostCache:
    """Lines of a memory that the CPU holds copies of.

    Args:
        ram: The memory behind it.
        line_bytes: Size of a line, bytes.
        size_bytes: How much fits; None for no limit.
    """

    def __init__(self, ram: Ram, line_bytes: int, size_bytes: int | None = None) -> None:
        """Start empty."""
        self.ram, self.line_bytes = ram, line_bytes
        self._most = max(size_bytes // line_bytes, 1) if size_bytes else None
        self._lines: OrderedDict[int, _Line] = OrderedDict()

    def write(self, address: int, data: bytes) -> None:
        """CPU stores: lines are fetched first, also those that are overwritten in part."""
        size = self.line_bytes
        for start in self._starts(address, len(data)):
            line = self._fetch(start)
            low, high = max(start, address), min(start + size, address + len(data))
            line.data[low - start : high - start] = data[low - address : high - address]
            line.dirty = True

    def read(self, address: int, nbytes: int) -> bytes:
        """CPU loads: what is in the cache is not asked of memory again."""
        starts = self._starts(address, nbytes)
        found = b"".join(bytes(self._fetch(start).data) for start in starts)
        skipped = address - starts.start
        return found[skipped : skipped + nbytes]

    def clean(self, address: int, nbytes: int) -> int:
        """Write dirty lines of a range back, whole; returns how many there were."""
        held = self._held(address, nbytes)
        return sum(self._write_back(start) for start in held)

    def invalidate(self, address: int, nbytes: int) -> int:
        """Drop lines of a range, whole and whatever they hold; returns how many were dirty."""
        held = self._held(address, nbytes)
        return sum(self._lines.pop(start).dirty for start in held)

    def evict(self, address: int) -> bool:
        """Make room for another line: write the one at an address back if it is dirty."""
        start = address // self.line_bytes * self.line_bytes
        if start not in self._lines:
            return False
        written = self._write_back(start)
        del self._lines[start]
        return written

    def _starts(self, address: int, nbytes: int) -> range:
        size = self.line_bytes
        return range(address // size * size, address + nbytes, size) if nbytes else range(0)

    def _held(self, address: int, nbytes: int) -> list[int]:
        return [start for start in self._starts(address, nbytes) if start in self._lines]

    def _fetch(self, start: int) -> _Line:
        line = self._lines.get(start)
        if line is None:
            if self._most is not None and len(self._lines) >= self._most:
                oldest = next(iter(self._lines))
                self._write_back(oldest)
                del self._lines[oldest]
            line = _Line(bytearray(self.ram.read(start, self.line_bytes)))
            self._lines[start] = line
        else:
            self._lines.move_to_end(start)
        return line

    def _write_back(self, start: int) -> bool:
        line = self._lines[start]
        if line.dirty:
            self.ram.write(start, bytes(line.data))
            line.dirty = False
            return True
        return False
