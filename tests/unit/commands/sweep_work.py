"""Work for the pool's tests, in a module of its own so that workers can import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def echo(spec: str, task: str) -> str:
    """Return the task; one called ``poison`` kills its worker, ``once`` the first time only."""
    mark = Path(spec) / task
    with mark.open("ab") as file:
        file.write(b"x")
    if task == "poison" or (task == "once" and mark.stat().st_size == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"did {task}"
