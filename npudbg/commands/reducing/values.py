"""The last part of a reduction: the same nodes with smaller inputs and smaller weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from npudbg.commands.reducing import bundle
from npudbg.commands.reducing import state as reduce_state
from npudbg.commands.reducing.edits import (
    Sizes,
    can_be_zeroed,
    few_axes,
    input_axes,
    narrowed,
    shared_sizes,
    zeroed,
)
from npudbg.commands.reducing.shrink import shrink
from npudbg.commands.reducing.trials import Shown, shown
from npudbg.session.errors import UserError

if TYPE_CHECKING:
    from npudbg.commands.reducing.search import Setting
    from npudbg.commands.reducing.state import State
    from npudbg.graph.cut import Cut

_FLAGS = ("nan", "pos_inf", "neg_inf")


class ValueTrials:
    """Answers whether a part with other values still shows the finding, each part once.

    Args:
        given: What stays the same.
        state: Answers so far; kept up on disk.
        part: The part whose nodes stay.
        tell: Told of each step once its state is on disk.
    """

    def __init__(
        self, given: Setting, state: State, part: Cut, tell: Callable[[str], None]
    ) -> None:
        """Know what the finding looks like in the part as it is."""
        self._given, self._state, self._tell = given, state, tell
        self._way = [reduce_state.key(part.nodes)]
        if not state.mark:
            found = shown(given, part, state)
            state.mark = [] if found is None else _mark(found)
            state.errors = [] if found is None else sorted(found.errors)
            state.save()

    @property
    def subject(self) -> str:
        """Name of what the finding is about."""
        return self._state.mark[2]

    def holds(self, part: Cut, how: str, names: Sequence[str] = ()) -> bool:
        """Whether a part shows the finding.

        Args:
            part: The part.
            how: How it was made of the last one that was taken, for the user.
            names: What ``how`` does not tell of it.
        """
        state = self._state
        name = hashlib.sha256("\0".join((*self._way, how, *names)).encode()).hexdigest()[:16]
        if name not in state.tried:
            found = _tried(self._given, part, state)
            answer = (
                found is not None
                and _mark(found) == state.mark
                and found.errors <= set(state.errors)  # nothing new is broken
            )
            if answer:
                bundle.write_model(self._given.folder, part)
            state.tried[name] = answer
            state.save()
            self._tell(
                f"step {len(state.tried)}: {how} "
                f"{'still shows' if answer else 'does not show'} {state.code}"
            )
        return state.tried[name]

    def took(self, how: str) -> None:
        """What is asked next is about another part."""
        self._way.append(how)


def reduce_values(
    given: Setting, state: State, part: Cut, tell: Callable[[str], None]
) -> tuple[Cut, list[str]]:
    """Cut inputs and weights of a part down.

    Returns:
        The part, and the names of the weights and inputs that are zero now.
    """
    trials = ValueTrials(given, state, part, tell)
    if not state.mark:
        return part, []
    part = _narrow_all(part, input_axes, trials)
    part = _narrow_all(part, shared_sizes, trials)
    part = _narrow_all(part, few_axes, trials)
    return _zero(part, trials)


def _narrow_all(part: Cut, choose: Callable[[Cut], Sequence[Sizes]], trials: ValueTrials) -> Cut:
    """Narrow sets of axes one after the other; a set that was tried is not tried again."""
    seen: set[tuple[tuple[str, int], ...]] = set()
    while True:
        what = next((s for s in choose(part) if s.axes not in seen), None)
        if what is None:
            return part
        seen.add(what.axes)
        label = _label(what)
        smaller = narrowed(part, what, partial(_asked, trials, label))
        if smaller is not part:
            trials.took(f"{label} to {[a.shape for a in smaller.feeds.values()]}")
            part = smaller


def _asked(trials: ValueTrials, label: str, part: Cut, extent: str) -> bool:
    return trials.holds(part, f"{label} to {extent}")


def _zero(part: Cut, trials: ValueTrials) -> tuple[Cut, list[str]]:
    names = can_be_zeroed(part, trials.subject)

    def holds(kept: Sequence[str]) -> bool:
        zero = [n for n in names if n not in kept]
        how = f"{len(zero)} of {len(names)} weights and inputs zero"
        return trials.holds(zeroed(part, zero), how, zero)

    if not names:
        return part, []
    kept = [] if holds([]) else shrink(names, holds)
    zero = [n for n in names if n not in kept]
    return (zeroed(part, zero) if zero else part), zero


def _label(what: Sizes) -> str:
    name, axis = what.axes[0]
    more = f" and {len(what.axes) - 1} more axes" if len(what.axes) > 1 else ""
    return f"axis {axis} of {name}{more}: {what.size} elements"


def _mark(found: Shown) -> list[str]:
    """What must stay the same: who is at fault, with which kind of value, how the run ended."""
    finding = found.finding
    flags = [f for f in _FLAGS if finding.evidence.get(f)]
    return [found.status, finding.code, finding.subject.name, *flags]


def _tried(given: Setting, part: Cut, state: State) -> Shown | None:
    from npudbg.graph.cut import UncuttableError

    try:
        return shown(given, part, state)
    except (UserError, UncuttableError):
        return None  # a part that cannot be run shows nothing
