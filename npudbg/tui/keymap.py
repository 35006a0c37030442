"""The keys, as data: gdb's letters; Shift goes backwards; an F-key is never the only way.

A user's own keys stand in ``keymap.toml`` in the configuration folder, in a table
``[keys]`` of ``id = "key,key"``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from textual.binding import Binding

from npudbg.render.fit import left, wrapped
from npudbg.session.errors import UserError
from npudbg.session.lines import Line, line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_FILE = 64 << 10


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the debugger's screen.

    Attributes:
        id: Stable name, for remapping.
        keys: Textual's key names, comma-separated; the first is shown.
        action: What it does.
        shown: How the key is written for people.
        help: One line.
        group: Heading in the help.
    """

    id: str
    keys: str
    action: str
    shown: str
    help: str
    group: str


KEYS: tuple[Key, ...] = (
    Key("step", "s,f11", "run('s')", "s", "step: one command", "Debugging"),
    Key("back-step", "S,shift+f11,f23", "run('rs')", "S", "one command back", "Debugging"),
    Key("next", "n,f10", "run('n')", "n", "next: to the next node's first command", "Debugging"),
    Key("back-next", "N,shift+f10,f22", "run('rn')", "N", "one node back", "Debugging"),
    Key("continue", "c,f5", "run('c')", "c", "continue to the next stop", "Debugging"),
    Key("back-continue", "C,shift+f5,f17", "run('rc')", "C", "continue backwards", "Debugging"),
    Key("finish", "f", "run('fin')", "f", "finish: to the end of this node", "Debugging"),
    Key("back-finish", "F", "run('rfin')", "F", "back to the start of this node", "Debugging"),
    Key("break", "b,f9", "toggle_break", "b", "breakpoint on this node, on or off", "Debugging"),
    Key("writer", "w", "writer", "w", "go to the command that wrote the bytes shown", "Debugging"),
    Key("command", "colon", "prompt(':')", ":", "type any debugger command (Tab completes)",
        "Debugging"),
    Key("fault", "o", "fault", "o", "origin: back to the first fault", "Finding"),
    Key("next-finding", "right_square_bracket", "finding(1)", "]", "next error or warning",
        "Finding"),
    Key("last-finding", "left_square_bracket", "finding(-1)", "[",
        "previous error or warning", "Finding"),
    Key("up", "u", "walk(True)", "u", "up: to the producer (the dirty one first)", "Finding"),
    Key("down", "d", "walk(False)", "d", "down: to a consumer", "Finding"),
    Key("back", "backspace", "back", "Backspace", "back to where you were", "Finding"),
    Key("explain", "e", "explain", "e", "explain the finding", "Finding"),
    Key("find", "slash", "prompt('/')", "/", "search in this pane", "Finding"),
    Key("find-next", "full_stop", "find(1)", ".", "next match", "Finding"),
    Key("find-last", "comma", "find(-1)", ",", "previous match", "Finding"),
    Key("pane-0", "0", "pane(0)", "0", "findings and verdict", "Panes"),
    Key("pane-1", "1", "pane(1)", "1", "host: buffers, strides, alignment", "Panes"),
    Key("pane-2", "2", "pane(2)", "2", "input: contract, dtype, range", "Panes"),
    Key("pane-3", "3", "pane(3)", "3", "trace: commands, memory, engines", "Panes"),
    Key("pane-4", "4", "pane(4)", "4", "output: values of every tensor", "Panes"),
    Key("pane-5", "5", "pane(5)", "5 6 …", "panels of plugins", "Panes"),
    Key("pane-6", "6", "pane(6)", "6", "second plugin panel", "Panes"),
    Key("pane-7", "7", "pane(7)", "7", "third plugin panel", "Panes"),
    Key("pane-8", "8", "pane(8)", "8", "fourth plugin panel", "Panes"),
    Key("pane-9", "9", "pane(9)", "9", "fifth plugin panel", "Panes"),
    Key("focus", "tab", "app.focus_next", "Tab", "next list (Shift+Tab: previous)", "Panes"),
    Key("zoom", "z", "zoom", "z", "this pane alone, and back", "Panes"),
    Key("timeline", "t", "turn", "t", "trace: memory, engines, DMA queue; output: golden", "Panes"),
    Key("zoom-in", "plus,equals_sign", "scale(0.25)", "+", "engines: fewer cycles", "Panes"),
    Key("zoom-out", "minus", "scale(4.0)", "-", "engines: more cycles", "Panes"),
    Key("values", "v", "values", "v", "memory: values or characters", "Panes"),
    Key("console", "l", "console", "l", "show or hide what commands printed", "Panes"),
    Key("leave", "escape", "leave", "Esc", "leave prompt, console, zoom, help; stop a run",
        "Program"),
    Key("help", "question_mark,f1", "help", "?", "this help", "Program"),
    Key("palette", "p,ctrl+p", "app.command_palette", "p", "command palette", "Program"),
    Key("quit", "q,ctrl+q", "quit", "q", "quit", "Program"),
)  # fmt: skip

