"""Work handed to a thread: order, bounds, errors, and a caller that is interrupted anywhere."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest

from npudbg.session.worker import Worker


class Interrupted(Exception):
    """What the signal's handler raises."""


def test_work_is_done_in_order_and_all_of_it():
    seen = []
    worker = Worker("test", 100)
    for n in range(1000):
        worker.submit(lambda n=n: seen.append(n), 1)
    worker.stop()
    assert seen == list(range(1000))
    assert worker.waiting == 0 and worker.error is None


def test_a_caller_that_runs_ahead_waits():
    go, most = threading.Event(), []
    worker = Worker("test", 100)

    def slow():
        go.wait(10)
        most.append(worker.waiting)

    threading.Timer(0.2, go.set).start()
    start = time.monotonic()
    for _ in range(20):
        worker.submit(slow, 60)
    assert time.monotonic() - start > 0.15
    worker.stop()
    assert max(most) <= 60 + 100  # what is being done, and what may wait


def test_one_piece_may_be_larger_than_the_bound():
    done = []
    worker = Worker("test", 10)
    worker.submit(lambda: done.append(1), 1000)
    worker.stop()
    assert done == [1]


def test_after_an_error_nothing_more_is_done_and_nobody_waits():
    done = []
    worker = Worker("test", 10)
    worker.submit(lambda: 1 / 0, 5)
    for _ in range(100):
        worker.submit(lambda: done.append(1), 5)
    worker.stop()
    assert isinstance(worker.error, ZeroDivisionError)
    assert done == []


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
def test_a_signal_may_raise_between_any_two_bytecodes():
    """With a queue.Queue and a Condition this stands still within a few hundred rounds."""

    def raising(number, frame):
        raise Interrupted

    rng = random.Random(1)
    before = signal.signal(signal.SIGALRM, raising)
    try:
        for _ in range(1500):
            worker = Worker("test", 50)
            done = []
            handed = 0
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1e-3))
                while True:
                    worker.submit(lambda done=done: done.append(1), 10)
                    handed += 1
            except Interrupted:
                pass
            ender = threading.Thread(target=worker.stop, daemon=True)
            ender.start()
            ender.join(20)
            assert not ender.is_alive()
            assert worker.error is None
            assert len(done) in (handed, handed + 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
