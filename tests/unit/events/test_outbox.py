"""The outbox: only `flush` and `deliver` block, and no queued event is lost while the process runs."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from interlock import Event
from interlock.events import outbox as module
from interlock.events.errors import EmitError


class Broker:
    """A fake broker, and the client for it.

    down: refuses all events; refused: refuses these ids; free not set: emits block.
    unreadable: the connection cannot be read. wrong: the client refuses its properties.
    """

    def __init__(self) -> None:
        self.down = self.unreadable = self.wrong = False
        self.refused: set[str] = set()
        self.free = threading.Event()
        self.free.set()
        self.taken: list[str] = []
        self.opened = 0

    def open(self) -> Any:
        self.opened += 1
        if self.unreadable:
            raise KeyError("connection")
        return self

    def emit_all(self, events: list[Event], timeout_s: float) -> None:
        self.free.wait(10)
        if self.wrong:
            raise EmitError("the client refuses its properties")
        large = [e.identity for e in events if e.id.startswith("large")]
        lost = [e.identity for e in events if self.down or e.id in self.refused or e.identity in large]
        self.taken += [e.id for e in events if e.identity not in lost]
        if lost:
            raise EmitError("it is too large" if large else "the broker is away", lost, large)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    made = Broker()
    yield made
    made.down = made.unreadable = made.wrong = False  # so that the threads become idle
    made.refused.clear()
    made.free.set()


def outbox_of(open_emitter: Any, timeout_s: float, **more: Any) -> module.Outbox:
    log = logging.getLogger("interlock.test")
    return module.Outbox(
        open_emitter, timeout_s, log=log, who="this test", remedy="airflow interlock reconcile", **more
    )


def event(name: str) -> Event:
    return Event.of("t", "/s", id=name)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_events_are_emitted_in_order(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    outbox = outbox_of(broker.open, 5)
    names = [str(n) for n in range(500)]
    for name in names:
        outbox.put(event(name))
    assert outbox.flush()
    assert (broker.taken, broker.opened, warnings(caplog)) == (names, 1, [])


def test_an_outage_is_logged_once_and_loses_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture, eventually: Callable[..., Any]
) -> None:
    broker.down = True
    outbox = outbox_of(broker.open, 5)
    outbox.put(event("a"))
    outbox.put(event("b"))
    eventually("several attempts", lambda: broker.opened > 3)
    broker.down = False
    assert outbox.flush()
    assert broker.taken == ["a", "b"]
    [warning] = warnings(caplog)
    assert "the broker is away" in warning
    assert "airflow interlock reconcile" in warning


def test_only_what_was_not_acknowledged_is_emitted_again(
    broker: Broker, eventually: Callable[..., Any]
) -> None:
    broker.refused = {"a"}
    outbox = outbox_of(broker.open, 5)
    broker.free.clear()
    outbox.put(event("a"))
    outbox.put(event("b"))
    broker.free.set()
    eventually("b is there", lambda: "b" in broker.taken)
    broker.refused.clear()
    assert outbox.flush()
    assert broker.taken.count("b") == 1


def test_a_flush_ends_at_its_timeout_and_a_second_one_at_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.free.clear()
    outbox = outbox_of(broker.open, 0.05)
    outbox.put(event("a"))
    assert not outbox.flush()
    slow = outbox_of(broker.open, 3600)
    slow.put(event("b"))
    slow._flush_timed_out = True
    assert not slow.flush()
    [warning] = warnings(caplog)
    assert "no acknowledgement within 0.05 s" in warning


def test_a_connection_that_cannot_be_read_is_read_again(
    broker: Broker, caplog: pytest.LogCaptureFixture, eventually: Callable[..., Any]
) -> None:
    broker.unreadable = True
    outbox = outbox_of(broker.open, 5)
    outbox.put(event("a"))
    eventually("several attempts", lambda: broker.opened > 2)
    broker.unreadable = False
    assert outbox.flush()
    [warning] = warnings(caplog)
    assert "KeyError: 'connection'" in warning


def test_an_error_that_concerns_all_events_loses_none(
    broker: Broker, caplog: pytest.LogCaptureFixture, eventually: Callable[..., Any]
) -> None:
    broker.wrong = True
    outbox = outbox_of(broker.open, 5)
    assert outbox.deliver([event("a"), event("b")], 0.05).keys() == {("/s", "a"), ("/s", "b")}
    eventually("several attempts", lambda: broker.opened > 2)
    broker.wrong = False
    assert outbox.flush()
    assert (broker.taken, outbox.acknowledged) == (["a", "b"], 2)
    [warning] = warnings(caplog)
    assert "the client refuses its properties" in warning


def test_a_full_queue_drops_new_events_and_logs_how_many(
    broker: Broker, caplog: pytest.LogCaptureFixture, eventually: Callable[..., Any]
) -> None:
    caplog.set_level(logging.INFO)
    broker.down = True
    outbox = outbox_of(broker.open, 5, max_events=2)
    for name in "abcd":
        outbox.put(event(name))
    eventually("an attempt", lambda: warnings(caplog))
    broker.down = False
    assert outbox.flush()
    assert broker.taken == ["a", "b"]
    eventually(
        "it is logged",
        lambda: any("2 events were lost: the queue was full" in r.message for r in caplog.records),
    )


def test_a_full_queue_is_logged_even_if_the_broker_is_only_slow(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.free.clear()
    outbox = outbox_of(broker.open, 5, max_events=2)
    for name in "abcd":
        outbox.put(event(name))
    assert outbox.unacknowledged == 4
    broker.free.set()
    assert outbox.flush()
    [warning] = warnings(caplog)
    assert "the queue is full (2 events); new events are lost" in warning


def test_an_event_that_is_too_large_is_logged_and_blocks_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = outbox_of(broker.open, 5)
    for name in ("a", "large", "b"):
        outbox.put(event(name))
    assert outbox.flush()
    assert broker.taken == ["a", "b"]
    [warning] = warnings(caplog)
    assert "1 event is too large" in warning


def test_an_event_that_is_too_large_and_queued_twice_is_no_acknowledgement(
    broker: Broker, eventually: Callable[..., Any]
) -> None:
    """The second one counted as acknowledged."""
    broker.free.clear()
    outbox = outbox_of(broker.open, 5)
    outbox.put(event("first"))  # so that both are in the next batch
    eventually("an emit that blocks", lambda: broker.opened)
    outbox.put(event("large"))
    outbox.put(event("large"))
    broker.free.set()
    assert outbox.flush()
    assert (broker.taken, outbox.acknowledged) == (["first"], 1)


def test_deliver_waits_even_if_the_queue_is_full(broker: Broker) -> None:
    broker.free.clear()
    outbox = outbox_of(broker.open, 5, max_events=1)
    outbox.put(event("a"))
    assert outbox.deliver([event("b")], 0.05) == {("/s", "b"): "no acknowledgement within 0.05 s"}
    broker.free.set()
    assert outbox.deliver([event("c"), event("large")], 10) == {("/s", "large"): "it is too large"}
    assert broker.taken == ["a", "b", "c"]
    assert outbox.acknowledged == 3


@pytest.mark.parametrize(
    ("name", "answer"),
    [("a", {}), ("large", {("/s", "large"): "it is too large"})],
    ids=["fits", "too large"],
)
def test_two_threads_that_deliver_the_same_event_get_the_same_answer(
    broker: Broker, name: str, answer: dict[tuple[str, str], str], eventually: Callable[..., Any]
) -> None:
    broker.free.clear()
    outbox = outbox_of(broker.open, 5)
    outbox.put(event("first"))  # so that both are in the next batch
    eventually("an emit that blocks", lambda: broker.opened)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(outbox.deliver, [event(name)], 10) for _ in range(2)]
        eventually("both wait", lambda: outbox.unacknowledged == 3)
        broker.free.set()
        assert [each.result() for each in answers] == [answer, answer]


def test_a_fork_does_not_flush_its_parents_outbox(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker.free.clear()
    outbox = outbox_of(broker.open, 0.05)
    outbox.put(event("a"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert outbox.flush()
    assert warnings(caplog) == []


class Counts(Counter[str]):
    """What an outbox counted."""

    def take(self, outcome: str, number: int) -> None:
        self[outcome] += number


def test_what_became_of_events_is_counted(broker: Broker, eventually: Callable[..., Any]) -> None:
    counts = Counts()
    outbox = outbox_of(broker.open, 5, max_events=2, count=counts.take)
    broker.down = True
    for name in "abcd":
        outbox.put(event(name))
    eventually("attempts", lambda: counts["failed"] > 1)
    broker.down = False
    assert outbox.flush()
    outbox.put(event("large"))
    assert outbox.flush()
    assert (counts["emitted"], counts["lost"]) == (2, 3)


def test_events_that_wait_when_the_process_ends_are_counted_as_lost_once(broker: Broker) -> None:
    """Airflow's listener flushes before the process stops, and at its exit."""
    broker.free.clear()
    counts = Counts()
    outbox = outbox_of(broker.open, 0.05, count=counts.take)
    outbox.put(event("a"))
    outbox.put(event("b"))
    for _ in range(2):
        assert not outbox.flush()
    assert counts["lost"] == 2


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a process for Python 3.12.0 to 3.12.2, and at the limit of threads everywhere."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_an_outbox_that_was_started_emits_what_is_put_when_no_thread_can_start(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = outbox_of(broker.open, 5)
    outbox.start()
    refuse_threads(monkeypatch)
    assert outbox.deliver([event("a")], 5) == {}
    assert broker.taken == ["a"]


def test_without_a_thread_nothing_waits_or_raises_and_a_later_put_starts_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = outbox_of(broker.open, 100_000)
    with monkeypatch.context() as patch:
        refuse_threads(patch)
        outbox.start()
        assert warnings(caplog) == []
        outbox.put(event("a"))
        [problem] = outbox.deliver([event("b")], 100_000).values()
        assert problem == "can't create new thread at interpreter shutdown"
        assert not outbox.flush()
    [warning] = warnings(caplog)
    assert "1 event waits to be emitted" in warning
    outbox.put(event("c"))
    assert outbox.flush(10)
    assert broker.taken == ["a", "b", "c"]
