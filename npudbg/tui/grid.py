"""How the panes of the grid share the rows of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudbg.tui.findings import FindingsPane

if TYPE_CHECKING:
    from npudbg.tui.screen import DebuggerScreen

_FRAME = 2
"""Rows of a pane that its border takes."""
_LEAST = 8


def share(screen: DebuggerScreen, width: int, height: int) -> None:
    """Give the grid's findings the rows that they need, up to a quarter of the screen.

    Args:
        screen: Whose panes; without the grid, and with one pane alone, the style sheet holds.
        width: Columns of the terminal.
        height: Its rows.
    """
    findings, top = screen.query_one(FindingsPane), screen.query_one("#top")
    if not screen.grid or screen.zoomed:
        findings.styles.height = top.styles.height = None
        return
    wanted = findings.rows_wanted(width * 3 // 5 - 4) + _FRAME
    findings.styles.height = min(max(wanted, _LEAST), height // 4)
    # Hosts and inputs are short; a plugin's panel is not.
    top.styles.height = height // 4 if screen.active >= 5 else height // 5 + 1
