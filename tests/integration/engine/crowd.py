"""Waits and events by the thousand, and what an engine does with them: its counters, its transactions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned
from interlock import Condition, Event
from interlock.engine.bus import Committed, Output, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.engine.runtime.reporting import EngineStatus
from interlock.engine.runtime.runtime import EngineProcess, run_engine
from interlock.events.kafka import encode

from .conftest import in_thread


def write(config: BusConfig, kind: str, records: Iterable[tuple[bytes | None, bytes | None, Any]]) -> None:
    """Append records (key, value, headers) to one of the bus's topics, and wait until they are there."""
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {**config.client, "linger.ms": 20, "compression.type": "lz4", "partitioner": "murmur2_random"}
    )
    for key, value, headers in records:
        while True:
            try:
                producer.produce(config.topic(kind), value, key, headers=headers, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed


def produce(config: BusConfig, events: Iterable[Event]) -> None:
    """Append events, each on the partition of its subject."""

    def records() -> Iterator[tuple[bytes | None, bytes | None, Any]]:
        for one in events:
            key, value, headers = encode(one)
            yield key, value, list(headers)

    write(config, "event", records())


def register(
    config: BusConfig, waits: Iterable[tuple[str, Condition, str | None]], since_ms: int = 0
) -> list[Registration]:
    """Register one-shot waits (subscription, condition, key) in one go."""
    made = [Registration.of(name, condition, key, since_ms) for name, condition, key in waits]
    write(
        config,
        "subscription",
        ((RegistrationKey(one.incarnation, "crowd").encode(), encode_json(one), None) for one in made),
    )
    return made


class Followed:
    """Counts the committed records of one of the bus's topics, each read once, however often it is asked."""

    def __init__(self, config: BusConfig, kind: str, partitions: int) -> None:
        self._counted = 0
        self._consumer = Consumer({**config.client, "group.id": "crowd", "isolation.level": "read_committed"})
        self._consumer.assign([Assigned(config.topic(kind), p, 0) for p in range(partitions)])

    def count(self) -> int:
        messages = self._consumer.consume(10_000, 0.2)
        self._counted += sum(message.error() is None for message in messages)
        return self._counted

    def close(self) -> None:
        self._consumer.close()


@dataclass
class Transaction:
    """What one commit wrote."""

    kinds: Counter[str]
    size: int
    keys: list[bytes | None]

    @property
    def records(self) -> int:
        return self.kinds.total()


@dataclass
class Transactions:
    """What the engines of this process have committed, in order."""

    config: BusConfig
    done: list[Transaction] = field(default_factory=list)

    @classmethod
    def watched(cls, config: BusConfig, monkeypatch: pytest.MonkeyPatch) -> Transactions:
        found = cls(config)
        commit = KafkaBus.commit

        def watching(
            bus: KafkaBus,
            outputs: Sequence[Output],
            offsets: Mapping[TopicPartition, Committed],
            membership: object,
        ) -> int | None:
            stamped = commit(bus, outputs, offsets, membership)
            kinds = Counter(output.topic.removeprefix(f"{config.name}-") for output in outputs)
            size = sum(len(output.value or b"") for output in outputs)
            found.done.append(Transaction(kinds, size, [output.key for output in outputs]))
            return stamped

        monkeypatch.setattr(KafkaBus, "commit", watching)
        return found

    @property
    def most_records(self) -> int:
        return max(one.records for one in self.done)

    @property
    def most_bytes(self) -> int:
        return max(one.size for one in self.done)

    def of(self, key: str) -> list[int]:
        """The numbers of the transactions that wrote the action of this subscription."""
        wanted = key.encode()
        return [n for n, one in enumerate(self.done) if wanted in one.keys]


@contextmanager
def counted_engine(config: BusConfig) -> Iterator[EngineStatus]:
    """An engine in a thread, with its counters; the test fails if it ends by itself."""
    status = EngineStatus()
    ended: list[BaseException] = []

    def life(stop: threading.Event) -> None:
        try:
            run_engine(config, stop, process=EngineProcess(status=status))
        except BaseException as e:  # reported below
            ended.append(e)

    with in_thread("engine", life):
        yield status
    assert not ended, f"the engine ended with {ended}"
