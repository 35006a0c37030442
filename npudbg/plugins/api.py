"""What a plugin hands over: verbs and panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from npudbg.session.lines import Line
    from npudbg.session.reader import Session
    from npudbg.session.records import Subject
    from npudbg.targets.profile import Target


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of the command line: ``npudbg NAME …``.

    Attributes:
        name: Lower-case letters, digits and hyphens.
        help: One line.
        prepare_parser: Adds the verb's arguments.
        run: Does the work and returns the exit code: 0 no error finding, 1 at
            least one.  Raises :class:`~npudbg.session.errors.UserError` for exit code 2.
    """

    name: str
    help: str
    prepare_parser: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class PanelContext:
    """What a panel may look at.

    Attributes:
        session: The recorded run, or None.
        selection: What the user selected, in any pane.
        seq: The debugger's cursor: number of the current command.
        width: Columns that a line may take.
        height: Lines that are seen at once; 0 asks for all lines.
        target: The target's profile, or None.
        files: Further files that the user opened beside the session.
    """

    session: Session | None = None
    selection: Subject | None = None
    seq: int = 0
    width: int = 80
    height: int = 0
    target: Target | None = None
    files: tuple[str, ...] = ()


def _no_key(context: PanelContext, key: str) -> Subject | None:
    return None


@dataclass(frozen=True, slots=True)
class Panel:
    """A pane of the TUI.

    Attributes:
        id: Stable name; lower-case letters, digits and hyphens.
        title: Short title.
        lines: The lines to show.  With ``height`` > 0 no more than that many, those
            around the selection.  Selecting a line opens its ``subject``.
        key: Preferred key that opens the panel; ``""`` leaves it to npudbg.
        keys: Keys that the panel itself understands, each with what it does.
        on_key: Returns what one of ``keys`` selects, or None to leave the selection.
    """

    id: str
    title: str
    lines: Callable[[PanelContext], list[Line]]
    key: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    on_key: Callable[[PanelContext, str], Subject | None] = _no_key
