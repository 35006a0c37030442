"""The prompt, the search, and what commands printed."""

from __future__ import annotations

from npudbg.render.fit import cells, within
from npudbg.session.lines import Line, line
from npudbg.session.text import safe
from npudbg.tui.linebar import LineBar
from npudbg.tui.lineview import LineView
from npudbg.tui.prompt import PromptBar, PromptInput
from npudbg.tui.rerunning import RerunScreen
from npudbg.tui.sources import Lines

_MOST_LINES = 5000


class ConsoleScreen(RerunScreen):
    """A screen with a prompt for the debugger's language and for searches.

    Attributes:
        active: Number of the open pane, in which is searched.
        printed: What commands printed, the newest lines.
        searched: What was searched last.
    """

    active: int
    printed: list[Line]
    searched: str = ""

    def execute(self, text: str, *, quiet: bool = False) -> None:
        """Execute a line of the debugger's language."""
        raise NotImplementedError

    def say(self, text: Line) -> None:
        """Show one line in place of the keys, until the next move."""
        self.query_one("#keys", LineBar).show(text)

    def tell(self, lines: list[Line], said: str = "", *, quiet: bool = False) -> None:
        """Print what a command said; more than one line, or a long one, opens the console.

        Args:
            lines: What it said.
            said: The command, if it is to be printed above.
            quiet: The panes show it already: the console stays as it is.
        """
        self.printed += [line((f": {safe(said, 400)}", "dim"))] if said else []
        self.printed += lines
        del self.printed[:-_MOST_LINES]
        self._fill_console()
        long = len(lines) > 1 or any(cells(each.text) >= self.size.width for each in lines)
        if long and not quiet:
            self.query_one("#console-box").add_class("-open")
        if lines and (quiet or len(lines) == 1):
            self.say(Line((line(" ").spans[0], *lines[0].spans)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """At the prompt its own keys are letters like any other."""
        if action == "prompt" and isinstance(self.focused, PromptInput):
            return False
        return super().check_action(action, parameters)

    def action_prompt(self, sign: str) -> None:
        """Open the prompt."""
        self.query_one(PromptBar).open(sign)
        hint = "Tab completes, ↑ is what you typed before, " if sign == ":" else ""
        self.say(line((f" {hint}Enter, Esc leaves", "dim")))

    def on_prompt_bar_entered(self, event: PromptBar.Entered) -> None:
        """A command or a search was entered."""
        if event.sign == ":":
            self.execute(event.text)
            return
        self.query_one(PromptBar).close()
        self.focus_active()
        if event.text:
            self.searched = event.text
        self.action_find(1)

    def on_prompt_bar_left(self) -> None:
        """The panes have the keyboard again."""
        self.bars()
        self.focus_active()

    def on_prompt_bar_candidates(self, event: PromptBar.Candidates) -> None:
        """Show how a line could go on."""
        words = [t.split(" ")[-1] or t for t in event.texts[:40]]
        self.say(line(" " + "  ".join(safe(w, 40) for w in words)))

    def action_find(self, direction: int) -> None:
        """Next or previous line that holds what was searched."""
        if not self.searched:
            self.action_prompt("/")
            return
        view = self.panes[self.active].main
        found = view.source.find(self.searched, view.index, direction)
        if found is None:
            self.say(line((f" not found here: {safe(self.searched, 60)}", "warn")))
            return
        view.move_to(found)
        view.post_message(LineView.Moved(view, found, view.subject_at(found)))

    def action_console(self) -> None:
        """Show or hide what commands printed."""
        self.query_one("#console-box").toggle_class("-open")

    def _fill_console(self) -> None:
        view = self.query_one("#console", LineView)
        # Its height is its content's, up to the share of the screen that it may take.
        room = max(self.size.width - 1, 20)
        lines = [part for each in self.printed for part in within(each, room)]
        view.show(Lines(lines), index=len(lines) - 1)
