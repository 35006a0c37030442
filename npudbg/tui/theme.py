"""Colours: one dark theme; meanings also stand in the text."""

from __future__ import annotations

import os

from textual.theme import Theme

NAME = "npudbg"
THEME = Theme(
    name=NAME,
    primary="#5fafd7",
    secondary="#87afaf",
    accent="#d7af5f",
    warning="#d7af5f",
    error="#ff6b6b",
    success="#87af5f",
    foreground="#d0d0d0",
    background="#121417",
    surface="#181b1f",
    panel="#22262b",
    dark=True,
)


def chosen() -> str:
    """Return the theme to start with: the user's ``TEXTUAL_THEME``, or our own."""
    return os.environ.get("TEXTUAL_THEME") or NAME
