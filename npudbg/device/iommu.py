"""Addresses that the DMA engine issues: the wires it has, and the pages that are mapped."""

from __future__ import annotations

from collections import Counter

from npudbg.session.refusals import Reason
from npudbg.targets.profile import Target


class Iommu:
    """Which pages of device memory a transfer may read and write.

    A page is mapped while an allocation lies on it; buffers smaller than a page share
    one, and then share its fate.  Mappings map one to one: an address of the device is
    the address that the driver gave out (IOVA).

    Args:
        target: The profile: width of an address, size of a page, whether there is an
            IOMMU at all.
    """

    def __init__(self, target: Target) -> None:
        """Start with nothing mapped."""
        self.page_bytes = target.memory.page_bytes
        self.present = target.dma.iommu
        self._mask = target.dma.mask_bits
        self._users: Counter[int] = Counter()
        self._dropped: set[int] = set()
        self._read_only: set[int] = set()

    def map(self, address: int, nbytes: int) -> None:
        """A buffer was allocated."""
        self._users.update(self._pages(address, nbytes))

    def unmap(self, address: int, nbytes: int) -> None:
        """A buffer was given back; pages that no other buffer lies on go."""
        for page in self._pages(address, nbytes):
            self._users[page] -= 1
            if self._users[page] <= 0:
                del self._users[page]
                self._dropped.discard(page)
                self._read_only.discard(page)

    def drop(self, address: int, nbytes: int) -> None:
        """A driver's mistake: a buffer that is in use has no mapping (any more)."""
        self._dropped.update(self._pages(address, nbytes))

    def protect(self, address: int, nbytes: int) -> None:
        """A driver's mistake: a buffer is mapped for reading only."""
        self._read_only.update(self._pages(address, nbytes))

    def beyond_mask(self, address: int, nbytes: int) -> int | None:
        """Return the first address of a range that the engine cannot issue, or None."""
        if self._mask is None or address + nbytes <= 1 << self._mask:
            return None
        return max(address, 1 << self._mask)

    def refusal(self, address: int, nbytes: int, *, write: bool) -> tuple[int, Reason] | None:
        """Return the first address of a transfer that is refused and why, or None.

        Args:
            address: Where it begins.
            nbytes: How far it reaches.
            write: Whether the device writes there.
        """
        beyond = self.beyond_mask(address, nbytes)
        if beyond is not None:
            return beyond, "beyond-mask"
        if not self.present:
            return None
        for page in self._pages(address, nbytes):
            first = max(address, page * self.page_bytes)
            if page not in self._users or page in self._dropped:
                return first, "unmapped"
            if write and page in self._read_only:
                return first, "read-only"
        return None

    def _pages(self, address: int, nbytes: int) -> range:
        return range(address // self.page_bytes, -(-(address + nbytes) // self.page_bytes))
