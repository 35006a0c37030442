"""The terminal's facts, settled before Textual is imported (it reads them once)."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping


def prepare(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set Textual's switches: no animation, no smooth scrolling, clean NO_COLOR.

    An animated page takes some 80 KB and twenty frames over SSH, a plain one 7 KB;
    nothing here is told by movement, so it is off everywhere.  What the user set
    himself stays.
    """
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
    if "SSH_CONNECTION" in environ:
        environ.setdefault("TEXTUAL_FPS", "15")
    if environ.get("NO_COLOR"):
        # The default theme emits greys even without colour; this one does not.
        environ.setdefault("TEXTUAL_THEME", "ansi-dark")


def interactive(environ: MutableMapping[str, str] = os.environ) -> bool:
    """Whether a full-screen program can run here."""
    if environ.get("TERM", "") in ("", "dumb"):
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()
