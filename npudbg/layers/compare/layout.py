"""The silent layout mistake: right values in wrong places.

Nothing fails and every range is right, but the buffer's order is not the one
that the reader assumes.  The detector tries rearrangements on a few hundred
probes, verifies what survives on all elements (on an even part of very large
tensors), and speaks only where a rearrangement puts nearly everything in place
that was not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.layers.compare.candidates import candidates
from npudbg.layers.compare.evidence import (
    IN_PLACE,
    Evidence,
    Narrow,
    close,
    narrow,
    same_values,
)
from npudbg.layers.compare.pairs import PIECE, Array, real, wide
from npudbg.layers.compare.probes import FEWEST, LEVELS, Probes
from npudbg.layers.compare.records import LayoutMatch
from npudbg.layers.compare.shifts import byte_shifts, element_shifts, shifted
from npudbg.layers.compare.sources import Candidate, Positions

_MOST = 1 << 24
_SURVIVORS = 8
_ALL = 0.99


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
    if min(one.size, other.size) < FEWEST or one.ndim == 0:
        return None
    probes = Probes.of(one.reshape(-1), other.reshape(-1))
    if probes is None:
        return None
    search = _Search(one.reshape(-1), other.reshape(-1), one.shape, other.shape, probes)
    for level, share in enumerate(LEVELS):
        tolerance = share * probes.spread
        if probes.in_place(tolerance) >= IN_PLACE:
            continue
        found = search.late(previous, level) or search.swapped(level)
        if found is None and (tolerance or probes.occur(IN_PLACE)):
            found = search.rearranged(level)
        found = found or search.off_by_bytes(level)
        if found is not None:
            return found
    return None


@dataclass(slots=True)
class _Search:
    """Both tensors in C order, and what was found so far."""

    got: Array
    golden: Array
    got_shape: tuple[int, ...]
    shape: tuple[int, ...]
    probes: Probes
    _plausible: list[tuple[Candidate, Positions]] | None = None
    _bytes: list[int] | None = field(default=None)

    def rearranged(self, level: int) -> LayoutMatch | None:
        """Try every candidate on the probes, and the best of them on all elements."""
        probes, tolerance = self.probes, self._tolerance(level)
        if self._plausible is None:
            self._plausible = list(probes.plausible(candidates(self.shape, self.got_shape)))
        moved = shifted(self.got, self.golden, self.shape, self._shifts(level))
        seen: set[bytes] = {probes.as_read().tobytes()}
        scored: list[tuple[float, int, Candidate]] = []
        tried = [*self._plausible, *probes.plausible(moved)]
        for number, (candidate, source) in enumerate(tried):
            key = source.tobytes()
            if key in seen:
                continue
            seen.add(key)
            score = probes.score(source, tolerance)
            if score is not None and score >= IN_PLACE:
                scored.append((-score, number, candidate))
        scored.sort(key=lambda s: s[:2])
        # What explains more of the buffer is the better reading; then what does so exactly.
        best: tuple[tuple[float, float], Candidate, Evidence] | None = None
        for _, _, candidate in scored[:_SURVIVORS]:
            evidence = self._verified(candidate, level)
            if not evidence.convinces(probes.chance[level]):
                continue
            rank = (round(evidence.covered, 2), evidence.exact / evidence.count)
            if best is None or rank > best[0]:
                best = rank, candidate, evidence
            if rank >= (_ALL, 1.0):
                break
        return self._candidate_match(best[1], best[2]) if best else None

    def late(self, previous: Array | None, level: int) -> LayoutMatch | None:
        """Tell whether these are the values of the run before."""
        if previous is None or previous.shape != self.shape or self.got.size != self.golden.size:
            return None
        evidence = self._beside(self.got, real(previous, "previous").reshape(-1), level)
        if not evidence.convinces(self.probes.chance[level]):
            return None
        return self._match(
            evidence, "batch-late", "of the run before: the output is one run late", ()
        )

    def swapped(self, level: int) -> LayoutMatch | None:
        """Tell whether the bytes of each element are reversed."""
        width, at = self.got.dtype.itemsize, self.probes.at[: self.probes.telling]
        if width < 2 or self.got.size != self.golden.size or width > 8:
            return None
        bits = np.ascontiguousarray(self.got).view(f"u{width}")
        first = wide(bits[at].byteswap().view(self.got.dtype))
        if close(first, wide(self.golden[at]), self._tolerance(level)).mean() < IN_PLACE:
            return None
        evidence = self._beside(bits.byteswap().view(self.got.dtype), self.golden, level)
        if not evidence.convinces(self.probes.chance[level]):
            return None
        text = f"with the {width} bytes of each element reversed"
        return self._match(evidence, "byte-swapped", text, ())

    def off_by_bytes(self, level: int) -> LayoutMatch | None:
        """Tell whether the data stand off by bytes that are no whole element."""
        width = self.got.dtype.itemsize
        if level or self.got.dtype != self.golden.dtype or width == 1:
            return None
        raw = _raw(self.got)
        for shift in self._byte_shifts():
            if not shift % width or abs(shift) > 3 * len(raw) // 4:
                continue
            skip = -shift // width + 1 if shift < 0 else 0  # first golden element wholly there
            start = skip * width + shift
            count = min((len(raw) - start) // width, self.golden.size - skip)
            values = np.frombuffer(raw[start : start + count * width], self.got.dtype)
            evidence = self._beside(values, self.golden[skip : skip + count], level, skip)
            if evidence.convinces(self.probes.chance[level]):
                way = "late" if shift > 0 else "early"
                text = f"{way} by {abs(shift)} bytes, not a whole number of {width}-byte elements"
                found = self._match(evidence, "shifted", text, ())
                return msgspec.structs.replace(found, shift_bytes=shift)
        return None

    def _tolerance(self, level: int) -> float:
        return LEVELS[level] * self.probes.spread

    def _shifts(self, level: int) -> list[int]:
        """Return shifts by whole elements that windows of the data speak for."""
        found = element_shifts(self.got, self.golden, self._tolerance(level))
        if level == 0 and self.got.dtype == self.golden.dtype:
            width = self.got.dtype.itemsize
            found = [n // width for n in self._byte_shifts() if n % width == 0] + found
        return found

    def _byte_shifts(self) -> list[int]:
        if self._bytes is None:
            self._bytes = byte_shifts(_raw(self.got), _raw(self.golden))
        return self._bytes

    def _verified(self, candidate: Candidate, level: int) -> Evidence:
        """Hold a candidate against all elements (an even part of very many)."""
        evidence = Evidence(self.probes.common, self._tolerance(level))
        got, golden, size = self.got, self.golden, self.golden.size
        stride = max(1, -(-got.size // _MOST))
        for number, (first, index, valid) in enumerate(candidate.pieces(size, PIECE)):
            if first >= got.size:
                break
            if number % stride:
                continue
            count = min(index.size, got.size - first)
            here = narrow(got[first : first + count], golden)
            was = self._in_place(first, here, evidence.tolerance)
            if valid[:count].all():
                evidence.add(here, narrow(golden[index[:count]], got), was)
                continue
            held = np.flatnonzero(valid[:count])
            evidence.add(here[held], narrow(golden[index[held]], got), was[held])
            evidence.add_rest(here[~valid[:count]])
        evidence.add_rest(narrow(got[prod(candidate.shape) :], golden))
        return evidence

    def _beside(self, got: Array, golden: Array, level: int, first: int = 0) -> Evidence:
        """Hold two tensors of one size side by side.

        Args:
            got: The buffer as it should be read, from position ``first`` on.
            golden: What it is compared with.
            level: Which tolerance.
            first: Position.
        """
        evidence = Evidence(self.probes.common, self._tolerance(level))
        for begin in range(0, got.size, PIECE):
            end = min(begin + PIECE, got.size)
            read = narrow(self.got[first + begin : first + end], self.golden)
            was = self._in_place(first + begin, read, evidence.tolerance)
            one, other = got[begin:end], golden[begin:end]
            evidence.add(narrow(one, other), narrow(other, one), was)
        return evidence

    def _in_place(self, first: int, here: Narrow, tolerance: float) -> npt.NDArray[np.bool_]:
        """Return which elements from a position on are the golden ones as they are read."""
        there = narrow(self.golden[first : first + here.size], self.got)
        result = np.zeros(here.shape, bool)
        result[: there.size] = close(here[: there.size], there, tolerance)
        return result

    def _candidate_match(self, candidate: Candidate, evidence: Evidence) -> LayoutMatch:
        width = self.golden.dtype.itemsize
        return msgspec.structs.replace(
            self._match(evidence, candidate.kind, candidate.text, candidate.shape),
            permutation=candidate.permutation,
            axis=candidate.axis,
            pitch=candidate.pitch,
            block=candidate.block,
            shift_bytes=None if candidate.shift is None else candidate.shift * width,
        )

    def _match(self, after: Evidence, kind: str, text: str, shape: tuple[int, ...]) -> LayoutMatch:
        before = self._share_in_place(after.tolerance)
        near = "" if after.tolerance == 0 else f" (within {after.tolerance:.3g})"
        return LayoutMatch(
            kind=kind,
            message=f"the buffer is the golden one {text}: {before:.1%} of the elements "
            f"stand in place as it is read, {after.share:.1%} as stated{near}",
            buffer_shape=shape,
            before=before,
            after=after.share,
            informative=after.told,
            exact=after.exact / max(after.count, 1),
            tolerance=after.tolerance,
            same_values=same_values(self.got, self.golden, PIECE),
        )

    def _share_in_place(self, tolerance: float) -> float:
        both = min(self.got.size, self.golden.size)
        count = 0
        for first in range(0, both, PIECE):
            here = narrow(self.got[first : min(first + PIECE, both)], self.golden)
            count += int(np.count_nonzero(self._in_place(first, here, tolerance)))
        return count / both


def _raw(flat: Array) -> memoryview:
    return np.ascontiguousarray(flat).view(np.uint8).data
