"""What `npudbg exec` and `npudbg attach` do with each event: judge, print, ask, record."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Literal

from npudbg.commands.attached import text as attached_text
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.backends.attached import Answer
    from npudbg.backends.attached_events import AttachedCall, AttachedSession, Program
    from npudbg.backends.attached_record import Placed, Recorder
    from npudbg.session.records import Finding

Stop = Literal["never", "faulty", "always"]
"""When a call is held: never, at an error finding, or at each."""


@dataclass
class Judges:
    """The rules, as two functions; each gets the call and its placed values."""

    inputs: Callable[[AttachedCall, list[Placed]], list[Finding]]
    outputs: Callable[[AttachedCall, list[Placed]], list[Finding]]


@dataclass
class _Seen:
    """A finding and how often it came back."""

    finding: Finding
    call: int
    pid: int
    stage: str
    count: int = 1


@dataclass
class Terminal:
    """Where questions are asked and answered: two file descriptors, unbuffered.

    A thread may still be waiting in :meth:`ask` when the interpreter ends; a
    buffered file would then be locked.
    """

    read: int
    write: int

    @classmethod
    def open(cls) -> Terminal | None:
        """Return the controlling terminal, or None where there is none."""
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            return None
        return cls(fd, fd)

    def ask(self, question: str) -> str:
        """Return the answer's first letter; ``c`` for an empty one and at the end of input."""
        try:
            os.write(self.write, question.encode())
            line = os.read(self.read, 1024)
        except OSError:
            return "c"
        return line.decode(errors="replace").strip().lower()[:1] or "c"

    def say(self, line: str) -> None:
        """Print a line."""
        with contextlib.suppress(OSError):
            os.write(self.write, line.encode() + b"\n")


