"""Transfers: a region's descriptor against NumPy's own strides, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudbg.device.timing import dma_cycles, transfer_cycles
from npudbg.device.transfer import Shape, region_shape
from npudbg.targets.profile import Dma, Target

PLAIN = Dma(setup_cycles=100, bytes_per_cycle=16.0, burst_bytes=64)
PAYING = Dma(setup_cycles=100, bytes_per_cycle=16.0, burst_bytes=64, split_cycles=7)


@st.composite
def regions(draw):
    """Return a shape of up to six axes and a box inside of it."""
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=6)))
    box = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        box.append((start, draw(st.integers(start + 1, n))))
    return shape, tuple(box)


def places(shape):
    """Return the byte addresses that a descriptor list visits, in order."""
    at = np.array([shape.offset])
    for count, pitch in zip(shape.counts, shape.pitches, strict=True):
        at = (at[:, None] + np.arange(count) * pitch).ravel()
    return (at[:, None] + np.arange(shape.run)).ravel()


@given(regions(), st.sampled_from([1, 2, 4, 8]))
def test_it_visits_the_bytes_that_numpy_slices(region, itemsize):
    shape, box = region
    index = np.arange(int(np.prod(shape, dtype=int)) * itemsize).reshape(*shape, itemsize)
    meant = index[tuple(slice(*each) for each in box)].ravel()
    found = region_shape(shape, box, itemsize)
    assert np.array_equal(places(found), meant)
    assert found.nbytes == meant.size


@given(regions(), st.integers(0, 300), st.sampled_from([16, 64]), st.sampled_from([128, 256]))
def test_splits_are_the_bursts_with_a_boundary_inside(region, base, burst, page):
    shape, box = region
    found = region_shape(shape, box, 4)
    dma = Dma(burst_bytes=burst, boundary_bytes=page)
    cut = 0
    for first in places(found).reshape(-1, found.run)[:, 0] + base:
        for low in range(first, first + found.run, burst):
            last = min(low + burst, first + found.run) - 1
            cut += low // page != last // page
    assert found.splits(dma, base) == cut


@pytest.mark.parametrize(
    ("shape", "box", "dimensions", "descriptors"),
    [
        ((8, 16), ((0, 8), (0, 16)), 1, 1),
        ((8, 16), ((0, 8), (0, 8)), 2, 1),
        ((4, 8, 16), ((0, 4), (0, 4), (0, 8)), 3, 1),
        ((3, 4, 8, 16), ((0, 3), (0, 2), (0, 4), (0, 8)), 3, 3),
        ((2, 3, 4, 8, 16), ((0, 2), (0, 2), (0, 2), (0, 4), (0, 8)), 3, 4),
        # A whole axis between two cut ones adds none: its pitch goes on in the next.
        ((3, 4, 8, 16), ((0, 3), (0, 4), (0, 4), (0, 8)), 3, 1),
    ],
)
def test_axes_beyond_the_third_are_descriptors_of_their_own(shape, box, dimensions, descriptors):
    found = region_shape(shape, box, 4)
    assert (found.dimensions, found.descriptors) == (dimensions, descriptors)
    cycles = transfer_cycles(Target(name="t", title="t", dma=PLAIN), found, 0)
    assert cycles.setup == 100 * descriptors


def test_what_a_boundary_costs_is_the_profiles():
    # 8192 bytes from 4096 - 32: bursts begin 32 bytes before each of the two boundaries.
    shape = ((2048,), ((0, 2048),))
    base = 4096 - 32
    silent, paying = Target(name="t", title="t", dma=PLAIN), Target(name="t", title="t", dma=PAYING)
    assert dma_cycles(silent, *shape, 4, base) == 100 + 8192 // 16
    assert dma_cycles(paying, *shape, 4, base) == 100 + 8192 // 16 + 2 * 7
    assert dma_cycles(paying, *shape, 4, 4096) == 100 + 8192 // 16


def test_short_runs_pay_whole_bursts():
    # 32 rows of 16 bytes: 32 bursts of 64 bytes at 16 bytes a cycle.
    target = Target(name="t", title="t", dma=PLAIN)
    assert dma_cycles(target, (32, 8), ((0, 32), (0, 4)), 4) == 100 + 32 * 64 // 16


def test_an_empty_region_costs_its_set_up():
    assert Shape(0, 0, (), ()).splits(PAYING, 5) == 0
    assert dma_cycles(Target(name="t", title="t", dma=PLAIN), (0, 4), ((0, 0), (0, 4)), 4) == 100
