"""The debugger's forker: does a session's run again and says what became different."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.debugger.forks import Forked, Progress
    from npudbg.session.lines import Line
    from npudbg.session.reader import Session
    from npudbg.session.rerun import Changes

_MOST_FORKS = 1000
_FORK = re.compile(r"\.fork[0-9]{1,4}$")


class Device:
    """Does runs of the simulated device again; see :class:`npudbg.debugger.forks.Forker`.

    Attributes:
        keep: Whether forks stay when the debugger ends; those of a run that is not kept do not.
    """

    def __init__(self, *, keep: bool = True) -> None:
        """Make a forker; with ``keep`` false, call :meth:`forget` at the end."""
        self.keep = keep
        self._made: list[Path] = []

    def forget(self) -> None:
        """Remove the forks that are not to be kept."""
        for path in self._made:
            path.unlink(missing_ok=True)
        self._made.clear()

    def fork(
        self,
        session: Session,
        changes: Changes,
        *,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> Forked:
        """Do a session's run again with these changes, into a file beside it.

        Raises:
            CancelledError: ``cancel`` was set before the end; no file is left.
            UserError: It cannot be done again, or a change does not fit it.
        """
        from npudbg.commands.forking import fork
        from npudbg.debugger.forks import Forked
        from npudbg.session.reader import Session

        save = str(free_name(session.path))
        judged = fork(session, changes, save=save, whole=True, progress=progress, cancel=cancel)
        try:
            with Session.open(judged.path) as other:
                lines = self.compare(session, other)
        except BaseException:
            judged.path.unlink(missing_ok=True)
            raise
        if not self.keep:
            self._made.append(judged.path)
        return Forked(judged.path, tuple(lines))

    def compare(self, a: Session, b: Session) -> list[Line]:
        """Return the first difference of two runs, and the findings gained and lost.

        Raises:
            SessionError: One of them is damaged.
        """
        from npudbg.commands.comparing.sessions import compare
        from npudbg.render.comparison import short_lines

        return short_lines(compare(a, b))


def free_name(path: Path) -> Path:
    """Return a name beside a session that no file has: ``run.fork1.npudbg``.

    A fork's forks are numbered with it.  Where nothing can be written there, it lies in
    the directory for temporary files.

    Raises:
        UserError: There are a thousand forks already.
    """
    import tempfile

    from npudbg.session.errors import UserError

    folder = path.parent
    if not os.access(folder, os.W_OK):
        folder = Path(tempfile.mkdtemp(prefix="npudbg-"))
    stem = _FORK.sub("", path.name.removesuffix(".npudbg"))
    for number in range(1, _MOST_FORKS + 1):
        name = folder / f"{stem}.fork{number}.npudbg"
        if not name.exists():
            return name
    raise UserError(f"{folder}: {_MOST_FORKS} forks of {stem} are there; remove some")
