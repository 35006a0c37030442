"""Running a user's program under the agent: start, signals, end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from npudbg.session.errors import UserError
from npudbg.session.text import safe

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_HELD = frozenset((*_FORWARDED, signal.SIGCHLD))


def bootstrap() -> Path:
    """Return the directory that starts the agent when it heads PYTHONPATH."""
    return Path(__file__).resolve().parents[2] / "agent" / "bootstrap"


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with the agent's directory and ``extra``."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("NPUDBG_")}
    path = env.get("PYTHONPATH", "")
    env["PYTHONPATH"] = f"{bootstrap()}{os.pathsep}{path}" if path else str(bootstrap())
    env.update(extra)
    return env


@contextlib.contextmanager
def signals_held() -> Iterator[set[signal.Signals]]:
    """Hold the signals that are to be forwarded; yields the mask that was set before.

    Threads that are started inside inherit it, so the signals stay for :func:`wait`.
    """
    before = {signal.Signals(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)}
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    mask: set[signal.Signals],
    *,
    detached: bool = False,
) -> int:
    """Start a program with this process's own stdin, stdout and stderr.

    Args:
        argv: The command line.
        env: Its environment.
        mask: Signals it starts with blocked.
        detached: Give it a session of its own, so that no terminal signal ends it.

    Returns:
        Its pid.

    Raises:
        UserError: There is no such program, or it cannot be executed.
    """
    # Python ignores these for itself; a program expects them as they are by default.
    restored = {signal.SIGPIPE, signal.SIGXFSZ}
    try:
        return os.posix_spawnp(
            argv[0], list(argv), dict(env), setsigmask=mask, setsigdef=restored, setsid=detached
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{safe(argv[0])}: cannot be started ({reason}); "
            "expected a command as after `npudbg exec -- python app.py`"
        ) from None


def wait(pid: int) -> int:
    """Wait for a program's end and forward the signals that are sent to this process.

    A signal that the terminal's driver sent (Ctrl-C) has reached the program
    already, as it is of the same group, and is not sent a second time.

    Returns:
        Its exit code, or 128 + N when signal N ended it.
    """
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        # The timeout covers a SIGCHLD that another waiter in this process took.
        info = signal.sigtimedwait(_HELD, 1.0)
        # si_code > 0: from the kernel, that is the terminal.
        if info is not None and info.si_signo in _FORWARDED and info.si_code <= 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, info.si_signo)
