"""The language: a line in, lines out; a mistake is a line too, never an exception."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npudbg.debugger import words
from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.debugger.expressions.lexer import MOST_CHARS
from npudbg.debugger.forks import Forked, Forker, Rerun
from npudbg.debugger.registry import Registry, Verb, completed
from npudbg.debugger.sessions import Sessions
from npudbg.debugger.state import View
from npudbg.debugger.verbs import (
    displays,
    info,
    listing,
    memory,
    moving,
    sessions,
    setting,
    stops,
    tracing,
    values,
)
from npudbg.session.errors import UserError
from npudbg.session.lines import Line, line
from npudbg.session.reader import Session
from npudbg.session.text import safe

_WORD = re.compile(r"\s*([A-Za-z!?][A-Za-z-]*)(.*)", re.DOTALL)
_MOST_LINE = 2 * MOST_CHARS
_MOST_SCRIPT = 1 << 20
_MOST_NESTED = 8
_CONTINUES = ("x", "list")
"""Verbs that an empty line does not do again but lets go on."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a front end shows beside the prompt.

    Attributes:
        seq: The cursor.
        reason: Why it stopped there; ``""`` when it was put there.
        moved: Whether the last line moved the cursor.
        text: ``(npudbg 18204) ``.
    """

    seq: int
    reason: str
    moved: bool
    text: str


class ScriptError(UserError):
    """A command of a script failed; the message names file and line."""


class Interpreter:
    """The debugger over a session and its forks, as lines of text; close it when done.

    Attributes:
        failed: Whether the last line was a mistake.
        sessions: The session and its forks.
    """

    def __init__(self, session: Session, target: Any = None, forker: Forker | None = None) -> None:
        """Stand on the first command.

        Args:
            session: The record; it stays the caller's to close.
            target: The profile it ran on, if known (for alignments in ``info life``).
            forker: Does the run again with changes (for ``set``).
        """
        self.sessions = Sessions(session, target, forker)
        self.failed = False
        self.registry = Registry(
            [
                *moving.VERBS, *stops.VERBS, *values.VERBS, *displays.VERBS, *memory.VERBS,
                *tracing.VERBS, *listing.VERBS, *info.VERBS, *setting.VERBS, *sessions.VERBS,
                *self._own(),
            ]
        )  # fmt: skip
        self._last = ""
        self._moved = False
        self._nested = 0

    # -- what front ends use -------------------------------------------------------------

    def execute(self, text: str) -> list[Line]:
        """Execute a line; an empty one repeats the last where that makes sense."""
        before = self._place
        self.failed = False
        try:
            lines = self._execute(text)
        except DebuggerError as error:
            lines = self._mistake(words.error_lines(error))
        except (UserError, OSError, MemoryError, RecursionError) as error:
            lines = self._mistake([line((safe(error, 400) or type(error).__name__, "error"))])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # Only a record whose parts contradict one another leads here.
            text = (
                f"the record contradicts itself here ({type(error).__name__}: {safe(error, 200)})"
            )
            lines = self._mistake([line((text, "error"))])
        self._moved = self._place != before
        return lines

    def rerun(self, text: str) -> Rerun | None:
        """Return the run that a ``set`` asks for, to be made elsewhere and then adopted.

        None for any other line, also for one that is a mistake: :meth:`execute` tells it.
        """
        if len(text) > _MOST_LINE:
            return None
        try:
            verb, rest = self._split(text)
            changes = setting.asked(self.context, rest) if verb.name == "set" else None
            return None if changes is None else self.sessions.rerun(changes)
        except (UserError, ArithmeticError, LookupError, OSError, TypeError, ValueError):
            return None

    def adopt(self, rerun: Rerun, forked: Forked) -> list[Line]:
        """Go to the fork that a run has become."""
        self.failed, self._last = False, ""
        try:
            told = self.sessions.adopt(rerun, forked)
        except UserError as error:
            return self._mistake([line((safe(error, 400), "error"))])
        return sessions.arrived(self.sessions, told, forked.lines)

    def close(self) -> None:
        """Close the forks."""
        self.sessions.close()

    def completions(self, text: str) -> list[str]:
        """Return whole lines that begin with ``text``, sorted."""
        match = _WORD.fullmatch(text)
        if match is None or not (match[2] or text.strip()):
            return self.registry.names() if not text.strip() else []
        word, rest = match[1], match[2]
        if not rest:
            return completed([*self.registry.names()], word)
        try:
            verb = self.registry.find(word)
            if verb.complete is None or not rest[0].isspace():
                return []
            start = rest.lstrip()
            head = text[: len(text) - len(start)]
            return sorted(head + found for found in verb.complete(self.context, start))[:500]
        except (UserError, ArithmeticError, LookupError, TypeError, ValueError):
            return []

    @property
    def context(self) -> Context:
        """The state in the session that is looked at."""
        return self.sessions.current.context

    @property
    def session(self) -> Session:
        """The session that is looked at."""
        return self.context.session

    @property
    def prompt(self) -> Prompt:
        """What to show beside the prompt."""
        cursor = self.context.cursor
        at = str(cursor.seq) if cursor.last >= 0 else "no commands"
        return Prompt(cursor.seq, cursor.reason, self._moved, f"(npudbg {at}) ")

    @property
    def seq(self) -> int:
        """The cursor: number of the current command."""
        return self.context.cursor.seq

    @property
    def reason(self) -> str:
        """Why the cursor stopped where it is; ``""`` when it was put there."""
        return self.context.cursor.reason

    @property
    def wants_quit(self) -> bool:
        """Whether the last line was ``quit``."""
        return self.context.wants_quit

    @property
    def simulated(self) -> bool:
        """Whether the record comes from the simulated device."""
        return self.context.origin == "simulated"

    def goto(self, seq: int) -> None:
        """Put the cursor on a command, saying nothing; out of range: the nearest."""
        cursor = self.context.cursor
        if cursor.last >= 0:
            self.context.frame.clear()
            self.context.listed = None
            cursor.goto(max(0, min(seq, cursor.last)))

    def memory(self, space: int, address: int, nbytes: int) -> View:
        """Return memory as it was after the cursor's command."""
        return self.context.state.memory_at(space, address, nbytes, self.context.seq)

    def toggle_break(self, node: int) -> str:
        """Return the line that sets a breakpoint on a node, or deletes the one there."""
        found = self.context.table.on_node(node)
        return f"delete {found.number}" if found is not None else f"break node {node}"

    def break_nodes(self) -> frozenset[int]:
        """Return the nodes on which an enabled breakpoint stands."""
        return self.context.table.nodes()

    def run_script(self, path: Path) -> Iterator[tuple[str, list[Line]]]:
        """Execute a file line by line, yielding each with what it printed.

        Raises:
            ScriptError: A line failed, or the file cannot be read.
        """
        if self._nested >= _MOST_NESTED:
            raise ScriptError(
                f"{safe(path)}: scripts source one another more than {_MOST_NESTED} deep"
            )
        self._nested += 1
        try:
            for number, text in enumerate(_script(path), 1):
                word = text.strip()
                if not word or word.startswith("#"):
                    continue
                lines = self.execute(word)
                if self.failed:
                    first = lines[0].text if lines else "failed"
                    raise ScriptError(f"{safe(path)}:{number}: {safe(word, 80)}: {first}")
                yield word, lines
                if self.wants_quit:
                    return
        finally:
            self._nested -= 1

    # -- inside --------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[int, int]:
        return self.sessions.current.number, self.context.cursor.seq

    def _execute(self, text: str) -> list[Line]:
        if len(text) > _MOST_LINE:
            raise DebuggerError(f"{len(text)} characters; a line has at most {_MOST_LINE}")
        if not text.strip():
            if not self._last:
                return []
            verb, rest = self._split(self._last)
            if verb.name in _CONTINUES:
                return verb.run(self.context, "")
            return self._run(verb, rest)
        if text.lstrip().startswith("#"):
            return []
        verb, rest = self._split(text)
        lines = self._run(verb, rest)
        self._last = text if verb.repeats else ""
        return lines

    def _split(self, text: str) -> tuple[Verb, str]:
        match = _WORD.fullmatch(text)
        if match is None:
            raise DebuggerError("a verb comes first; help lists them", text, 0)
        word, rest = match[1], match[2]
        verb = self.registry.find(word)
        # `s5` counts and `x/16fh` has a format; anything else is a word of its own.
        apart = not rest or rest[0].isspace() or rest[0] == "/"
        if not apart and not (verb.group == "Moving" and rest.strip().isdigit()):
            raise DebuggerError(f"no verb {safe(word + rest.split()[0], 30)}; help lists them")
        return verb, rest.strip()

    def _run(self, verb: Verb, rest: str) -> list[Line]:
        before = self.context.cursor.seq
        lines = verb.run(self.context, rest)
        if verb.group == "Moving" and (self.context.cursor.seq != before or verb.repeats):
            lines = [*lines, *displays.display_lines(self.context)]
        return lines

    def _mistake(self, lines: list[Line]) -> list[Line]:
        self.failed = True
        self._last = ""
        return lines

    def _own(self) -> list[Verb]:
        """Return the verbs that are about the language itself."""
        return [
            Verb("help", self._help, "help [VERB]", "the verbs, or one of them", "Language", ("h",),
                 complete=lambda _, start: completed(self.registry.names(), start)),
            Verb("source", self._source, "source FILE", "execute a file of commands", "Language"),
            Verb("quit", self._quit, "quit", "leave", "Language", ("q", "exit")),
        ]  # fmt: skip

    def _help(self, context: Context, text: str) -> list[Line]:
        if text:
            verb = self.registry.find(text.split(maxsplit=1)[0])
            also = f"  (also {', '.join(verb.aliases)})" if verb.aliases else ""
            return [
                line((verb.usage, "title"), (also, "dim")),
                line(f"  {verb.help}"),
                *(line(f"  {more}") for more in verb.more),
            ]
        lines: list[Line] = []
        for group in dict.fromkeys(v.group for v in self.registry.verbs.values()):
            lines.append(line((group, "title")))
            for verb in self.registry.verbs.values():
                if verb.group == group:
                    names = ", ".join([verb.name, *verb.aliases[:2]])
                    lines.append(line((f"  {names:<28}", "key"), verb.help))
        lines.append(line(("An empty line repeats a step; beginnings of verbs will do.", "dim")))
        return lines

    def _source(self, context: Context, text: str) -> list[Line]:
        if not text:
            raise DebuggerError("source what? a file of commands")
        found: list[Line] = []
        for _, lines in self.run_script(Path(text.strip("\"'")).expanduser()):
            found += lines
        return found

    def _quit(self, context: Context, text: str) -> list[Line]:
        context.wants_quit = True
        return []


def _script(path: Path) -> list[str]:
    """Return the lines of a script.

    Raises:
        ScriptError: It cannot be read.
    """
    try:
        if not path.is_file():
            what = "no such script" if not path.exists() else "not a regular file"
            raise ScriptError(f"{safe(path)}: {what}; expected a file of debugger commands")
        with path.open("rb") as file:
            data = file.read(_MOST_SCRIPT + 1)
        if len(data) > _MOST_SCRIPT:
            raise ScriptError(f"{safe(path)}: larger than {_MOST_SCRIPT >> 20} MiB; not a script")
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ScriptError(f"{safe(path)}: byte {error.start} is not UTF-8; not a script") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ScriptError(f"{safe(path)}: {safe(reason)}") from None
