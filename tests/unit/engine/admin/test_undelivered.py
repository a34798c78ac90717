"""The firings that wait for their sinks, read from the action topic: how many, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from interlock import event
from interlock.engine.admin import undelivered as module
from interlock.engine.admin.deliveries import DelivererGroup
from interlock.engine.admin.undelivered import LATE_MS, Undelivered, late, left_behind, undelivered
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import (
    ActionRecord,
    FiringRecord,
    Registration,
    RegistrationKey,
    encode_json,
    sink_key,
)
from interlock.engine.registry.registry import Registry

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
SHIP, AUDIT = "one/deliver/ship", "one/deliver/audit"
P0, P1 = TopicPartition("b-action", 0), TopicPartition("b-action", 1)
MINUTE_MS = 60_000


class Topic:
    """The action topic, and the deliverers of deployment `one` with their committed offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: dict[TopicPartition, list[Record]] = {P0: [], P1: []}
        self.committed: dict[TopicPartition, int] = {}
        self.registry = Registry()
        self.read = 0
        for name in (SHIP, AUDIT):
            sink = SinkRecord(subscription=name, connection="crm", path="/orders")
            self.sink(sink.key, encode_json(sink))
        monkeypatch.setattr(module, "read_between", self._between)

    def sink(self, key: bytes, value: bytes | None) -> None:
        place = TopicPartition("b-subscription", 0)
        self.registry.apply(Record(place, self.registry.position, 0, key, value, None))

    def write(
        self, id_: str, at_ms: int, state: str = "fired", name: str = SHIP, tp: TopicPartition = P0
    ) -> None:
        firing = FiringRecord(id=id_, outcome="met", key=None, fired_at="at", events={}, origins={})
        action = ActionRecord(
            subscription=name,
            kind="durable",
            incarnation="i",
            state=state,  # type: ignore[arg-type]
            firing=firing,
        )
        self.put(action.key, encode_json(action), at_ms, tp)

    def put(self, key: bytes, value: bytes | None, at_ms: int, tp: TopicPartition = P0) -> None:
        self.records[tp].append(Record(tp, len(self.records[tp]), at_ms, key, value, None))

    def groups(self, deliverers: int = 1) -> dict[str, DelivererGroup | None]:
        ends = {tp: len(records) for tp, records in self.records.items()}
        open_from = {tp: self.committed.get(tp, 0) for tp in self.records}
        return {"one": DelivererGroup(deliverers, open_from, ends, self.committed.keys()), "unseen": None}

    def _between(
        self,
        _config: BusConfig,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        *,
        sparing: bool = False,
    ) -> Iterator[Record]:
        for tp, start in starts.items():
            for record in self.records[tp][start : ends[tp]]:
                self.read += 1
                yield record

    def found(self) -> dict[str, Undelivered]:
        return {each.subscription: each for each in undelivered(CONFIG, self.registry, self.groups())}

    def late(self, now_ms: int, deliverers: int = 1) -> list[str]:
        groups = self.groups(deliverers)
        sinks = undelivered(CONFIG, self.registry, groups)
        return [*late(CONFIG, self.registry, groups, sinks, now_ms, LATE_MS)]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(monkeypatch)


def test_a_firing_waits_until_it_is_acknowledged(topic: Topic) -> None:
    topic.write("f1", 1000)
    topic.write("f2", 2000)
    topic.write("f3", 1500, tp=P1)
    topic.write("f1", 3000, "acked")
    assert topic.found() == {SHIP: Undelivered(SHIP, 2, "f3", 1500), AUDIT: Undelivered(AUDIT, 0)}


def test_what_is_below_a_committed_offset_is_not_read(topic: Topic) -> None:
    topic.write("f1", 1000)
    topic.write("f2", 2000)
    topic.committed = {P0: 1, P1: 0}
    assert (topic.found()[SHIP], topic.read) == (Undelivered(SHIP, 1, "f2", 2000), 1)


def test_nothing_is_read_if_all_committed_offsets_are_at_the_ends(topic: Topic) -> None:
    topic.write("f1", 1000)
    topic.committed = {P0: 1, P1: 0}
    assert (topic.found()[SHIP], topic.read) == (Undelivered(SHIP, 0), 0)


def test_a_redriven_firing_waits_since_it_was_sent_again(topic: Topic) -> None:
    for at_ms, state in ((1000, "fired"), (2000, "acked"), (3000, "fired")):
        topic.write("f1", at_ms, state)
    assert topic.found()[SHIP] == Undelivered(SHIP, 1, "f1", 3000)


