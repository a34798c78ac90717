"""Open firings of a durable subscription on a real broker: taken, read and acknowledged by any process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from interlock import Condition, event
from interlock.engine.errors import TopicsError
from interlock.engine.waiting import latest_firings, open_firings
from interlock.engine.waiting.acknowledge import acknowledge_all
from interlock.engine.waiting.dispatching import Durable, Stream
from interlock.engine.waiting.notices import Notice, NoticeBoard
from interlock.engine.waiting.open_firings import read
from interlock.engine.waiting.waits import Waits

from .conftest import in_thread, set_topic

TRADE = event("trade", by="data.trade")
PAIR = event("orders", by="data.day") & event("rates", by="data.day")


class Process:
    """A triggerer's waits, and one stream of the subscription `s`."""

    def __init__(self, bench: Any, eventually: Callable[..., Any]) -> None:
        self._bench, self._eventually = bench, eventually
        self._waits = Waits(bench.config, NoticeBoard())
        self.received: list[Any] = []

    @contextmanager
    def running(self) -> Iterator[Process]:
        with in_thread("waits", self._waits.run):
            yield self

    def open(self, condition: Condition = TRADE, since_ms: int = 0, **limits: Any) -> Stream:
        given = {"since_given": False, "max_keys": 1000, "at_limit": "dead-letter", **limits}
        durable = Durable(subscription="s", condition=condition.to_json(), since_ms=since_ms, **given)
        self.stream = self._waits.dispatching.open(durable, self.received.append)
        self._eventually("it is registered", lambda: self.received)
        return self.stream

    def places(self, **arguments: Any) -> list[tuple[int, int]]:
        found = self._waits.dispatching.take(self.stream, 1000, **arguments)
        return [(place.source.partition, place.offset) for place in found]

    def open_ids(self) -> list[str]:
        """The ids of the events whose firings are open."""
        return [_id_of(action) for action in read(self._bench.config, self.places()) if action]

    def eventually_open(self, *ids: str) -> None:
        self._eventually(f"{ids} are open", lambda: sorted(self.open_ids()) == sorted(ids))

    def acknowledge(self, *ids: str) -> None:
        actions = [action for action in read(self._bench.config, self.places()) if action]
        acknowledge_all(self._bench.config, [action for action in actions if _id_of(action) in ids])


def _id_of(action: Any) -> str:
    return str(next(iter(action.firing.events.values()))[0]["id"])


@pytest.fixture
def process(bench: Any, eventually: Callable[..., Any]) -> Callable[[], Process]:
    return lambda: Process(bench, eventually)


def test_firings_are_given_to_every_process_until_they_are_acknowledged(bench: Any, process: Any) -> None:
    with bench.engine():
        with process().running() as one:
            one.open()
            for n in range(5):
                bench.emit("trade", id=f"t{n}", data={"trade": n})
            one.eventually_open("t0", "t1", "t2", "t3", "t4")
            one.acknowledge("t0", "t3")
            one.eventually_open("t1", "t2", "t4")
            bench.emit("trade", id="t5", data={"trade": 0})
            one.eventually_open("t1", "t2", "t4", "t5")
        # With the time of another run of the dispatcher: it is registered all the same.
        with process().running() as other:
            other.open(since_ms=1)
            other.eventually_open("t1", "t2", "t4", "t5")
            other.acknowledge("t1", "t2", "t4", "t5")
            other.eventually_open()
    [registration] = [r for r in bench.records("subscription") if b'"durable"' in (r.value or b"")]
    assert registration.json()["since_ms"] == 0


def test_an_edited_condition_drops_what_was_half_met_and_no_firing(
    bench: Any, process: Any, eventually: Any
) -> None:
    with bench.engine(), process().running() as before:
        before.open(event("orders", by="data.day"))
        bench.emit("orders", id="fired", data={"day": "a"})
        before.eventually_open("fired")
        with process().running() as after:
            after.open(PAIR, since_ms=1)
            bench.emit("rates", data={"day": "b"})
            bench.emit("orders", id="both", data={"day": "b"})
            after.eventually_open("fired", "both")
        replaced = Notice("Subscription 's' has another condition now.")
        eventually("the earlier stream gets a notice", lambda: replaced in before.received)


def test_more_firings_than_are_held_are_all_given_and_those_of_a_key_in_their_order(
    bench: Any, process: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_firings, "MOST_HELD", 3)
    monkeypatch.setattr(open_firings, "FEW", 1)
    given: list[str] = []
    with bench.engine(), process().running() as one:
        one.open()
        for n in range(20):
            bench.emit("trade", subject="s", id=f"t{n:02}", data={"trade": n % 2})
        bench.eventually_fired("s", 20)

        def all_given() -> bool:
            ids = one.open_ids()[:2]
            given.extend(name for name in ids if name not in given)
            one.acknowledge(*ids)
            return len(given) == 20

        eventually("all are given", all_given)
        one.eventually_open()
    for parity in (0, 1):
        of_one_key = [name for name in given if int(name[1:]) % 2 == parity]
        assert of_one_key == sorted(of_one_key)


def test_firings_far_apart_are_read_one_by_one(
    bench: Any, process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_firings, "MOST_BETWEEN", 0)
    ids = [f"t{n}" for n in range(8)]
    with bench.engine(), process().running() as one:
        one.open()
        for name in ids:
            bench.emit("trade", id=name, data={"trade": name})
        one.eventually_open(*ids)
        places = one.places()
        found = [_id_of(action) for action in read(bench.config, reversed(places)) if action]
        assert found == one.open_ids()[::-1]


def test_an_acknowledgement_that_its_topic_refuses_as_too_large_says_what_to_do(
    bench: Any, process: Any
) -> None:
    with bench.engine(), process().running() as one:
        one.open()
        bench.emit("trade", id="t0", data={"trade": 0, "pad": "x" * 10_000})
        one.eventually_open("t0")
        topic = bench.config.topic("action")
        set_topic(bench.admin, topic, "max.message.bytes", "5000")
        with pytest.raises(TopicsError, match=f"{topic}' refuses .* too large. Raise its max.message.bytes"):
            one.acknowledge("t0")
        assert one.open_ids() == ["t0"]


def test_a_firing_that_retention_removed_is_reported_as_gone(bench: Any, process: Any) -> None:
    with bench.engine(), process().running() as one:
        one.open()
        bench.emit("trade", id="t0", data={"trade": 0})
        one.eventually_open("t0")
        [place] = one.places()
        topic = bench.config.topic("action")
        for future in bench.admin.delete_records([TopicPartition(topic, place[0], -1)]).values():
            future.result()
        assert list(read(bench.config, [place])) == [None]
        assert one.places(gone={place}) == []
