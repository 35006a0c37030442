"""The command palette: keys, debugger verbs, nodes and tensors by name."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider

from npudbg.session.records import Subject
from npudbg.session.text import safe
from npudbg.tui.keymap import KEYS
from npudbg.tui.screen import DebuggerScreen

_MOST = 60


class DebuggerCommands(Provider):
    """What the palette finds."""

    async def discover(self) -> Hits:
        """Offer the keys' actions before anything is typed."""
        screen = self.screen
        if isinstance(screen, DebuggerScreen):
            for key in KEYS:
                run = partial(screen.run_action, key.action)
                yield DiscoveryHit(Text(f"{key.help}  [{key.shown}]"), run, text=key.help)

    async def search(self, query: str) -> Hits:
        """Find keys, verbs, nodes and tensors; names are data, never markup."""
        screen = self.screen
        if not isinstance(screen, DebuggerScreen):
            return
        matcher = self.matcher(query)
        for key in KEYS:
            score = matcher.match(key.help)
            if score > 0:
                text = f"{key.help}  [{key.shown}]"
                yield Hit(score, Text(text), partial(screen.run_action, key.action), text=text)
        wanted = query.lower()
        session = screen.session
        found = [
            *((f"node {n.label}", Subject(kind="node", name=n.label, node=n.index))
              for n in session.nodes if wanted in f"node {n.label}".lower()),
            *((f"tensor {t.name}", Subject(kind="tensor", name=t.name, tensor=t.id))
              for t in session.tensors if wanted in f"tensor {t.name}".lower()),
        ]  # fmt: skip
        for name, subject in found[:_MOST]:
            text = safe(name, 100)
            yield Hit(0.5, Text(text), partial(screen.select, subject), text=text)