@dataclass
class AttachedDebugger:
    """Handles the events of one or more programs (see ``backends.attached.Handler``).

    Attributes:
        out: Where the lines go, or None for silence.
        judges: The rules of layers 1 and 2, and of layer 4.
        recorder: Numbers the tensors and writes the session.
        stop: When a call is held.
        terminal: Who is asked then; with none, a held call is aborted.
        limit: Calls after which the program is left (0: never).
    """

    out: IO[str] | None
    judges: Judges
    recorder: Recorder
    stop: Stop = "never"
    terminal: Terminal | None = None
    limit: int = 0
    programs: int = 0
    calls: int = 0
    aborted: int = 0
    problems: list[str] = field(default_factory=list)
    closed: bool = False
    _seen: dict[tuple[str, ...], _Seen] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """Every distinct finding once; its evidence says when first and how often."""
        import msgspec

        merged = []
        for seen in self._seen.values():
            more = {"pid": seen.pid, "call": seen.call, "when": seen.stage, "calls": seen.count}
            evidence = {**seen.finding.evidence, **more}
            merged.append(msgspec.structs.replace(seen.finding, evidence=evidence))
        return sorted(merged, key=lambda f: f.layer)

    # -- the handler ---------------------------------------------------------------------

    def joined(self, program: Program) -> None:
        """Say which program has joined."""
        if self.closed:
            return
        self.programs += 1
        self.recorder.joined(program)
        argv = safe(" ".join(program.argv) or program.executable)
        self._say(
            f"joined pid {program.pid}: {argv} (Python {safe(program.python, 12)}, "
            f"numpy {safe(program.numpy, 12)}, onnxruntime {safe(program.onnxruntime, 12)})"
        )

    def created(self, session: AttachedSession) -> None:
        """Say which model the program has loaded."""
        if self.closed:
            return
        self.recorder.created(session)
        providers = safe(", ".join(session.providers))
        self._say(f"session {session.number}: {safe(session.model.name)} on {providers}")

    def before(self, call: AttachedCall) -> Answer:
        """Judge the arrays that a call is about to be given."""
        if self.closed:
            return "detach"
        self.calls += 1
        placed = self.recorder.begin(call)
        found = self._judge(self.judges.inputs, call, placed)
        new = self._add(found, call, "before")
        self.recorder.store(call, placed, keep=bool(new))
        self._say(attached_text.call_line(call, "before"))
        self._say_all(attached_text.finding_lines(new))
        answer = self._answer(call, new, "before")
        if answer == "abort":
            self.recorder.finish_call(call, [], "skipped")
        elif answer == "continue" and self.limit and self.calls > self.limit:
            answer = "detach"
        return answer

    def after(self, call: AttachedCall) -> Answer:
        """Judge the results of a call."""
        if self.closed:
            return "detach"
        placed = self.recorder.end(call)
        found = self._judge(self.judges.outputs, call, placed) if not call.error else []
        new = self._add(found, call, "after")
        self.recorder.store(call, placed, keep=bool(new))
        self.recorder.finish_call(call, placed)
        self._say(attached_text.call_line(call, "after"))
        self._say_all(attached_text.finding_lines(new))
        answer = self._answer(call, new, "after")
        if answer == "continue" and self.limit and self.calls >= self.limit:
            answer = "detach"
        return answer

    def left(self, program: Program, problem: str) -> None:
        """Note that a program has gone."""
        if self.closed:
            return
        self.recorder.left(program)
        if problem:
            self.problems.append(f"pid {program.pid}: {problem}; the program went on alone")

    def close(self) -> None:
        """Answer no more: whoever still calls goes on alone."""
        self.closed = True

    # -- inside --------------------------------------------------------------------------

    def _judge(
        self,
        judge: Callable[[AttachedCall, list[Placed]], list[Finding]],
        call: AttachedCall,
        placed: list[Placed],
    ) -> list[Finding]:
        from npudbg.session.errors import UserError

        try:
            return judge(call, placed)
        except UserError as error:
            self._note(str(error))
        except Exception as error:
            # A rule that breaks must not take the user's program with it.
            self._note(f"a rule failed on call {call.number}: {type(error).__name__}: {error}")
        return []

    def _note(self, problem: str) -> None:
        if problem not in self.problems and len(self.problems) < 100:
            self.problems.append(problem)

    def _add(self, found: Iterable[Finding], call: AttachedCall, stage: str) -> list[Finding]:
        """Merge findings; return those that were not there before."""
        new = []
        model = call.session.model.path or call.session.model.name if call.session else ""
        for each in found:
            key = (model, each.code, each.subject.kind, each.subject.name)
            if key in self._seen:
                self._seen[key].count += 1
                continue
            self._seen[key] = _Seen(each, call.number, call.program.pid, stage)
            new.append(each)
        return new

    def _answer(self, call: AttachedCall, new: list[Finding], stage: str) -> Answer:
        faulty = any(f.severity == "error" for f in new)
        held = faulty if self.stop == "faulty" else self.stop == "always"
        if self.stop == "always" and stage == "after":
            held = faulty
        if not held:
            return "continue"
        if self.terminal is None:
            self.aborted += 1
            return "abort"
        return self._ask(call, stage)

    def _ask(self, call: AttachedCall, stage: str) -> Answer:
        terminal = self.terminal
        assert terminal is not None
        where = f"call {call.number} {'is held' if stage == 'before' else 'has returned'}"
        while True:
            letter = terminal.ask(f"{where}: (c)ontinue, (a)bort, (i)nfo, (d)etach? ")
            if letter == "c":
                return "continue"
            if letter == "a":
                self.aborted += 1
                return "abort"
            if letter == "d":
                return "detach"
            if letter == "i":
                for value in call.values:
                    for line in attached_text.value_lines(value):
                        terminal.say(line)
            else:
                terminal.say("answer c, a, i or d")

    def _say(self, line: str) -> None:
        if self.out is not None:
            self.out.write(f"npudbg: {line}\n")
            self.out.flush()

    def _say_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._say(line)
