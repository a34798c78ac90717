"""Which events a topic holds already, and the error if the records that show it are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, TopicsError
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.topics import create
from interlock.engine.reading.emitted import Emitted, EventIdentity
from interlock.events import Emitter

from local.topics import read_all

from .conftest import set_topic


def emitted_since(bus: BusConfig, since_ms: int, wanted: Collection[EventIdentity]) -> set[EventIdentity]:
    return Emitted(bus).among(wanted, since_ms)


def test_only_events_that_the_topic_has_count(
    bootstrap_servers: str, unique_name: Callable[[str], str], eventually: Callable[..., Any]
) -> None:
    bus = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    with pytest.raises(TopicsError, match="is missing"):
        emitted_since(bus, 0, ())
    create(bus, partitions=2)
    topic = bus.topic("event")
    wanted = [("/s", str(n)) for n in range(6)]
    assert emitted_since(bus, 0, wanted) == set()
    with Emitter(bus.client, topic) as emitter:
        for n in range(4):
            emitter.emit(Event.of("t", "/s", id=str(n), subject=str(n)))
        stamp_ms = max(record.timestamp_ms for record in read_all(bootstrap_servers, topic))
        eventually("another millisecond", lambda: time.time() * 1000 > stamp_ms + 1)
        emitter.emit(Event.of("t", "/another", id="5"))
    assert emitted_since(bus, 0, wanted) == set(wanted[:4])

    # by the record's timestamp: the last record alone, then none
    last = max(read_all(bootstrap_servers, topic), key=lambda record: record.timestamp_ms)
    assert emitted_since(bus, last.timestamp_ms, [*wanted, ("/another", "5")]) == {("/another", "5")}
    assert emitted_since(bus, last.timestamp_ms + 1, wanted) == set()

    # up to a time, and up to where the topic ended when it was first looked at
    before = Emitted(bus)
    assert before.among([*wanted, ("/another", "5")], 0, last.timestamp_ms) == set(wanted[:4])
    assert before.among(wanted, 0, 1) == set()
    with Emitter(bus.client, topic) as emitter:
        emitter.emit(Event.of("t", "/s", id="5"))
    assert before.among(wanted, 0) == set(wanted[:4])
    assert emitted_since(bus, 0, wanted) == {*wanted[:4], ("/s", "5")}


def test_where_records_are_gone_the_topics_retention_says_whether_any_of_the_time_are(
    bootstrap_servers: str, unique_name: Callable[[str], str], eventually: Callable[..., Any]
) -> None:
    """Removed by hand here, so that nobody waits for retention: the broker shows no difference."""
    bus = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(bus, partitions=1)
    topic = bus.topic("event")
    with Emitter(bus.client, topic) as emitter:
        for n in range(3):
            emitter.emit(Event.of("t", "/s", id=str(n)))
    stamps = [record.timestamp_ms for record in read_all(bootstrap_servers, topic)]
    hour_ago, wanted = stamps[0] - 3_600_000, [("/s", str(n)) for n in range(3)]
    admin = AdminClient(dict(bus.client))  # kept: its futures end with it

    def removed_below(offset: int) -> None:
        place = TopicPartition(topic, 0, offset)
        admin.delete_records([place])[place].result(timeout=30)

    def kept(name: str, value: str) -> None:
        set_topic(admin, topic, name, value)
        with closing(Admin(bus)) as asked:
            eventually("the setting holds", lambda: (asked.settings(topic) or {})[name] == value)

    removed_below(1)
    assert emitted_since(bus, hour_ago, wanted) == set(wanted[1:])  # within the 30 days of the topic
    with pytest.raises(
        EngineError, match=r"retention\.ms=2592000000 keeps records from .* Use a later --since"
    ):
        emitted_since(bus, 0, wanted)
    kept("retention.bytes", "1000000")
    with pytest.raises(EngineError, match=r"retention\.bytes=1000000 removes records of any age"):
        emitted_since(bus, hour_ago, wanted)
    assert emitted_since(bus, stamps[2] + 1, wanted) == set()  # records from before are left

    removed_below(3)
    assert emitted_since(bus, hour_ago, wanted) == set()
    kept("retention.ms", "1800000")
    with pytest.raises(EngineError, match=r"retention\.ms=1800000"):
        emitted_since(bus, hour_ago, wanted)