def test_records_of_others_do_not_count(topic: Topic) -> None:
    topic.write("f1", 1000, name="one/dispatch/settle")
    topic.write("f2", 1000, name="unseen/deliver/ship")
    topic.put(b"a-wait", b"{}", 1000)
    topic.put(f"{SHIP}\0f3".encode(), b"no json", 1000)
    topic.write("f4", 1000)
    topic.put(f"{SHIP}\0f4".encode(), None, 2000)  # swept
    assert topic.found() == {SHIP: Undelivered(SHIP, 0), AUDIT: Undelivered(AUDIT, 0)}


def test_firings_of_a_sink_that_was_removed_are_counted(topic: Topic) -> None:
    topic.write("f1", 1000)
    topic.sink(sink_key(SHIP), None)
    row = topic.found()[SHIP].row(topic.registry, 61_500)
    assert (row["delivers_to"], row["open_firings"], row["oldest_age_s"]) == ("removed", 1, 60)


@pytest.mark.parametrize("limit", ["MOST_READ", "MOST_BYTES"])
def test_of_too_many_records_the_firings_at_the_committed_offsets_are_known(
    topic: Topic, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies between may be acknowledged in what was not read."""
    monkeypatch.setattr(module, limit, 1)
    topic.write("f0", 500, name=AUDIT, tp=P1)  # P1 has no committed offset: it may be acknowledged
    topic.write("f1", 1000)
    topic.write("f2", 1500, name=AUDIT)
    topic.write("f2", 1600, "acked", name=AUDIT)
    topic.committed = {P0: 0}
    assert topic.found() == {SHIP: Undelivered(SHIP, None, "f1", 1000), AUDIT: Undelivered(AUDIT, None)}


def test_without_deliverers_firings_of_cancelled_subscriptions_alone_are_a_problem(topic: Topic) -> None:
    """It was none: nobody noticed that they were not delivered."""

    def problems(deliverers: int = 0) -> list[str]:
        groups = topic.groups(deliverers)
        sinks = undelivered(CONFIG, topic.registry, groups)
        return [*left_behind(CONFIG, topic.registry, groups, sinks)]

    assert problems() == []
    topic.write("f2", 2000)
    topic.write("f1", 1000, name=AUDIT)
    [problem] = problems()
    assert problem.startswith(
        "No process delivers the firings of deployment 'one', which has 2 sinks. In that Airflow run: "
    )
    assert f"the oldest of '{AUDIT}'. To give it up: " in problem
    assert problem.endswith(f"subscriptions skip {AUDIT} f1 --bus b")
    assert problems(deliverers=1) == []  # `late` says when it waits for too long
    registration = Registration.of(SHIP, event("a"), None, 0, kind="durable")
    topic.sink(RegistrationKey(registration.incarnation, "n").encode(), encode_json(registration))
    assert problems() == []  # `deliveries` says it


def test_a_firing_that_waits_for_too_long_is_a_problem_with_what_to_do(topic: Topic) -> None:
    topic.write("f1", 0)
    topic.write("f2", MINUTE_MS)
    topic.write("f3", MINUTE_MS, name=AUDIT)
    assert topic.late(LATE_MS) == []
    [problem] = topic.late(LATE_MS + MINUTE_MS)
    assert problem == (
        "Firing f1 of 'one/deliver/ship' (connection crm, path /orders) was not delivered for 16m. "
        "Firings that wait: 2. The log of the process that delivers says why: a paused sink, or failed "
        "deliveries. To give it up: airflow interlock subscriptions skip one/deliver/ship f1 --bus b"
    )


def test_if_nobody_delivers_each_waiting_firing_is_no_problem_of_its_own(topic: Topic) -> None:
    topic.write("f1", 0)
    assert topic.late(10 * LATE_MS, deliverers=0) == []


def test_a_row_has_the_sink_and_the_age_of_the_oldest_firing(topic: Topic) -> None:
    topic.write("f1", 1000)
    rows: list[dict[str, Any]] = [each.row(topic.registry, 121_000) for each in topic.found().values()]
    assert rows == [
        {
            "subscription": AUDIT,
            "delivers_to": "connection crm, path /orders",
            "open_firings": 0,
            "oldest_firing": None,
            "oldest_since": None,
            "oldest_age_s": None,
        },
        {
            "subscription": SHIP,
            "delivers_to": "connection crm, path /orders",
            "open_firings": 1,
            "oldest_firing": "f1",
            "oldest_since": "1970-01-01T00:00:01Z",
            "oldest_age_s": 120,
        },
    ]
