"""The debugger's forker: does a session's run again and says what became different."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.debugger.forks import Forked, Forker
    from npudbg.session.reader import Session
    from npudbg.session.rerun import Changes

_MOST_FORKS = 1000


def forker(session: Session) -> Forker | None:
    """Return what forks a session; None where its run cannot be done again."""
    if session.meta.backend != "simulated":
        return None

    def forked(changes: Changes) -> Forked:
        from npudbg.commands.comparing.sessions import compare
        from npudbg.commands.forking import fork
        from npudbg.debugger.forks import Forked
        from npudbg.render.comparison import short_lines
        from npudbg.session.reader import Session

        judged = fork(session, changes, save=str(free_name(session.path)))
        with Session.open(judged.path) as other:
            lines = short_lines(compare(session, other))
        return Forked(judged.path, tuple(lines))

    return forked


def free_name(path: Path) -> Path:
    """Return a name beside a session that no file has: ``run.fork1.npudbg``.

    Where nothing can be written there, it lies in the directory for temporary files.

    Raises:
        UserError: There are a thousand forks already.
    """
    import tempfile

    from npudbg.session.errors import UserError

    folder = path.parent
    if not os.access(folder, os.W_OK):
        folder = Path(tempfile.mkdtemp(prefix="npudbg-"))
    stem = path.name.removesuffix(".npudbg")
    for number in range(1, _MOST_FORKS + 1):
        name = folder / f"{stem}.fork{number}.npudbg"
        if not name.exists():
            return name
    raise UserError(f"{folder}: {_MOST_FORKS} forks of {stem} are there; remove some")
