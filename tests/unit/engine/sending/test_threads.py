from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError

import pytest
from interlock.engine.sending.threads import DaemonThreads

from tests.kit.posting import WAIT_S


def test_calls_run_next_to_each_other_up_to_the_most() -> None:
    threads, together = DaemonThreads(2, "t"), threading.Barrier(2)
    both = [threads.submit(together.wait, WAIT_S) for _ in range(2)]
    assert sorted(each.result(WAIT_S) for each in both) == [0, 1]
    threads.shutdown()


def test_a_call_beyond_the_most_waits_for_a_thread_and_keeps_its_turn() -> None:
    threads, release = DaemonThreads(1, "t"), threading.Event()
    order: list[int] = []
    first = threads.submit(release.wait, WAIT_S)
    others = [threads.submit(order.append, number) for number in range(3)]
    assert not any(each.done() for each in others)
    release.set()
    for each in (first, *others):
        each.result(WAIT_S)
    assert order == [0, 1, 2]
    threads.shutdown()


def test_an_idle_thread_is_used_again() -> None:
    threads = DaemonThreads(8, "again")
    deadline = time.monotonic() + WAIT_S
    while not (threads._idle and threads._threads):  # until the first call's thread is idle
        threads.submit(int).result(WAIT_S)
        assert time.monotonic() < deadline
    before = threads._threads
    threads.submit(int).result(WAIT_S)
    assert threads._threads == before
    threads.shutdown()


def test_the_caller_gets_the_error_of_its_call_whatever_it_is() -> None:
    threads = DaemonThreads(1, "t")
    for error in (ValueError("x"), SystemExit(3)):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            threads.submit(fail).result(WAIT_S)
    assert threads.submit(int).result(WAIT_S) == 0
    threads.shutdown()


def test_at_the_end_what_waits_is_made_or_cancelled_and_no_thread_is_left() -> None:
    for is_cancelled in (False, True):
        threads, begun, release = DaemonThreads(1, "ending"), threading.Event(), threading.Event()

        def run(begun: threading.Event = begun, release: threading.Event = release) -> bool:
            begun.set()
            return release.wait(WAIT_S)

        running, waiting = threads.submit(run), threads.submit(int)
        assert begun.wait(WAIT_S)
        threads.shutdown(cancel_futures=is_cancelled)
        release.set()
        assert running.result(WAIT_S)
        if is_cancelled:
            with pytest.raises(CancelledError):
                waiting.result(WAIT_S)
        else:
            assert waiting.result(WAIT_S) == 0
        with pytest.raises(RuntimeError, match="have ended"):
            threads.submit(int)
        for each in threading.enumerate():
            if each.name.startswith("ending"):
                each.join(WAIT_S)
                assert not each.is_alive()
