"""Questions to Kafka: asked once for everybody, few at a time, and none that holds a request for long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from interlock.engine.errors import UnreachableError
from interlock.plugin.page import asking
from interlock.plugin.page.asking import MOST_UNDERWAY, MOST_WAITING, NotNow, Questions


class Clock:
    """`time.monotonic`, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(asking, "time", made)
    return made


class Brokers:
    """Reads that answer when they may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = threading.Semaphore(0)
        self.calls = 0

    def read(self) -> int:
        self.calls += 1
        self.asked.release()
        assert self.may_answer.wait(60)
        return self.calls


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    yield made
    made.may_answer.set()


@pytest.fixture
def people() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2 * MOST_WAITING) as made:
        yield made


def counter() -> Callable[[], int]:
    numbers = iter(range(100))
    return lambda: next(numbers)


def test_an_answer_is_kept_until_it_is_too_old(clock: Clock) -> None:
    questions, read = Questions(), counter()
    assert [questions.ask("a", read, 3.0) for _ in range(3)] == [0, 0, 0]
    clock.now += 3.0
    assert questions.ask("a", read, 3.0) == 0
    clock.now += 0.1
    assert questions.ask("a", read, 3.0) == 1
    assert questions.ask("another", read, 3.0) == 2


def test_whoever_asks_the_same_meanwhile_gets_the_same_answer(
    brokers: Brokers, people: ThreadPoolExecutor
) -> None:
    questions = Questions()
    asked = [people.submit(questions.ask, "a", brokers.read, 60.0) for _ in range(5)]
    assert brokers.asked.acquire(timeout=60)
    brokers.may_answer.set()
    assert [each.result(60) for each in asked] == [1] * 5


def test_a_failure_is_told_to_everybody_for_some_seconds_and_then_tried_again(clock: Clock) -> None:
    questions, numbers = Questions(), counter()

    def fail() -> int:
        raise UnreachableError(f"no broker, try {numbers()}")

    for tries in ("try 0", "try 0"):
        with pytest.raises(UnreachableError, match=tries):
            questions.ask("a", fail, 60.0)
    clock.now += asking.FAILURE_KEPT_S + 0.1
    with pytest.raises(UnreachableError, match="try 1"):
        questions.ask("a", fail, 60.0)


def test_a_slow_broker_holds_nobody_for_long_and_its_answer_is_for_whoever_asks_next(
    brokers: Brokers, people: ThreadPoolExecutor
) -> None:
    questions = Questions(patience_s=0.01)
    with pytest.raises(NotNow, match="The brokers have not answered"):
        questions.ask("a", brokers.read, 60.0)
    reading = questions._kept["a"].future
    brokers.may_answer.set()
    assert reading.result(60) == 1
    assert questions.ask("a", brokers.read, 60.0) == 1
    assert brokers.calls == 1


def test_only_a_few_requests_wait_and_the_others_are_told_so_at_once(
    brokers: Brokers, people: ThreadPoolExecutor
) -> None:
    """Otherwise they would take all threads of the API server."""
    questions = Questions()
    waiting: list[Future[Any]] = []
    for number in range(MOST_WAITING):
        before = questions._waiting._value  # type: ignore[attr-defined]
        waiting.append(people.submit(questions.ask, number, brokers.read, 60.0))
        while questions._waiting._value == before:  # type: ignore[attr-defined]
            assert not waiting[-1].done()
    with pytest.raises(NotNow, match="wait for Kafka already"):
        questions.ask("one more", brokers.read, 60.0)
    with pytest.raises(NotNow, match="wait for Kafka already"):
        questions.do(brokers.read)
    brokers.may_answer.set()
    assert len([each.result(60) for each in waiting]) == MOST_WAITING == brokers.calls
    assert questions.ask("one more", lambda: 7, 60.0) == 7


def test_readings_that_nobody_waits_for_any_more_are_bounded_too(brokers: Brokers) -> None:
    questions = Questions(patience_s=0.001)
    for number in range(MOST_UNDERWAY):
        with pytest.raises(NotNow, match="have not answered"):
            questions.ask(number, brokers.read, 60.0)
    with pytest.raises(NotNow, match="wait for Kafka already"):
        questions.ask("one more", brokers.read, 60.0)


def test_what_changes_something_is_done_each_time_and_what_was_known_is_asked_anew() -> None:
    questions, read, act = Questions(), counter(), counter()
    assert questions.ask("a", read, 60.0) == 0
    assert [questions.do(act) for _ in range(2)] == [0, 1]
    assert questions.ask("a", read, 60.0) == 0
    questions.forget()
    assert questions.ask("a", read, 60.0) == 1


def test_of_a_change_that_takes_long_it_is_said_that_it_may_be_done(brokers: Brokers) -> None:
    with pytest.raises(NotNow, match="may still be done: look before you repeat it"):
        Questions(patience_s=0.01).do(brokers.read)


def test_a_timeout_of_the_reading_itself_is_its_own(clock: Clock) -> None:
    def fail() -> int:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        Questions().ask("a", fail, 60.0)


def test_what_is_kept_is_bounded(clock: Clock) -> None:
    questions = Questions()
    for number in range(200):
        questions.ask(number, lambda: 0, 60.0)
    assert len(questions._kept) == 51
    clock.now += 61.0
    questions.ask("a", lambda: 0, 60.0)
    assert list(questions._kept) == ["a"]


def test_a_process_that_forked_asks_with_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = Questions()
    assert questions.ask("a", lambda: 1, 60.0) == 1
    of_parent = questions._threads
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert questions.ask("a", lambda: 2, 60.0) == 2
    assert questions._threads is not of_parent
