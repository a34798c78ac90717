"""Reading what a `dataref` stands for, and why an ended wait was not met, from a real broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from unittest import mock

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.errors import FetchError, UnreachableError
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.reader import KafkaReader
from interlock.engine.kafka.topics import create
from interlock.engine.reading.references import References, referred_event
from interlock.events import Emitter
from interlock.plugin.broker import LocalBroker


@pytest.fixture(scope="module")
def bus(broker: LocalBroker, unique_name: Callable[[str], str]) -> BusConfig:
    config = BusConfig(name=unique_name("b"), client={"bootstrap.servers": broker.bootstrap_servers})
    create(config, partitions=2)
    return config


def emitted(bus: BusConfig, *events: Event) -> list[str]:
    with Emitter(bus.client, bus.topic("event")) as emitter:
        return ["kafka:{}/{}/{}".format(*emitter.emit(each)) for each in events]


def test_the_event_at_a_reference_is_given_whole(bus: BusConfig) -> None:
    large = Event.of("x", "/s", id="1", data={"text": "x" * 200_000})
    small = Event.of("x", "/s", id="2", data={"rows": 3})
    references = emitted(bus, large, small)
    assert [referred_event(bus, reference) for reference in references] == [large, small]


def test_many_references_are_read_with_the_same_clients(bus: BusConfig) -> None:
    """Making clients takes half a second."""
    events = [Event.of("x", f"/s{n}", id=str(n), data={"n": n}) for n in range(6)]  # in both partitions
    places = emitted(bus, *events)
    made = mock.Mock(wraps=Admin)
    with (
        mock.patch("interlock.engine.reading.references.Admin", made),
        closing(References(bus)) as references,
    ):
        for order in (range(6), (5, 0, 3, 3, 1)):
            assert [references.event(places[n]) for n in order] == [events[n] for n in order]
        with pytest.raises(FetchError):
            references.event(f"kafka:{bus.topic('event')}/7/0")
        assert references.event(places[0]) == events[0]
        assert made.call_count == 1
        with (
            mock.patch.object(KafkaReader, "take", side_effect=UnreachableError("no broker")),
            pytest.raises(UnreachableError),
        ):
            references.event(places[1])
        assert references.event(places[1]) == events[1]
        assert made.call_count == 2


def test_an_unreadable_reference_is_an_error(bus: BusConfig, unique_name: Callable[[str], str]) -> None:
    [there] = emitted(bus, Event.of("x", "/s", id="3"))
    topic, partition, offset = there.removeprefix("kafka:").split("/")
    for reference, message in (
        ("https://elsewhere", "does not refer to a record"),
        (f"kafka:{bus.topic('action')}/0/0", "does not read topic"),
        (f"kafka:{topic}/7/0", "the partition does not exist"),
        (f"kafka:{topic}/{partition}/{int(offset) + 1}", "the record does not exist yet"),
    ):
        with pytest.raises(FetchError, match=message):
            referred_event(bus, reference)
    admin = AdminClient(dict(bus.client))
    cut = TopicPartition(topic, int(partition), int(offset) + 1)
    admin.delete_records([cut])[TopicPartition(topic, int(partition))].result()
    with pytest.raises(FetchError, match="retention has removed the record"):
        referred_event(bus, there)
