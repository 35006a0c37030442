"""The debugger's screen: panes that follow one selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from npudbg.render.findings import subject_text
from npudbg.render.verdict import deciding
from npudbg.session.lines import Line, line
from npudbg.session.records import Subject
from npudbg.session.text import safe
from npudbg.tui import keymap
from npudbg.tui.bars import TabBar, head_line
from npudbg.tui.console import ConsoleScreen
from npudbg.tui.findings import FindingsPane
from npudbg.tui.grid import share
from npudbg.tui.help import TextScreen
from npudbg.tui.linebar import LineBar
from npudbg.tui.lineview import LineView
from npudbg.tui.output import OutputPane
from npudbg.tui.panes import HostPane, InputPane, Pane, PluginPane
from npudbg.tui.prompt import PromptBar
from npudbg.tui.selection import Selection, finding_of, of_command, resolve, step, subject_of
from npudbg.tui.trace import TracePane

if TYPE_CHECKING:
    from npudbg.plugins.loading import Plugins
    from npudbg.session.reader import Session
    from npudbg.targets.profile import Target
    from npudbg.tui.port import Port

GRID_WIDTH, GRID_HEIGHT = 132, 36
_TRAIL = 200


class DebuggerScreen(ConsoleScreen):
    """Tabs where the terminal is small, four linked panes where it is large."""

    # The open pane takes the focus, not the first one on the screen.
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings()]

    def __init__(
        self,
        session: Session,
        port: Port,
        *,
        target: Target | None = None,
        plugins: Plugins | None = None,
        files: tuple[str, ...] = (),
    ) -> None:
        """Show a session.

        Args:
            session: The record.
            port: The debugger over it.
            target: The profile it ran on.
            plugins: The plugins, whose panels become panes.
            files: Further files for them.
        """
        super().__init__()
        self.session, self.port, self.target = session, port, target
        self.plugins, self.files = plugins, files
        found = plugins.panels if plugins is not None else []
        # The key that a panel asks for decides its place; there is room for five.
        self.panels = sorted(found, key=lambda p: (p.key or "z", p.id))[:5]
        self.selection = Selection()
        self.active = 3
        self.grid = False
        self.zoomed = False
        self.trail: list[Selection] = []
        self.printed: list[Line] = []
        self.panes: list[Pane] = []

    def compose(self):
        """Lay out all panes; which are seen is decided by the terminal's size."""
        yield LineBar(id="head")
        yield TabBar(id="tabs")
        yield Vertical(*self.body(), id="body")
        with Vertical(id="console-box"):
            yield LineView(id="console")
        yield PromptBar(self.port.completions)
        yield LineBar(id="keys")

    def body(self) -> list[Widget]:
        """See :class:`~npudbg.tui.sessions.SessionScreen`."""
        session = self.session
        self.panes = [
            FindingsPane(session, id="findings"),
            HostPane(session, self.target, id="host"),
            InputPane(session, id="input"),
            TracePane(session, self.port, self.target, id="trace"),
            OutputPane(session, id="output"),
        ]
        for number, panel in enumerate(self.panels, 5):
            self.panes.append(
                PluginPane(
                    session, self.plugins, panel, self.port, self.target,
                    id=f"plugin{number}", number=number, files=self.files,
                )
            )  # fmt: skip
        first, host, inputs, trace, output, *more = self.panes
        bottom = Horizontal(trace, output, id="bottom")
        return [first, Horizontal(host, inputs, *more, id="top"), bottom]

    def on_mount(self) -> None:
        """Open on the first fault."""
        self.query_one("#console", LineView).show_highlight = False
        finding = deciding(self.session)
        layer = finding.layer if finding is not None else 0
        if self.session.verdict is not None and self.session.verdict.layer:
            layer = self.session.verdict.layer
        # Nothing is painted twice: the panes are seen when they know what to show.
        self.query_one("#body").visible = False
        self._arrange(self.size.width, self.size.height)
        # In the grid the findings are always seen; else the verdict comes first.
        self.active = layer if self.grid and 0 <= layer <= 4 else 0
        self._arrange(self.size.width, self.size.height)
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        finding = deciding(self.session)
        if finding is not None:
            # The findings' own list stays on the verdict, which says more than one finding.
            number = self.session.findings.index(finding)
            self.select(subject_of(finding), finding=number, pane=self.panes[0])
        elif self.session.n_commands:
            self.select(Subject(kind="command", seq=self.port.seq))
        else:
            self._follow(None)
        self.trail.clear()
        self.query_one("#body").visible = True
        if self.focused is None:
            self.focus_active()

    # -- selection -----------------------------------------------------------------------

    def select(
        self, subject: Subject, *, finding: int | None = None, pane: Pane | None = None
    ) -> None:
        """Select something; every pane but ``pane`` (where the user moved) goes to it."""
        if self.changing:
            return
        number = finding if finding is not None else finding_of(self.session, subject)
        chosen = resolve(self.session, subject, number)
        if chosen.seq is not None and chosen.seq != self.port.seq:
            self.port.goto(chosen.seq)
        self._remember()
        self.selection = chosen
        self._follow(pane)

    def _remember(self) -> None:
        if self.selection.subject is not None:
            self.trail.append(self.selection)
            del self.trail[:-_TRAIL]

    def _follow(self, pane: Pane | None) -> None:
        if self.changing:
            return
        for each in self.panes:
            if each.display:
                each.follow(self.selection, moved=each is pane)
        self.bars()

    def bars(self) -> None:
        """Show head, tabs and keys."""
        if self.changing:
            return
        width = self.size.width
        mode = self.port.live.title if self.port.live is not None else self.port.mode
        number = self.selection.finding
        reason = self.session.findings[number].code if number is not None else self.port.reason
        self.query_one("#head", LineBar).show(
            head_line(self.session, self.port.seq, reason, safe(mode, 24), width)
        )
        right = Line()
        if self.selection.subject is not None:
            right = line((subject_text(self.selection.subject, 40), "dim"))
        titles = [each.name_shown for each in self.panes]
        sources = [panel.id for panel in self.panels]
        self.query_one("#tabs", TabBar).set(self.session, titles, sources, self.active, right)
        running = self.running
        keys = keymap.footer(width) if running is None else running.line
        self.query_one("#keys", LineBar).show(keys)

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        """A list moved: the others follow."""
        pane = self._pane_of(event.view)
        if pane is None or event.view is not pane.main:
            return
        if isinstance(pane, FindingsPane):
            if event.index == 0:
                pane.detail(0)
                return
            finding = self.session.findings[event.index - 1]
            self.select(subject_of(finding), finding=event.index - 1, pane=pane)
        elif event.subject is not None:
            self.select(event.subject, pane=pane)

    def on_line_view_chosen(self, event: LineView.Chosen) -> None:
        """Enter: go to where the thing is best seen."""
        pane = self._pane_of(event.view)
        if pane is None:
            return
        if isinstance(pane, FindingsPane) and event.view is pane.main:
            finding = deciding(self.session)
            if event.index > 0:
                finding = self.session.findings[event.index - 1]
            if finding is not None:
                index = self.session.findings.index(finding)
                self.select(subject_of(finding), finding=index)
                self.action_pane(finding.layer if finding.layer in (1, 2, 3, 4) else 3)
            return
        if event.subject is None:
            return
        self.select(event.subject, pane=pane if event.view is pane.main else None)
        kind = event.subject.kind
        there = 4 if isinstance(pane, TracePane) and kind == "command" else 3
        if self.selection.seq is not None or kind == "address":
            self.action_pane(there)

    def _pane_of(self, view: LineView) -> Pane | None:
        return next((p for p in self.panes if p in view.ancestors and not self.changing), None)

    # -- layout --------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Tabs or grid."""
        if not self.changing:
            self._arrange(event.size.width, event.size.height)
        self.call_after_refresh(self._follow, None)

    def _arrange(self, width: int, height: int) -> None:
        self.grid = width >= GRID_WIDTH and height >= GRID_HEIGHT
        self.set_class(self.grid, "-grid")
        self.set_class(self.zoomed, "-zoom")
        if self.grid and not self.zoomed:
            top = {self.active} if self.active >= 5 else {1, 2}
            shown = {0, 3, 4} | top
        else:
            shown = {self.active}
        for number, pane in enumerate(self.panes):
            pane.set_class(number in shown, "-shown")
        share(self, width, height)
        self.port.keep_to(max(width - 1, 40))
        self.query_one("#top").set_class(bool(shown - {0, 3, 4}), "-shown")
        self.query_one("#bottom").set_class(bool(shown & {3, 4}), "-shown")

    def place_panes(self) -> None:
        """See :class:`~npudbg.tui.sessions.SessionScreen`."""
        self._arrange(self.size.width, self.size.height)

    def show_all(self) -> None:
        """See :class:`~npudbg.tui.sessions.SessionScreen`."""
        self.query_one(TracePane).show_breaks()
        self._follow(None)

    def focus_active(self) -> None:
        """See :class:`~npudbg.tui.sessions.SessionScreen`."""
        if not self.changing:
            self.panes[self.active].main.focus()

    def action_pane(self, number: int) -> None:
        """Open a pane."""
        if number >= len(self.panes):
            self.say(line((f" there is no pane {number}", "warn")))
            return
        self.active = number
        self._arrange(self.size.width, self.size.height)
        self.focus_active()
        self.call_after_refresh(self._follow, None)

    def on_tab_bar_picked(self, event: TabBar.Picked) -> None:
        """A tab was clicked."""
        self.action_pane(event.number)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the focus is the open one (in the grid)."""
        for number, pane in enumerate(self.panes):
            if pane in event.widget.ancestors and number != self.active and not self.changing:
                self.active = number
                self.bars()

    def action_zoom(self) -> None:
        """One pane alone, and back."""
        self.zoomed = not self.zoomed
        self.action_pane(self.active)

    def action_turn(self) -> None:
        """The pane's next view: memory, engines, DMA queue; values or distance from golden."""
        if self.active == 4:
            if not self.query_one(OutputPane).turn():
                self.say(line((" no golden comparison here; run with --golden ort", "warn")))
        elif self.active != 3:
            self.action_pane(3)
        else:
            self.query_one(TracePane).turn(self.grid)

    def action_scale(self, factor: float) -> None:
        """More or fewer cycles in the engines' chart."""
        self.query_one(TracePane).scale(factor)

    def action_values(self) -> None:
        """Values or characters beside the bytes."""
        trace = self.query_one(TracePane)
        trace.dump.as_values = not trace.dump.as_values
        trace.show_memory()

    # -- debugging -----------------------------------------------------------------------

    def action_run(self, verb: str) -> None:
        """Do a debugger verb and go where it stops."""
        self.execute(verb, quiet=True)

    def execute(self, text: str, *, quiet: bool = False) -> None:
        """Execute a line of the debugger's language.

        Args:
            text: The line.
            quiet: The panes show where it stopped: the console stays as it is.
                Otherwise more than one line opens it.
        """
        if self.rerun(text):
            return
        before = self.port.seq
        lines = self.port.execute(text)
        if self.port.wants_quit:
            self.app.exit()
            return
        if self.follow_session():
            pass
        elif self.port.seq != before and self.session.n_commands:
            self._remember()
            self.selection = of_command(self.session, self.port.seq)
            self._follow(None)
        else:
            self.bars()
        if not self.changing:
            self.query_one(TracePane).show_breaks()
        self.tell(lines, text, quiet=quiet)

    def action_toggle_break(self) -> None:
        """Set a breakpoint on the selected node, or delete it."""
        if self.selection.node is None:
            self.say(line((" nothing selected has a node to break on", "warn")))
            return
        self.execute(self.port.toggle_break(self.selection.node), quiet=True)

    def action_writer(self) -> None:
        """Go to the command that wrote the bytes shown."""
        seq = self.query_one(TracePane).writer()
        if seq is None:
            self.say(line((" no command has written what is shown", "warn")))
            return
        self.select(Subject(kind="command", seq=seq))

    def action_fault(self) -> None:
        """Back to the first fault."""
        finding = deciding(self.session)
        if finding is None:
            self.say(line((" nothing is at fault in this session", "ok")))
            return
        self.select(subject_of(finding), finding=self.session.findings.index(finding))

    def action_finding(self, direction: int) -> None:
        """Next or previous error or warning; what only informs is passed by."""
        found = self.session.findings
        if not found:
            self.say(line((" no findings", "ok")))
            return
        count = len(found)
        at = self.selection.finding
        begin = (-1 if direction > 0 else count) if at is None else at
        around = [(begin + direction * n) % count for n in range(1, count + 1)]
        grave = [n for n in around if found[n].severity != "info"]
        number = (grave or around)[0]
        self.select(subject_of(found[number]), finding=number)
        self.say(Line((line(" ").spans[0], *self.panes[0].main.source.line(
            number + 1, self.size.width - 2).spans)))  # fmt: skip

    def action_walk(self, up: bool) -> None:
        """Producer or consumer."""
        goal = step(self.session, self.selection, up)
        if goal is None:
            what = "produces what this reads" if up else "reads this"
            self.say(line((f" no node {what}", "warn")))
            return
        self.select(goal)

    def action_back(self) -> None:
        """Back to where the user was."""
        if not self.trail:
            self.say(line((" nowhere further back", "warn")))
            return
        self.selection = self.trail.pop()
        if self.selection.seq is not None:
            self.port.goto(self.selection.seq)
        self._follow(None)

    def action_explain(self) -> None:
        """Show the finding's long text."""
        found, at = self.session.findings, self.selection.finding
        if at is None or not found:
            self.say(line((" no finding is selected; ] goes to the next one", "warn")))
            return
        chosen = found[at]
        self.app.push_screen(TextScreen(chosen.code, lambda w: self.port.explain(chosen, w)))

    def action_leave(self) -> None:
        """Stop a run under way; else hide the console, end the zoom."""
        if self.stop():
            return
        self.query_one("#console-box").remove_class("-open")
        if self.zoomed:
            self.action_zoom()
        self.focus_active()

    def action_help(self) -> None:
        """Show the keys."""
        extra = [(k, f"{t} ({safe(p.title, 16)})") for p in self.panels for k, t in p.keys.items()]
        self.app.push_screen(TextScreen("npudbg: keys", lambda w: keymap.help_lines(w, extra)))

    def action_quit(self) -> None:
        """Leave the program."""
        self.app.exit()
