"""Workers in processes of their own: one that dies takes nothing with it.

Each worker has a pipe to itself and one task at a time, so it is known which task a
worker died of.  Pipes carry text, never pickled objects.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

Work = Callable[[str, str], str]

RETRIES = 3
"""How often a task whose worker died is given to another one."""


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Any
    task: str | None = None


def run(tasks: Iterable[str], work: Work, spec: str, jobs: int) -> Iterator[tuple[str, str | None]]:
    """Do tasks in processes.

    Args:
        tasks: Texts that differ.
        work: Called in a worker with ``spec`` and a task; a function that can be imported.
        spec: The same for all.
        jobs: Workers at most.

    Yields:
        ``(task, result)`` as they come; the result is None where workers died of it.
    """
    waiting = deque(tasks)
    deaths: Counter[str] = Counter()
    workers: list[_Worker] = []
    try:
        while waiting or any(w.task is not None for w in workers):
            while waiting and len(workers) < jobs:
                workers.append(_start(work, spec))
            for worker in workers:
                if worker.task is None and waiting:
                    _give(worker, waiting.popleft())
            for worker in _ready(workers):
                result = _result(worker)
                task, worker.task = worker.task, None
                if result is None:
                    workers.remove(worker)
                    _stop(worker)
                if task is None:
                    continue
                if result is None:
                    deaths[task] += 1
                    if deaths[task] <= RETRIES:
                        waiting.append(task)
                        continue
                yield task, result
    finally:
        for worker in workers:
            _stop(worker)


def _start(work: Work, spec: str) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work, spec), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(pipe: Any, work: Work, spec: str) -> None:
    """What a worker does until its pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's affair
    while True:
        try:
            task = pipe.recv_bytes().decode()
            pipe.send_bytes(work(spec, task).encode())
        except (EOFError, OSError):
            return  # nobody waits for it any more; ``work`` keeps its own errors


def _give(worker: _Worker, task: str) -> None:
    worker.task = task
    try:
        worker.pipe.send_bytes(task.encode())
    except OSError:
        return  # it is dead: seen when its pipe is read


def _ready(workers: list[_Worker]) -> list[_Worker]:
    # A pipe whose other end is gone is readable too.
    pipes = connection.wait([w.pipe for w in workers])
    return [w for w in workers if w.pipe in pipes]


def _result(worker: _Worker) -> str | None:
    try:
        return str(worker.pipe.recv_bytes().decode())
    except (EOFError, OSError, UnicodeDecodeError):
        return None


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.join(0.2)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()
