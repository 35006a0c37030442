"""The prompt: a debugger command or a search, with completion and history."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from npudbg.session.lines import line
from npudbg.tui.linebar import LineBar

_HISTORY = 200


class PromptInput(Input):
    """The input line; the keys are an editor's and a shell's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", show=False, priority=True, id="prompt.complete"),
        Binding("shift+tab", "complete(-1)", show=False, priority=True, id="prompt.complete-back"),
        Binding("up", "history(-1)", show=False, id="prompt.older"),
        Binding("down", "history(1)", show=False, id="prompt.newer"),
        Binding("escape", "leave", show=False, id="prompt.leave"),
    ]

    def action_complete(self, step: int) -> None:
        """Complete the word, then go through the candidates."""
        self.bar.complete(step)

    async def on_key(self, event: events.Key) -> None:
        """Enter, in its turn: a binding would have it after the keys that came with it."""
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.bar.submit()

    def action_history(self, step: int) -> None:
        """Fetch an older or newer line."""
        self.bar.recall(step)

    def action_leave(self) -> None:
        """Leave the prompt."""
        self.bar.leave()

    @property
    def bar(self) -> PromptBar:
        """The prompt it belongs to."""
        assert isinstance(self.parent, PromptBar)
        return self.parent


class PromptBar(Horizontal):
    """``:`` or ``/`` and the input line; hidden until opened."""

    DEFAULT_CSS = """
    PromptBar { height: 1; display: none; }
    PromptBar.-open { display: block; }
    PromptBar > #prompt-sign { width: 2; }
    PromptBar > PromptInput { width: 1fr; border: none; height: 1; padding: 0; }
    PromptBar > PromptInput:focus { border: none; }
    """

    class Entered(Message):
        """A line was entered."""

        def __init__(self, sign: str, text: str) -> None:
            """Say at which prompt, and what."""
            super().__init__()
            self.sign, self.text = sign, text

    class Left(Message):
        """The prompt was left."""

    class Candidates(Message):
        """Completion found more than one way to go on."""

        def __init__(self, texts: list[str]) -> None:
            """Say which."""
            super().__init__()
            self.texts = texts

    def __init__(self, completions: Callable[[str], list[str]]) -> None:
        """Make a closed prompt.

        Args:
            completions: Whole lines that begin with what was typed.
        """
        super().__init__()
        self.completions = completions
        self.sign = ":"
        self._history: dict[str, list[str]] = {":": [], "/": []}
        self._at = 0
        self._candidates: list[str] = []
        self._shown = -1

    def compose(self):
        """Lay out sign and input."""
        yield LineBar(id="prompt-sign")
        entry = PromptInput(id="prompt-input")
        # A blinking cursor would send bytes for ever.
        entry.cursor_blink = False
        yield entry

    @property
    def entry(self) -> PromptInput:
        """The input line."""
        return self.query_one(PromptInput)

    def open(self, sign: str, text: str = "") -> None:
        """Show the prompt and take the keyboard."""
        self.sign = sign
        self.query_one(LineBar).show(line((sign, "title")))
        self.add_class("-open")
        self.entry.value = text
        self.entry.cursor_position = len(text)
        self._at = len(self._history[sign])
        # At once: over a slow line the keys that follow come in the same packet.
        self.screen.set_focus(self.entry)

    def leave(self) -> None:
        """Hide the prompt, and say so."""
        self.close()
        self.post_message(self.Left())

    def close(self) -> None:
        """Hide the prompt."""
        self.remove_class("-open")

    def complete(self, step: int) -> None:
        """Take the next candidate for what was typed."""
        if self.sign != ":":
            return
        entry = self.entry
        if not self._candidates:
            found = self.completions(entry.value)
            if not found:
                return
            common = _common(found)
            if len(found) > 1:
                self.post_message(self.Candidates(found))
                if len(common) > len(entry.value):
                    self._put(common)
                    return
            self._candidates, self._shown = found, -1
        self._shown = (self._shown + step) % len(self._candidates)
        kept = self._candidates
        self._put(kept[self._shown])
        self._candidates = kept if len(kept) > 1 else []

    def recall(self, step: int) -> None:
        """Put an earlier line into the prompt."""
        lines = self._history[self.sign]
        self._at = max(0, min(self._at + step, len(lines)))
        self._put(lines[self._at] if self._at < len(lines) else "")

    def submit(self) -> None:
        """Remember the line, hand it on, and begin an empty one."""
        text, lines = self.entry.value, self._history[self.sign]
        if text.strip() and (not lines or lines[-1] != text):
            lines.append(text)
            del lines[:-_HISTORY]
        self._at = len(lines)
        self._put("")
        self.post_message(self.Entered(self.sign, text))

    def on_key(self, event: events.Key) -> None:
        """Typing ends going through candidates."""
        if event.key not in ("tab", "shift+tab"):
            self._candidates = []

    def _put(self, text: str) -> None:
        self.entry.value = text
        self.entry.cursor_position = len(text)


def _common(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    size = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if size is None else size]
