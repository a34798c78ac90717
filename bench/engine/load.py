"""Events and subscriptions of the engine's benches, on buses of their own."""

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
OPEN = 10_000  # keys at a time: a durable subscription may not have more than 100,000
FILLING = "y" * 100
PAIR = event("pair.first", by="subject") & event("pair.second", by="subject")
SOLO = event("solo", by="subject")


def new_bus(name: str, bootstrap_servers: str) -> BusConfig:
    config = BusConfig(name=name, client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=PARTITIONS)
    return config


def unmatched(count: int) -> Iterator[Event]:
    """Events that nobody subscribes to, of about 300 bytes with their six headers."""
    for n in range(count):
        yield one("com.example.other", n, f"s{n % 1000}")


def solos(count: int) -> Iterator[Event]:
    for n in range(count):
        yield one("solo", n, f"s{n % 1000}")


def one(kind: str, n: object, subject: str) -> Event:
    """Not validated: a turn has as many as an engine takes in a second, and is to be made in less."""
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
    """Produce events, and wait until they are stored; how many they were."""
    return send(Producer({**config.client, **PRODUCER}), config, events)


def hidden(config: BusConfig, events: Iterable[Event]) -> Callable[[], None]:
    """Produce events that nobody can read yet, and give what lets all of them be read at once."""
    producer = Producer({**config.client, **PRODUCER, "transactional.id": f"bench-{config.name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, config, events)
    return lambda: producer.commit_transaction(30)


def send(producer: Producer, config: BusConfig, events: Iterable[Event]) -> int:
    """As `produce`, by a producer that may be warm."""
    count = 0
    for each in events:
        key, value, headers = encode(each)
        put(producer, config.topic("event"), value, key, headers=headers)
        count += 1
    producer.flush()
    return count


def put(producer: Producer, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> None:
    """Produce a record, once the client's queue has room."""
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
    """Register; with a `since` of 0 look-backs are real."""
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
    """Let an engine apply what is registered, so that the events to come are live ones."""
    engine = Engine(KafkaBus(config), config)
    while not (engine.is_open and engine.up_to_date):
        engine.run_pass()
    engine.close()


def waits(count: int) -> Iterator[tuple[str, Condition, str | None]]:
    """One-shot waits for a pair, each with a key of its own that no event of `unmatched` has."""
    for n in range(count):
        yield f"wait-{n}", PAIR, f"w{n}"
