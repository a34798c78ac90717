"""Buses, events and subscriptions for the engine's benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from confluent_kafka import Producer
from interlock import Condition, Event, event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.kafka.topics import create
from interlock.engine.protocol.loop import Engine
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.events.kafka import encode

from ..sizes import number

PARTITIONS = number("PARTITIONS", 8)
OPEN = 10_000  # open keys at a time: the limit of a durable subscription is 100,000
FILLING = "y" * 100
PAIR = event("pair.first", by="subject") & event("pair.second", by="subject")
SOLO = event("solo", by="subject")


def new_bus(name: str, bootstrap_servers: str) -> BusConfig:
    config = BusConfig(name=name, client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=PARTITIONS)
    return config


def unmatched(count: int) -> Iterator[Event]:
    """Events without a subscription, of about 300 bytes with their six headers."""
    for n in range(count):
        yield event_of("com.example.other", n, f"s{n % 1000}")


def solos(count: int) -> Iterator[Event]:
    for n in range(count):
        yield event_of("solo", n, f"s{n % 1000}")


def event_of(kind: str, n: object, subject: str) -> Event:
    """An event, not validated: a turn needs as many as an engine processes in a second, in less than that."""
    attributes = {
        "specversion": "1.0",
        "id": f"{kind}{n}",
        "source": "/bench",
        "type": kind,
        "subject": subject,
        "time": "2026-11-20T12:00:00Z",
        "datacontenttype": "application/json",
    }
    return Event(attributes, f'{{"n":"{n}","x":"{FILLING}"}}'.encode())


PRODUCER = {"linger.ms": 20, "compression.type": "lz4", "partitioner": "murmur2_random"}


def produce(config: BusConfig, events: Iterable[Event]) -> int:
    """Produces events and waits until they are stored. Returns how many."""
    return send(Producer({**config.client, **PRODUCER}), config, events)


def hidden(config: BusConfig, events: Iterable[Event]) -> Callable[[], None]:
    """Produces events in an open transaction. Returns a function that commits, so that they can be read."""
    producer = Producer({**config.client, **PRODUCER, "transactional.id": f"bench-{config.name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, config, events)
    return lambda: producer.commit_transaction(30)


def send(producer: Producer, config: BusConfig, events: Iterable[Event]) -> int:
    """Like `produce`, with an existing producer."""
    count = 0
    for each in events:
        key, value, headers = encode(each)
        put(producer, config.topic("event"), value, key, headers=headers)
        count += 1
    producer.flush()
    return count


def put(producer: Producer, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> None:
    """Produces a record; waits while the client's queue is full."""
    while True:
        try:
            producer.produce(topic, value, key, **more)
            return
        except BufferError:
            producer.poll(0.1)


def subscribe(
    config: BusConfig,
    subscriptions: Iterable[tuple[str, Condition, str | None]],
    *,
    durable: bool,
    since_ms: int = 0,
) -> None:
    """Writes registrations. With `since_ms` 0 they look back."""
    producer = Producer({**config.client, "linger.ms": 20})
    for name, condition, key in subscriptions:
        registration = Registration.of(
            name, condition, key, since_ms, kind="durable" if durable else "one-shot"
        )
        place = RegistrationKey(registration.incarnation, "bench").encode()
        put(producer, config.topic("subscription"), encode_json(registration), place, partition=0)
        producer.poll(0)
    producer.flush()


def run_until_open(config: BusConfig) -> None:
    """Runs an engine until it has applied all registrations, so that later events are live ones."""
    engine = Engine(KafkaBus(config), config)
    while not (engine.is_open and engine.up_to_date):
        engine.run_pass()
    engine.close()


def waits(count: int) -> Iterator[tuple[str, Condition, str | None]]:
    """One-shot waits for a pair, each with its own key that no event of `unmatched` has."""
    for n in range(count):
        yield f"wait-{n}", PAIR, f"w{n}"
