"""What a sweep prints: progress, the table, its distinct failures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

_TOLD_SECONDS = 5.0
_NAME = 255
_MESSAGE = 400
_NARROW = 12
_UNCUT = 1 << 20
_MOST_UNREAD = 8

Row = Mapping[str, Any]
Failure = tuple[str, str]
"""Code and subject."""


def show(
    rows: Sequence[Row], sessions: Mapping[Failure, str], *, as_json: bool, model: str
) -> None:
    """Print the table of a sweep.

    Args:
        rows: One an input.
        sessions: File names of kept sessions.
        as_json: As JSON instead.
        model: The model's file, as it was given.
    """
    failures: dict[Failure, list[Row]] = {}
    for row in rows:
        if row["layer"]:
            failures.setdefault((row["code"], row["subject"]), []).append(row)
    if as_json:
        print(json.dumps(_document(rows, failures, sessions, model), indent=2))
        return
    width = _columns()
    for line in [*_table(rows, width), *_failures(rows, failures, sessions, width)]:
        print(line)


def _document(
    rows: Sequence[Row],
    failures: Mapping[Failure, Sequence[Row]],
    sessions: Mapping[Failure, str],
    model: str,
) -> dict[str, Any]:
    hidden = ("size", "mtime_ns")
    return {
        "format": "npudbg-sweep/1",
        "model": model,
        "inputs": [{k: v for k, v in row.items() if k not in hidden} for row in rows],
        "failures": [
            {
                "code": code,
                "subject": subject,
                "inputs": [row["input"] for row in shown],
                "session": sessions.get((code, subject)),
            }
            for (code, subject), shown in failures.items()
        ],
    }


def _table(rows: Sequence[Row], width: int) -> list[str]:
    from npudbg.render.fit import cut_middle, left
    from npudbg.session.text import safe

    lines = [("input", "verdict", "code", "subject")]
    lines += [
        (safe(r["input"], _NAME), _verdict(r), r["code"] or "-", safe(r["subject"], _NAME) or "-")
        for r in rows
    ]
    name, verdict, code, subject = (max(len(line[i]) for line in lines) for i in range(4))
    # The two names share what verdict and code leave; a short one leaves more to the other.
    room = max(width - verdict - code - 6, 2 * _NARROW)
    name = min(name, max(room - subject, room // 2))
    subject = room - name
    return [
        "  ".join(
            (left(cut_middle(a, name), name), left(b, verdict), left(c, code),
             cut_middle(d, subject))
        ).rstrip()
        for a, b, c, d in lines
    ]  # fmt: skip


def _failures(
    rows: Sequence[Row],
    failures: Mapping[Failure, Sequence[Row]],
    sessions: Mapping[Failure, str],
    width: int,
) -> list[str]:
    from npudbg.render.fit import wrap
    from npudbg.session.text import safe

    bad = sum(row["layer"] != 0 for row in rows)
    head = f"{_count(len(rows), 'input')}, {bad} not in order, "
    lines = [head + f"{_count(len(failures), 'distinct failure')} (simulated)"]
    for (code, subject), shown in failures.items():
        first = safe(shown[0]["input"], _NAME)
        text = f"{code} {safe(subject, _NAME)}: {_count(len(shown), 'input')}, first {first}"
        lines += [f"  {line}" for line in wrap(text, width - 2, 2)]
        kept = sessions.get((code, subject))
        lines += [f"    {line}" for line in wrap(safe(shown[0]["message"], _MESSAGE), width - 4)]
        lines += [f"    session {kept}"] if kept else []
    unread = [row for row in rows if row["layer"] is None]
    for row in unread[:_MOST_UNREAD]:
        text = f"{row['status']} {safe(row['input'], _NAME)}: {safe(row['message'], _MESSAGE)}"
        lines += [f"  {line}" for line in wrap(text, width - 2, 2)]
    if len(unread) > _MOST_UNREAD:
        lines.append(f"  and {len(unread) - _MOST_UNREAD} more that did not run: see --json")
    return lines


def _verdict(row: Row) -> str:
    from npudbg.session.records import LAYER_NAMES

    if row["layer"] is None:
        return str(row["status"])
    return f"{row['layer']} {LAYER_NAMES[row['layer']]}" if row["layer"] else "in order"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _columns() -> int:
    """Return the terminal's width; what goes to a file or a pipe is not cut."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else _UNCUT


class Progress:
    """How far it is, on stderr: one line that is overwritten, or a line now and then."""

    def __init__(self, total: int, known: int, bad: int) -> None:
        """Start, with what was known before."""
        self._total, self._done, self._bad, self._known = total, known, bad, known
        self._live = sys.stderr.isatty()
        self._began = self._told = time.monotonic()
        if known:
            print(f"npudbg: {known} of {total} inputs were done before", file=sys.stderr)

    def done(self, row: Row) -> None:
        """One more input is done."""
        self._done += 1
        self._bad += row["layer"] != 0
        if self._live or time.monotonic() - self._told >= _TOLD_SECONDS:
            self._print("\r" if self._live else "\n", self._left())

    def end(self) -> None:
        """All are."""
        self._print("\n", " " * 20 if self._live else "")

    def stopped(self, *, kept: bool) -> None:
        """The user stopped it."""
        self._print("\n", " " * 20 if self._live else "")
        how = "the same command goes on from there" if kept else "--out DIR would have kept them"
        print(f"npudbg: stopped; {how}", file=sys.stderr)

    def _left(self) -> str:
        """Return how long the rest will take at the pace so far."""
        done, rest = self._done - self._known, self._total - self._done
        if not done or not rest:
            return ""
        seconds = (time.monotonic() - self._began) / done * rest
        text = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        return f", about {text} left" + ("  " if self._live else "")

    def _print(self, end: str, more: str) -> None:
        self._told = time.monotonic()
        text = f"npudbg: {self._done} of {self._total} inputs, {self._bad} not in order{more}"
        print(text, end=end, file=sys.stderr, flush=True)
