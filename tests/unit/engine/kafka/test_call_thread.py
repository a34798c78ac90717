"""Calls that may never return: the caller goes on, a few of them may hang, and no thread is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka.call_thread import MAX_HUNG, CallThread

SOON_S = 0.05


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """A call of its `wait` hangs until the test sets it."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def thread() -> Iterator[Callable[[], CallThread]]:
    made: list[CallThread] = []

    def make() -> CallThread:
        made.append(CallThread(f"call thread {len(made)} of a test"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def names() -> set[str]:
    return {each.name for each in threading.enumerate()}


def test_a_call_returns_or_raises_what_it_would_have_in_the_callers_thread(
    thread: Callable[[], CallThread],
) -> None:
    calls, made = thread(), list[str]()
    calls.call("append", lambda: made.append("once"), 30)
    with pytest.raises(KeyError, match="missing"):
        calls.call("look", lambda: {}["missing"], 30)
    calls.call("append", lambda: made.append("twice"), 30)
    assert made == ["once", "twice"]
    assert not calls.hangs


def test_its_thread_starts_with_the_first_call_and_ends_when_it_is_closed(
    thread: Callable[[], CallThread], eventually: Any
) -> None:
    calls = thread()
    name = "call thread 0 of a test"
    assert name not in names()
    calls.call("nothing", lambda: None, 30)
    assert name in names()
    calls.close()
    eventually("the thread ends", lambda: name not in names())


def test_a_call_that_hangs_is_an_error_that_asks_for_new_clients(
    thread: Callable[[], CallThread], hanging: threading.Event, eventually: Any
) -> None:
    calls = thread()
    with pytest.raises(UnreachableError, match="send_offsets has not returned for 0 s"):
        calls.call("send_offsets", hanging.wait, SOON_S)
    assert calls.hangs
    calls.close()
    hanging.set()
    eventually("the call has returned and its thread ends", lambda: "call thread 0 of a test" not in names())


def test_of_many_hanging_calls_the_next_one_is_waited_for_so_that_the_watchdog_sees_it(
    thread: Callable[[], CallThread], hanging: threading.Event, eventually: Any
) -> None:
    for _ in range(MAX_HUNG):
        with pytest.raises(UnreachableError):
            thread().call("send_offsets", hanging.wait, SOON_S)
    last, ended = thread(), threading.Event()

    def call() -> None:
        last.call("send_offsets", hanging.wait, SOON_S)
        ended.set()

    caller = threading.Thread(target=call, name="the caller", daemon=True)
    caller.start()
    caller.join(4 * SOON_S)
    assert caller.is_alive()
    hanging.set()
    eventually("the call returns to its caller", ended.is_set)
    for name in [f"call thread {n} of a test" for n in range(MAX_HUNG)]:
        assert name in names(), "they are not closed yet"


def test_calls_that_have_returned_at_last_count_no_more(
    thread: Callable[[], CallThread], hanging: threading.Event, eventually: Any
) -> None:
    for _ in range(MAX_HUNG):
        calls = thread()
        with pytest.raises(UnreachableError):
            calls.call("send_offsets", hanging.wait, SOON_S)
        calls.close()
    hanging.set()
    eventually("their threads end", lambda: not any("of a test" in name for name in names()))
    again, held = thread(), threading.Event()
    with pytest.raises(UnreachableError):
        again.call("send_offsets", held.wait, SOON_S)
    held.set()
