"""What `exec` and `attach` share: setting a debugger up, and the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from npudbg.commands.attached.debugger import AttachedDebugger, Stop, Terminal
from npudbg.commands.attached.text import verdict_lines
from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.session.records import Finding, Verdict


def open_log(path: str) -> IO[str]:
    """Open the file for npudbg's own lines.

    Raises:
        UserError: It cannot be written.
    """
    try:
        return Path(path).open("w", encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{safe(path)}: cannot be written ({error.strerror})") from None


def prepare(
    target_name: str,
    save: str | None,
    *,
    out: IO[str] | None,
    stop: Stop,
    terminal: Terminal | None,
    options: dict[str, Any],
    limit: int = 0,
) -> tuple[AttachedDebugger, Callable[[], int]]:
    """Set a debugger up.

    Args:
        target_name: Name or file of the chip's profile.
        save: Where the session goes, or None.
        out: Where lines go.
        stop: When a call is held.
        terminal: Who is asked then.
        options: Kept in the session.
        limit: Calls after which the program is left (0: never).

    Returns:
        The debugger, and what to call at the end: it prints the verdict, writes
        the session and returns 1 if there is an error finding, else 0.

    Raises:
        UserError: An unknown target, or a place that cannot be written.
    """
    from npudbg import __version__
    from npudbg.backends.attached_record import Recorder
    from npudbg.commands.attached.judges import Bench
    from npudbg.commands.pipeline import plugin_rules
    from npudbg.session.records import Meta
    from npudbg.session.scan import scan
    from npudbg.session.writer import SessionWriter
    from npudbg.targets.loader import load, toml_text

    target = load(target_name)
    rules, failed = plugin_rules()
    bench = Bench(target, rules=rules, failed=failed)
    writer = None if save is None else SessionWriter(save)
    recorder = Recorder(writer, scan=scan)
    debugger = AttachedDebugger(
        out, bench.judges(), recorder, stop=stop, terminal=terminal, limit=limit
    )

    def finish() -> int:
        found = debugger.findings
        verdict = judge_run(found, debugger.calls)
        meta = Meta(
            version=__version__,
            target=target.name,
            target_toml=toml_text(target_name),
            options=options,
        )
        notes = [*bench.notes, *debugger.problems]
        lines = [*(f"note: {safe(n, 300)}" for n in notes), *verdict_lines(verdict)]
        recorder.close(found, verdict, meta=meta, notes=notes)
        if save is not None:
            lines.append(f"session saved: {safe(save, 300)}")
        if out is not None:
            out.write("".join(f"npudbg: {line}\n" for line in lines))
            out.flush()
        return int(any(f.severity == "error" for f in found))

    return debugger, finish


def judge_run(found: Sequence[Finding], calls: int) -> Verdict:
    """Return the verdict on a run of calls: the earliest layer with an error."""
    from npudbg.session.records import LAYER_NAMES, Verdict

    errors = [f for f in found if f.severity == "error"]
    clean = [n for n in (1, 2, 4) if not any(f.layer == n for f in errors)]
    ruled_out = tuple(f"layer {n} {LAYER_NAMES[n]}: no error in {calls} calls" for n in clean)
    if not errors:
        summary = f"nothing at fault in {calls} calls" if calls else "no call was seen"
        return Verdict(layer=0, code="", summary=summary, ruled_out=ruled_out if calls else ())
    first = min(errors, key=lambda f: f.layer)
    return Verdict(
        layer=first.layer,
        code=first.code,
        summary=first.message,
        chain=tuple(f"layer {f.layer} {f.code}: {f.message}" for f in errors[:8]),
        ruled_out=ruled_out,
        finding=list(found).index(first),
    )
