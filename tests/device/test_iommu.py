"""The page table against a model that keeps every byte, and counters of a run that stopped."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.device.iommu import Iommu
from npudbg.device.issue import Issuer
from npudbg.session.commands import Kind, Status
from npudbg.targets import loader as targets

PAGE = 256


def iommu(mask_bits=None, present=True):
    base = targets.load("generic")
    return Iommu(
        msgspec.structs.replace(
            base,
            memory=msgspec.structs.replace(base.memory, page_bytes=PAGE),
            dma=msgspec.structs.replace(base.dma, mask_bits=mask_bits, iommu=present),
        )
    )


class Naive:
    """What each byte allows: the pages of live buffers, less what was dropped since."""

    def __init__(self):
        self.live, self.gone, self.read_only = [], set(), set()

    def pages(self, address, nbytes):
        return {a // PAGE for a in range(address, address + nbytes)}

    def unmap(self, buffer):
        self.live.remove(buffer)
        left = set().union(*(self.pages(*b) for b in self.live)) if self.live else set()
        self.gone &= left
        self.read_only &= left

    def refusal(self, address, nbytes, write):
        mapped = set().union(*(self.pages(*b) for b in self.live)) if self.live else set()
        for a in range(address, address + nbytes):
            if a // PAGE not in mapped or a // PAGE in self.gone:
                return a, "unmapped"
            if write and a // PAGE in self.read_only:
                return a, "read-only"
        return None


STEP = st.tuples(
    st.sampled_from(["map", "unmap", "drop", "protect", "ask"]),
    st.integers(0, 2000),
    st.integers(1, 700),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(STEP, max_size=30))
def test_against_a_model_of_every_byte(steps):
    device, model = iommu(), Naive()
    for what, address, nbytes, write in steps:
        if what == "map":
            device.map(address, nbytes)
            model.live.append((address, nbytes))
        elif what == "unmap":
            if model.live:
                buffer = model.live[address % len(model.live)]
                device.unmap(*buffer)
                model.unmap(buffer)
        elif what in ("drop", "protect") and model.live:
            # A driver's mistake strikes a buffer that there is.
            buffer = model.live[address % len(model.live)]
            getattr(device, what)(*buffer)
            (model.gone if what == "drop" else model.read_only).update(model.pages(*buffer))
        assert device.refusal(address, nbytes, write=write) == model.refusal(address, nbytes, write)


def test_the_mask_goes_before_the_pages():
    device = iommu(mask_bits=12)
    device.map(0, 1 << 13)
    assert device.refusal(0xF00, 256, write=True) is None
    assert device.refusal(0xF00, 257, write=True) == (0x1000, "beyond-mask")
    assert device.refusal(0x1800, 1, write=False) == (0x1800, "beyond-mask")


def test_without_an_iommu_only_the_mask_refuses():
    device = iommu(mask_bits=12, present=False)
    assert device.refusal(0, 4096, write=True) is None
    assert device.refusal(0, 4097, write=True) == (4096, "beyond-mask")


def test_cycles_of_commands_that_were_never_run_do_not_count():
    issuer = Issuer(targets.load("generic"))
    mac = issuer.index["mac"]
    first, _ = issuer.issue(Kind.KERNEL, mac, 100)
    second, _ = issuer.issue(Kind.KERNEL, mac, 70)
    issuer.issue(Kind.KERNEL, mac, 70, after=False)  # a second result costs nothing more
    issuer.issue(Kind.KERNEL, mac, 1000)
    assert issuer.busy[mac] == 1170
    issuer.cut_after(second)
    assert issuer.busy[mac] == 170
    issuer.never_taken(second)
    assert issuer.busy[mac] == 100
    rows, _ = issuer.take()
    assert rows["seq"].tolist() == [first, second]
    assert rows["status"].tolist() == [Status.OK, Status.NOT_STARTED]
    issuer.issue(Kind.KERNEL, mac, 5)
    issuer.cut_after(second)
    assert issuer.busy[mac] == 100
