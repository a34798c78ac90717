"""Emitting to a real broker, read back by a consumer of the tests' own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from time import monotonic

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from interlock.events import Delivery, EmitError, Emitter, Event
from interlock.events.kafka import decode, encode
from interlock.events.sizes import MAX_EVENT_BYTES, record_bytes


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    name = f"emitter-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 3, 1, config={"max.message.bytes": "20000"})]).values():
        future.result(30)
    return name


@pytest.fixture
def emitter(bootstrap_servers: str, topic: str) -> Iterator[Emitter]:
    with Emitter({"bootstrap.servers": bootstrap_servers}, topic) as running:
        yield running


def read(bootstrap_servers: str, delivery: Delivery) -> Event:
    """The event at the place that a delivery names."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"reader-{uuid.uuid4().hex}"})
    try:
        consumer.assign([TopicPartition(delivery.topic, delivery.partition, delivery.offset)])
        deadline = monotonic() + 20
        while monotonic() < deadline:
            record = consumer.poll(0.5)
            if record is not None and record.error() is None:
                assert record.offset() == delivery.offset
                return decode(record.key(), record.value(), record.headers())
        raise AssertionError(f"nothing at {delivery} within 20 s")
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "data", [{"day": "2026-11-20", "ok": True}, None, b"\xff\x00"], ids=["json", "none", "bytes"]
)
def test_an_emitted_event_lies_where_the_delivery_says(
    bootstrap_servers: str, emitter: Emitter, data: object
) -> None:
    event = Event.of("t", "/s", subject="é", time="2026-11-20T06:00:00Z", data=data)
    assert read(bootstrap_servers, emitter.emit(event)) == event


def test_events_of_one_subject_lie_in_one_partition_in_their_order(emitter: Emitter) -> None:
    deliveries = emitter.emit_all(Event.of("t", "/s", subject="eur", data=n) for n in range(50))
    assert len({delivery.partition for delivery in deliveries}) == 1
    assert [delivery.offset for delivery in deliveries] == list(range(50))


def test_the_partition_is_that_of_kafkas_java_client(emitter: Emitter) -> None:
    """murmur2("21") = -973932308 (Kafka's own test of the hash), made positive, modulo 3."""
    assert emitter.emit(Event.of("t", "/s", subject="21")).partition == (-973932308 & 0x7FFFFFFF) % 3


def test_one_event_that_is_too_large_is_named_and_the_others_are_there(
    bootstrap_servers: str, emitter: Emitter
) -> None:
    large = Event.of("t", "/s", id="large", data=b"x" * 30_000)
    with pytest.raises(EmitError) as caught:
        emitter.emit_all([large, Event.of("t", "/s", id="small")], timeout_s=10)
    assert ("/s", "large") in caught.value.undelivered
    assert "size" in str(caught.value).lower()
    assert emitter.emit(Event.of("t", "/s", id="after")).offset >= 0


def of_size(size: int, **attributes: str) -> Event:
    """An event that is so large as a record, by its data."""

    def made(data: int) -> Event:
        return Event.of("t", "/s", id="large", data=b"x" * data, datacontenttype="a/b", **attributes)

    data = size - record_bytes(*encode(made(0)))
    while record_bytes(*encode(made(data))) > size:  # lengths take more bytes the larger they are
        data -= 1
    return made(data)


@pytest.fixture
def event_topic(bootstrap_servers: str) -> str:
    """An event topic with the settings that `topics create` gives it."""
    name = f"event-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    large = NewTopic(name, 1, 1, config={"max.message.bytes": str(MAX_EVENT_BYTES)})
    admin.create_topics([large])[name].result(30)
    return name


@pytest.mark.parametrize(
    "attributes",
    [{}, {"subject": "s" * 1000}, {f"extension{n}": "é" * 40 for n in range(300)}],
    ids=["data", "key", "headers"],
)
def test_the_largest_event_is_taken_and_one_byte_more_is_refused_with_both_sizes(
    bootstrap_servers: str, event_topic: str, attributes: dict[str, str]
) -> None:
    largest, beyond = of_size(MAX_EVENT_BYTES, **attributes), of_size(MAX_EVENT_BYTES + 1, **attributes)
    assert record_bytes(*encode(largest)) == MAX_EVENT_BYTES
    with Emitter({"bootstrap.servers": bootstrap_servers}, event_topic) as emitter:
        assert read(bootstrap_servers, emitter.emit(largest)) == largest
        with pytest.raises(
            EmitError, match=f"too large: {MAX_EVENT_BYTES + 1} bytes.*limit is {MAX_EVENT_BYTES}"
        ):
            emitter.emit(beyond)
        assert emitter.emit_all([largest, largest])[1].offset == 2
    # That is how the brokers count.
    client = {"bootstrap.servers": bootstrap_servers, "message.max.bytes": str(2 * MAX_EVENT_BYTES)}
    with Emitter(client, event_topic) as emitter:
        assert emitter.emit(largest).offset == 3
        with pytest.raises(EmitError, match="Message size too large"):
            emitter.emit(beyond)


def test_a_missing_topic_gives_an_error_that_names_it(bootstrap_servers: str) -> None:
    name = f"missing-{uuid.uuid4().hex[:8]}"
    with (
        Emitter({"bootstrap.servers": bootstrap_servers}, name) as emitter,
        pytest.raises(EmitError, match=f"topic {name} at {bootstrap_servers}.*[Uu]nknown topic"),
    ):
        emitter.emit(Event.of("t", "/s"), timeout_s=10)