_HIDDEN = {"pane-6", "pane-7", "pane-8", "pane-9"}
LIST_HELP = (
    ("↑ ↓ j k", "one line"),
    ("PgUp PgDn", "one page"),
    ("g G", "first, last line"),
    ("Enter", "go to what the line is about"),
)

FOOTER = (
    ("n/N", "next", 1), ("s/S", "step", 2), ("c/C", "continue", 3), ("Shift", "= back", 9),
    ("b", "break", 7), ("o", "fault", 6), ("/", "find", 5), (":", "command", 4),
    ("0-6", "panes", 8), ("t", "turn view", 12), ("z", "zoom", 11),
    ("?", "help", 0), ("q", "quit", 10),
)  # fmt: skip
"""What stands at the bottom: key, meaning, and how soon it goes when there is no room."""


def bindings() -> list[Binding]:
    """Return the keys as Textual bindings, each with an id so that it can be remapped."""
    # The prompt opens before the next key is looked at: over a slow line a whole command
    # comes in one packet, and must not be taken for keys of the panes.
    return [
        Binding(
            k.keys, k.action, k.help, show=False, id=k.id, priority=k.action.startswith("prompt(")
        )
        for k in KEYS
    ]


def footer(width: int) -> Line:
    """Return the line of keys at the bottom; the least needed go first when it is narrow."""
    kept = list(FOOTER)
    while len(kept) > 2 and sum(len(k) + len(t) + 3 for k, t, _ in kept) > width:
        kept.remove(max(kept, key=lambda each: each[2]))
    parts: list[tuple[str, Any] | str] = []
    for key, text, _ in kept:
        parts += [(f" {key}", "key"), f" {text} "]
    return line(*parts)


def help_lines(width: int, extra: Iterable[tuple[str, str]] = ()) -> list[Line]:
    """Return the help: all keys by group, then the lists' own, then what marks mean.

    Args:
        width: Columns; longer texts go on below themselves.
        extra: Keys of plugins' panels, each with what it does.
    """
    lines: list[Line] = []

    def item(key: str, text: str) -> list[Line]:
        rows = wrapped(text, width, lead=" " * 13)
        return [line("  ", (left(key, 11), "key"), rows[0].spans[-1].text), *rows[1:]]

    group = ""
    for key in KEYS:
        if key.id in _HIDDEN:
            continue
        if key.group != group:
            group = key.group
            lines += [line(""), line((group, "title"))]
        lines += item(key.shown, key.help)
    lines += [line(""), line(("Lists", "title"))]
    lines += chain.from_iterable(item(k, text) for k, text in LIST_HELP)
    extra = list(extra)
    if extra:
        lines += [line(""), line(("Plugin panels (while one has the focus)", "title"))]
        lines += chain.from_iterable(item(k, text) for k, text in extra)
    lines += [line(""), line(("Marks", "title"))]
    for mark, text in (
        ("!", "error"), ("~", "warning"), ("i", "information"), ("✓", "in order"),
        ("-", "not judged (tabs); never started (commands)"),
        (">", "the cursor; in the golden table the first tensor that differs"),
        ("B", "a breakpoint stops here"),
        ("s", "a transfer of fewer than 1,024 bytes"),
        ("*", "bytes that the command at the cursor wrote; touched by an injection"),
        ("--", "bytes that nothing has written yet"),
        ("o", "an output of the model"),
    ):  # fmt: skip
        lines += item(mark, text)
    return lines[1:]


def user_keymap(folder: Path | None = None) -> dict[str, str]:
    """Return the user's own keys by id; empty when there is no file.

    Raises:
        UserError: The file is no such table, or names an id that does not exist.
    """
    if folder is None:
        import platformdirs

        folder = Path(platformdirs.user_config_dir("npudbg"))
    path = folder / "keymap.toml"
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            raise UserError(f"{path}: larger than {_MAX_FILE} bytes; a [keys] table was expected")
        keys = tomllib.loads(data.decode("utf-8")).get("keys", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: not readable as TOML ({error})") from None
    known = {k.id for k in KEYS}
    if not isinstance(keys, dict) or not all(isinstance(v, str) for v in keys.values()):
        raise UserError(f'{path}: [keys] wants lines such as next = "n,f10"')
    for name in keys:
        if name not in known:
            raise UserError(
                f"{path}: no key is called {name[:40]!r}; known: {', '.join(sorted(known))}"
            )
    return keys
