"""Work handed to a thread of its own, in order, with a bound on the bytes that wait.

The caller may be interrupted between any two bytecodes: Ctrl+C and SIGTERM raise in the
main thread, wherever it stands.  ``queue.Queue``, ``Condition``, ``Event`` and ``Future``
take their lock in Python code; an exception right after it is taken leaves it taken, and
whoever comes next waits for ever.  Nothing here takes such a lock once the thread runs:
the queue is C code, each counter has one writer, and a caller that runs ahead sleeps.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

_PAUSE = 0.001
"""Seconds between looks at a backlog; what waits then is work for many times as long."""


class Worker:
    """A thread that does what it is handed.

    After work has raised, what follows is left undone; the exception stands in ``error``.

    Args:
        name: Of the thread.
        most: Bytes that may wait; one piece of work may exceed it when nothing else waits.

    Attributes:
        error: What the first work that failed raised, or None.
    """

    def __init__(self, name: str, most: int) -> None:
        """Start the thread."""
        self.error: BaseException | None = None
        self._most = most
        self._given = self._done = 0
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], int] | None]
        self._queue = queue.SimpleQueue()
        self._ended = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def waiting(self) -> int:
        """Bytes that were handed over and are not done yet."""
        return self._given - self._done

    def submit(self, work: Callable[[], None], nbytes: int = 0) -> None:
        """Hand over work; waits while too much is waiting.

        Args:
            work: Called in the thread.
            nbytes: Size of what it holds on to.
        """
        while self._queue.qsize() and self.waiting + nbytes > self._most:
            if self.error is not None or self._ended:
                break
            time.sleep(_PAUSE)
        self._given += nbytes
        self._queue.put((work, nbytes))

    def stop(self) -> None:
        """Do what was handed over, and end the thread."""
        self._queue.put(None)
        # Not join(): where that is interrupted, a thread that runs is taken for one that has
        # ended (CPython 3.11, Thread._wait_for_tstate_lock).
        while not self._ended:
            time.sleep(_PAUSE)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._ended = True

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            work, nbytes = item
            try:
                if self.error is None:
                    work()
            except BaseException as error:
                self.error = error
            finally:
                del work, item  # and with them the arrays that they hold
                self._done += nbytes
