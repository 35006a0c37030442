"""SIGTERM and SIGHUP end a verb as Ctrl+C does: what is temporary is removed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

CAUGHT = tuple(getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n))


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit of 128 + the signal, as a shell reports them.

    A signal that the caller has set to be ignored (``nohup``) or handles itself is left
    alone, and so are all of them outside the main thread, where Python takes no handlers.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for each in CAUGHT:
            if signal.getsignal(each) is signal.SIG_DFL:
                before[each] = signal.signal(each, _end)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # A second one must not break into the cleaning up that the first has begun.
    for each in CAUGHT:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)
