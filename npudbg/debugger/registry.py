"""The verbs of the language: names, aliases, unique beginnings, help."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from npudbg.debugger.context import Context
from npudbg.debugger.errors import DebuggerError
from npudbg.session.lines import Line
from npudbg.session.text import safe

Run = Callable[[Context, str], list[Line]]
Complete = Callable[[Context, str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb.

    Attributes:
        name: Its full name.
        run: Does it; given what stands after it.
        usage: How it is written.
        help: What it does, one line.
        group: Heading in the help.
        aliases: Other names.
        repeats: Whether an empty line does it again.
        complete: Ways to go on, given what stands after it.
        more: Further lines of help.
    """

    name: str
    run: Run
    usage: str
    help: str
    group: str
    aliases: tuple[str, ...] = ()
    repeats: bool = False
    complete: Complete | None = None
    more: tuple[str, ...] = ()


class Registry:
    """The verbs by name."""

    def __init__(self, verbs: Iterable[Verb]) -> None:
        """Take all verbs; a name stands for one of them only."""
        self.verbs: dict[str, Verb] = {}
        self._names: dict[str, Verb] = {}
        for verb in verbs:
            self.verbs[verb.name] = verb
            for name in (verb.name, *verb.aliases):
                if name in self._names:
                    raise ValueError(f"two verbs are called {name}")
                self._names[name] = verb

    def find(self, word: str) -> Verb:
        """Return the verb of a name, an alias, or a beginning that only one verb has.

        Raises:
            DebuggerError: There is none, or more than one.
        """
        if word in self._names:
            return self._names[word]
        found = sorted(name for name in self.verbs if word and name.startswith(word))
        if len(found) == 1:
            return self.verbs[found[0]]
        if found:
            raise DebuggerError(f"{safe(word, 20)} can be {', '.join(found)}")
        near = difflib.get_close_matches(word, self._names, 1)
        hint = f"did you mean {near[0]}?" if near else "help lists them"
        raise DebuggerError(f"no verb {safe(word, 30)}; {hint}")

    def names(self) -> list[str]:
        """Return the full names, sorted."""
        return sorted(self.verbs)


def completed(words: Iterable[str], start: str) -> list[str]:
    """Return those of ``words`` that begin with ``start``, sorted, each once."""
    return sorted({w for w in words if w.startswith(start)})
