"""What a device or the CPU reads where cache maintenance was left out.

Each function plays the accesses of one mistake through the CPU's cache and memory, in
the order in which they happen, and returns the bytes that come out of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from npudbg.device.hostcache import HostCache, Ram
from npudbg.targets.profile import Cache

LINE_BYTES = 64
"""Where a profile does not say: the line of every 64-bit Arm core that Linux runs on."""


def line_bytes(cache: Cache) -> int:
    """Return the size of a line of the host's cache, bytes."""
    return cache.line_bytes or LINE_BYTES


def _over(cache: Cache, address: int, nbytes: int, more: int = 0) -> tuple[Ram, HostCache]:
    """Return memory that holds a range in whole lines, and an empty cache over it."""
    line = line_bytes(cache)
    low = address // line * line
    high = -(-(address + nbytes) // line) * line
    ram = Ram(low - more, high - low + 2 * more)
    return ram, HostCache(ram, line, cache.size_bytes)


def read_unflushed(cache: Cache, address: int, before: bytes, now: bytes) -> bytes:
    """Return what a device reads of a buffer that the CPU filled and no one cleaned.

    Lines that the cache had to give up while the buffer was filled are in memory; of
    the others memory holds the frame before.

    Args:
        cache: The host's cache.
        address: Of the buffer.
        before: Its bytes of the frame before, in memory.
        now: What the CPU stores.
    """
    ram, held = _over(cache, address, len(now))
    ram.write(address, before)
    held.write(address, now)
    return ram.read(address, len(now))


def read_undropped(cache: Cache, address: int, before: bytes, result: bytes) -> bytes:
    """Return what the CPU reads of an output whose lines it still holds.

    Args:
        cache: The host's cache.
        address: Of the output.
        before: What the CPU had stored there (and cleaned) before the job.
        result: What the device stores, past the cache.
    """
    ram, held = _over(cache, address, len(result))
    held.write(address, before)
    held.clean(address, len(before))
    ram.write(address, result)
    return held.read(address, len(result))


def after_eviction(
    cache: Cache, address: int, before: bytes, result: bytes, number: int
) -> tuple[bytes, int, int]:
    """Return an output's bytes once a dirty line over it has left the cache.

    Args:
        cache: The host's cache.
        address: Of the output.
        before: What the CPU had stored there and never cleaned.
        result: What the device stores, past the cache.
        number: Which of the output's lines is evicted, modulo their count.

    Returns:
        The output's bytes in memory; address and length of the output's part of the line.
    """
    line = line_bytes(cache)
    ram, held = _over(cache, address, len(result))
    # Only this line is still in the cache; all others were evicted before the job, in time.
    first = address // line
    count = (address + len(result) - 1) // line - first + 1
    start = (first + number % count) * line
    low, high = max(start, address), min(start + line, address + len(result))
    held.write(low, before[low - address : high - address])
    ram.write(address, result)
    held.evict(start)
    return ram.read(address, len(result)), low, high - low


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What shares a cache line with a buffer.

    Attributes:
        name: Of the input that lies there; None for something else of the program's.
        line: Address of the shared line.
    """

    name: str | None
    line: int


def neighbour_of(
    cache: Cache, address: int, nbytes: int, others: dict[str, tuple[int, int]]
) -> Neighbour | None:
    """Return what shares the first or last cache line of a buffer; None if nothing can.

    Args:
        cache: The host's cache.
        address: Of the buffer.
        nbytes: Its size.
        others: Address and size of the program's other buffers, by name.
    """
    line = line_bytes(cache)
    head, tail = address // line * line, (address + nbytes - 1) // line * line
    for name, (start, size) in others.items():
        for shared in (head, tail):
            if start < shared + line and start + size > shared:
                return Neighbour(name, shared)
    if address % line:
        return Neighbour(None, head)
    return Neighbour(None, tail) if (address + nbytes) % line else None


def read_torn(
    cache: Cache, address: int, before: bytes, now: bytes, shared: int, touched: int
) -> bytes:
    """Return a buffer's bytes after its neighbour in a cache line was written back.

    The buffer is filled by another device (a camera), past the CPU's cache.  The CPU
    wrote the neighbour before that, and so fetched the whole line with the buffer's old
    bytes; cleaning the neighbour afterwards puts them back.

    Args:
        cache: The host's cache.
        address: Of the buffer.
        before: Its bytes of the frame before.
        now: What the other device stores.
        shared: Address of the shared line.
        touched: Address in that line of a byte of the neighbour's.
    """
    ram, held = _over(cache, address, len(now), line_bytes(cache))
    ram.write(address, before)
    held.write(touched, ram.read(touched, 1))
    ram.write(address, now)
    held.clean(shared, 1)
    return ram.read(address, len(now))
