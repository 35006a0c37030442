"""The silent layout mistake: right values in wrong places.

Nothing fails and every range is right, but the buffer's order is not the one
that the reader assumes.  The detector tries rearrangements on a few hundred
probes, verifies what survives on all elements (on an even part of very large
tensors), and speaks only where a rearrangement puts nearly everything in place
that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log2
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.candidates import Candidate, candidates
from npudbg.layers.compare.pairs import Array, Wide, real, wide
from npudbg.layers.compare.records import LayoutMatch
from npudbg.layers.compare.shifts import byte_shifts, element_shifts

_PROBES = 512
_SAMPLE = 1 << 14
_FEWEST = 8
_PIECE = 1 << 18
_MOST = 1 << 24
_SURVIVORS = 8
_LEVELS = (0.0, 0.02, 0.2)
"""Tolerances tried, in deviations of the golden values: exact, rounded, noisy."""

_IN_PLACE = 0.9
_AFTER = 0.97
_LOOKED_UP = 1 << 20
_STRIDE = 8
_PLAUSIBLE = 0.6
"""Fraction of every eighth probe that must be right within the loosest tolerance."""

_BITS = 40.0
"""Evidence that chance must not reach: some hundred candidates use up about ten bits."""


def explain_layout(
    got: npt.NDArray[Any],
    golden: npt.NDArray[Any],
    *,
    previous: npt.NDArray[Any] | None = None,
) -> LayoutMatch | None:
    """Return the rearrangement of the golden tensor that ``got`` is, or None.

    Args:
        got: Real values in the shape in which they were read; the whole native
            buffer where there is one (it may be larger than the golden tensor).
        golden: What it should be.
        previous: Golden values of the run before.

    Raises:
        UserError: The elements are no numbers.
    """
    one, other = real(got, "got"), real(golden, "golden")
    if min(one.size, other.size) < _FEWEST or one.ndim == 0:
        return None
    search = _Search.of(one, other)
    if search is None:
        return None
    for share in _LEVELS:
        tolerance = share * search.spread
        if search.in_place(tolerance) >= _IN_PLACE:
            continue
        found = search.late(previous, tolerance) or search.swapped(tolerance)
        if found is None and (tolerance or search.shares_values()):
            found = search.rearranged(tolerance)
        found = found or search.off_by_bytes(tolerance)
        if found is not None:
            return found
    return None


@dataclass(slots=True)
class _Search:
    """Both tensors in C order, and probes at positions of ``got`` that tell something."""

    got: Array
    golden: Array
    got_shape: tuple[int, ...]
    shape: tuple[int, ...]
    probes: npt.NDArray[np.int64]
    probed: Wide
    common: float
    spread: float
    chance: tuple[float, ...]
    plausible: list[tuple[Candidate, npt.NDArray[np.int64]]] | None = None

    @classmethod
    def of(cls, got: Array, golden: Array) -> _Search | None:
        """Prepare; None where too few elements differ from the most common value."""
        flat, other = got.reshape(-1), golden.reshape(-1)
        rng = np.random.default_rng(0)
        where = _sampled(rng, flat.size)
        values = wide(flat[where])
        expected = wide(other[_sampled(rng, other.size)])
        levels, counts = np.unique(expected, return_counts=True)
        common = float(levels[counts.argmax()])
        telling = expected[np.isfinite(expected) & (expected != common)]
        keep = np.flatnonzero(~_close(values, np.full(1, common), 0.0))
        if len(keep) < _FEWEST or len(telling) < 2:
            return None
        keep = np.sort(rng.permutation(keep)[:_PROBES])
        quarter = np.percentile(telling, [25, 75])
        spread = float(quarter[1] - quarter[0]) / 1.349 or float(telling.std())
        return cls(
            got=flat,
            golden=other,
            got_shape=got.shape,
            shape=golden.shape,
            probes=where[keep],
            probed=values[keep],
            common=common,
            spread=spread,
            chance=tuple(_chance(telling, share * spread) for share in _LEVELS),
        )

    def in_place(self, tolerance: float) -> float:
        """Return the fraction of probes in place as they are read."""
        inside = self.probes < self.golden.size
        if not inside.any():
            return 0.0
        expected = wide(self.golden[self.probes[inside]])
        return float(_close(self.probed[inside], expected, tolerance).mean())

    def shares_values(self) -> bool:
        """Tell whether most probes occur anywhere in the golden tensor, to the last bit.

        If not, no rearrangement is exact.  Not looked up in a very large tensor.
        """
        if self.golden.size > _LOOKED_UP:
            return True
        return bool(np.isin(self.probed, wide(self.golden)).mean() >= _IN_PLACE)

    def rearranged(self, tolerance: float) -> LayoutMatch | None:
        """Try every candidate on the probes, and the best of them on all elements."""
        seen: set[bytes] = {np.where(self.probes < self.golden.size, self.probes, -1).tobytes()}
        scored: list[tuple[float, int, Candidate]] = []
        if self.plausible is None:
            self.plausible = list(self._plausible(candidates(self.shape, self.got_shape)))
        tried = [*self.plausible, *self._plausible(self._shifted(tolerance))]
        for number, (candidate, source) in enumerate(tried):
            key = source.tobytes()
            if key in seen:
                continue
            seen.add(key)
            score = self._score(self.probed, source, tolerance)
            if score is not None and score >= _IN_PLACE:
                scored.append((-score, number, candidate))
        scored.sort(key=lambda s: s[:2])
        # What explains more of the buffer is the better reading; then what does so exactly.
        best: tuple[tuple[float, float], LayoutMatch] | None = None
        for _, _, candidate in scored[:_SURVIVORS]:
            covered, found = self._verified(candidate, tolerance)
            if found is not None:
                rank = (round(covered, 2), found.exact)
                if best is None or rank > best[0]:
                    best = rank, found
        return best[1] if best else None

    def _plausible(
        self, tried: Iterable[Candidate]
    ) -> Iterator[tuple[Candidate, npt.NDArray[np.int64]]]:
        """Give the candidates that a few probes do not refute, with the source of every probe."""
        few, values = self.probes[::_STRIDE], self.probed[::_STRIDE]
        loosest = max(_LEVELS) * self.spread
        for candidate in tried:
            source = candidate.source(few, self.golden.size)
            score = self._score(values, source, loosest)
            if score is None or score >= _PLAUSIBLE:
                yield candidate, candidate.source(self.probes, self.golden.size)

    def _score(self, values: Wide, source: npt.NDArray[np.int64], tolerance: float) -> float | None:
        """Return the fraction of probes that hold their source; None if too few have one."""
        valid = source >= 0
        if np.count_nonzero(valid) < _FEWEST:
            return None
        expected = wide(self.golden[source[valid]])
        return float(_close(values[valid], expected, tolerance).mean())

    def _shifted(self, tolerance: float) -> list[Candidate]:
        size = self.golden.size
        shifts = element_shifts(self.got, self.golden, tolerance)
        if tolerance == 0 and self.got.dtype == self.golden.dtype:
            width = self.got.dtype.itemsize
            exact = byte_shifts(_raw(self.got), _raw(self.golden))
            shifts = [n // width for n in exact if n % width == 0] + shifts
        found = []
        for shift in dict.fromkeys(shifts):
            if abs(shift) > size * 3 // 4:
                continue
            batch = size // self.shape[0] if len(self.shape) > 1 else 0
            late = batch > 0 and self.shape[0] > 1 and shift > 0 and shift % batch == 0
            count = shift // batch if late else 0
            nbytes = abs(shift) * self.golden.dtype.itemsize
            way = "late" if shift > 0 else "early"
            text = f"{way} by {abs(shift)} elements ({nbytes} bytes)"
            if late:
                text = f"{count} batch entr{'y' if count == 1 else 'ies'} late (axis 0)"
            found.append(
                Candidate(
                    kind="batch-late" if late else "shifted",
                    text=text,
                    shape=(self.got.size,),
                    steps=(1,),
                    start=-shift,
                    axis=0 if late else None,
                    shift=shift,
                )
            )
        return found

    def _verified(self, candidate: Candidate, tolerance: float) -> tuple[float, LayoutMatch | None]:
        """Return the part of the buffer that the candidate explains, and the record."""
        tally = _Tally(self.common, tolerance)
        seen = 0
        for positions in _pieces(self.got.size):
            seen += positions.size
            source = candidate.source(positions, self.golden.size)
            valid = source >= 0
            tally.add(wide(self.got[positions[valid]]), wide(self.golden[source[valid]]))
        found = self._match(tally, candidate.kind, candidate.text, tolerance, candidate.shape)
        covered = tally.equal / max(seen, 1)
        if found is None:
            return covered, None
        width = self.golden.dtype.itemsize
        return covered, msgspec.structs.replace(
            found,
            permutation=candidate.permutation,
            axis=candidate.axis,
            pitch=candidate.pitch,
            block=candidate.block,
            shift_bytes=None if candidate.shift is None else candidate.shift * width,
        )

    def late(self, previous: Array | None, tolerance: float) -> LayoutMatch | None:
        """Tell whether these are the values of the run before."""
        if previous is None or previous.shape != self.shape or self.got.size != self.golden.size:
            return None
        tally = _Tally(self.common, tolerance)
        before = real(previous, "previous").reshape(-1)
        for positions in _pieces(self.got.size):
            tally.add(wide(self.got[positions]), wide(before[positions]))
        return self._match(
            tally, "batch-late", "of the run before: the output is one run late", tolerance, ()
        )

    def swapped(self, tolerance: float) -> LayoutMatch | None:
        """Tell whether the bytes of each element are reversed."""
        width = self.got.dtype.itemsize
        if width < 2 or self.got.size != self.golden.size:
            return None
        bits = np.ascontiguousarray(self.got).view(f"u{width}") if width <= 8 else None
        if bits is None:
            return None
        first = wide(bits[self.probes].byteswap().view(self.got.dtype))
        if _close(first, wide(self.golden[self.probes]), tolerance).mean() < _IN_PLACE:
            return None
        tally = _Tally(self.common, tolerance)
        for positions in _pieces(self.got.size):
            tally.add(
                wide(bits[positions].byteswap().view(self.got.dtype)), wide(self.golden[positions])
            )
        text = f"with the {width} bytes of each element reversed"
        return self._match(tally, "byte-swapped", text, tolerance, ())

    def off_by_bytes(self, tolerance: float) -> LayoutMatch | None:
        """Tell whether the data stand off by bytes that are no whole element."""
        width = self.got.dtype.itemsize
        if tolerance or self.got.dtype != self.golden.dtype or width == 1:
            return None
        raw = _raw(self.got)
        for shift in byte_shifts(raw, _raw(self.golden)):
            if not shift % width or abs(shift) > 3 * len(raw) // 4:
                continue
            skip = -shift // width + 1 if shift < 0 else 0  # first golden element wholly there
            start = skip * width + shift
            count = min((len(raw) - start) // width, self.golden.size - skip)
            values = np.frombuffer(raw[start : start + count * width], self.got.dtype)
            tally = _Tally(self.common, tolerance)
            for positions in _pieces(count):
                tally.add(wide(values[positions]), wide(self.golden[positions + skip]))
            found = self._match(
                tally,
                "shifted",
                f"{'late' if shift > 0 else 'early'} by {abs(shift)} bytes, "
                f"not a whole number of {width}-byte elements",
                tolerance,
                (),
            )
            if found is not None:
                return msgspec.structs.replace(found, shift_bytes=shift)
        return None

    def _match(
        self, after: _Tally, kind: str, text: str, tolerance: float, shape: tuple[int, ...]
    ) -> LayoutMatch | None:
        """Return the record if the evidence is enough."""
        before = _Tally(self.common, tolerance)
        both = min(self.got.size, self.golden.size)
        for positions in _pieces(both):
            before.add(wide(self.got[positions]), wide(self.golden[positions]))
        level = min(range(len(_LEVELS)), key=lambda n: abs(_LEVELS[n] * self.spread - tolerance))
        bits = -log2(max(self.chance[level], 1e-9)) * after.telling
        if (
            after.share < _AFTER
            or after.told < _AFTER
            or before.told >= _IN_PLACE
            or bits < _BITS
            or after.count < both // 4
        ):
            return None
        near = "" if tolerance == 0 else f" (within {tolerance:.3g})"
        return LayoutMatch(
            kind=kind,
            message=f"the buffer is the golden one {text}: {before.share:.1%} of the elements "
            f"stand in place as it is read, {after.share:.1%} as stated{near}",
            buffer_shape=shape,
            before=before.share,
            after=after.share,
            informative=after.told,
            exact=after.exact / max(after.count, 1),
            tolerance=tolerance,
            same_values=_same_values(self.got, self.golden),
        )


class _Tally:
    """How many elements are equal, and how many of those that tell something."""

    def __init__(self, common: float, tolerance: float) -> None:
        self.common, self.tolerance = common, tolerance
        self.count = self.equal = self.exact = self.telling = self.right = 0

    def add(self, got: Wide, golden: Wide) -> None:
        """Take in a piece."""
        close = _close(got, golden, self.tolerance)
        tell = ~(
            _close(got, np.full(1, self.common), 0.0) & _close(golden, np.full(1, self.common), 0.0)
        )
        self.count += got.size
        self.equal += int(np.count_nonzero(close))
        self.exact += int(np.count_nonzero(_close(got, golden, 0.0)))
        self.telling += int(np.count_nonzero(tell))
        self.right += int(np.count_nonzero(close & tell))

    @property
    def share(self) -> float:
        """Fraction of all elements that are equal."""
        return self.equal / self.count if self.count else 0.0

    @property
    def told(self) -> float:
        """Fraction of the telling elements that are equal."""
        return self.right / self.telling if self.telling else 0.0


def _sampled(rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
    """Return positions in order: all, or some thousand at random."""
    if size <= _SAMPLE:
        return np.arange(size, dtype=np.int64)
    return np.unique(rng.integers(0, size, _SAMPLE, dtype=np.int64))


def _close(one: Wide, other: Wide, tolerance: float) -> npt.NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        near: npt.NDArray[np.bool_] = (one == other) | (np.isnan(one) & np.isnan(other))
        if tolerance:
            near |= np.abs(one - other) <= tolerance
    return near


def _chance(values: Wide, tolerance: float) -> float:
    """Return the probability that two of the values are equal within a tolerance."""
    ordered = np.sort(values)
    above = np.searchsorted(ordered, ordered + tolerance, side="right")
    below = np.searchsorted(ordered, ordered - tolerance, side="left")
    count = len(ordered)
    return float(((above - below - 1).sum() + 1) / (count * max(count - 1, 1)))


def _pieces(size: int) -> Iterator[npt.NDArray[np.int64]]:
    """Give all positions in pieces; of very many, evenly spaced pieces."""
    pieces = -(-size // _PIECE)
    stride = max(1, -(-size // _MOST))
    for number in range(0, pieces, stride):
        yield np.arange(number * _PIECE, min((number + 1) * _PIECE, size), dtype=np.int64)


def _raw(flat: Array) -> memoryview:
    return np.ascontiguousarray(flat).view(np.uint8).data


def _same_values(got: Array, golden: Array) -> bool | None:
    """Tell whether both hold the same bit patterns, whatever their order."""
    if got.size != golden.size or got.dtype != golden.dtype:
        return None
    sums = []
    for flat in (got, golden):
        bits = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
        total = 0
        for first in range(0, flat.size, _PIECE):
            mixed = np.zeros(len(bits[first : first + _PIECE]), np.uint64)
            for column in range(bits.shape[1]):
                mixed = (mixed * np.uint64(257)) ^ bits[first : first + _PIECE, column]
                mixed *= np.uint64(0x9E3779B97F4A7C15)
                mixed ^= mixed >> np.uint64(29)
            total += int(mixed.sum(dtype=np.uint64))
        sums.append(total & (1 << 64) - 1)
    return sums[0] == sums[1]
