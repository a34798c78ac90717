"""Which events a topic holds already, and the error where records that would tell are gone."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.emitted import Emitted, Identity
from interlock.engine.errors import EngineError, TopicsError
from interlock.engine.kafka.topics import create
from interlock.events import Emitter

from demo.topics import read_all


def emitted_since(bus: BusConfig, since_ms: int, wanted: Collection[Identity]) -> set[Identity]:
    return Emitted(bus).among(wanted, since_ms)


def test_only_what_lies_there_counts(bootstrap_servers: str, unique_name: Callable[[str], str]) -> None:
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
        emitter.emit(Event.of("t", "/another", id="5"))
    assert emitted_since(bus, 0, wanted) == set(wanted[:4])

    # by the record's timestamp: the last record alone, then none
    last = read_all(bootstrap_servers, topic)[-1]
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

    # records of that time were removed: what they told is not known
    first = read_all(bootstrap_servers, topic)[0]
    place = TopicPartition(topic, first.partition, first.offset + 1)
    admin = AdminClient(dict(bus.client))  # kept: its futures end with it
    admin.delete_records([place])[place].result(timeout=30)
    with pytest.raises(EngineError, match="Begin later"):
        emitted_since(bus, first.timestamp_ms, wanted)
    assert emitted_since(bus, last.timestamp_ms, [("/another", "5")]) == {("/another", "5")}
