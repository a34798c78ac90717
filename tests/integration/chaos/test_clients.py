"""Clients of chaos that have lost the brokers are replaced, so a run still gets its verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create

from tests.chaos.clients import lost_brokers
from tests.chaos.load import Load, Plan
from tests.chaos.oracle import Follower

PLAN = Plan(rate=1, durables=0, keys=1, waits_per_s=1, timed=False, durable=False, listed=False)


class Lost:
    """A client whose brokers answer nothing any more. It keeps its places."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.polled, self._never = threading.Event(), threading.Event()

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def consume(self, most: int, timeout: float) -> list[Any]:
        self.polled.set()
        self._never.wait(timeout)  # as the real one waits
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.fixture
def config(bootstrap_servers: str, unique_name: Callable[[str], str]) -> BusConfig:
    made = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(made, partitions=1)
    return made


def write(config: BusConfig, kind: str, values: list[bytes]) -> None:
    producer = Producer(dict(config.client))
    for value in values:
        producer.produce(config.topic(kind), value, b"k", partition=0)
    assert producer.flush(30) == 0


def test_a_client_has_lost_the_brokers_only_if_they_answer_another(bootstrap_servers: str) -> None:
    client = Producer({"bootstrap.servers": bootstrap_servers})
    assert not lost_brokers(client, bootstrap_servers)
    assert lost_brokers(Lost(client), bootstrap_servers)
    assert not lost_brokers(Lost(client), "127.0.0.1:1", seconds=0.5)


def test_the_oracle_reads_each_record_once_although_its_consumer_lost_the_brokers(
    config: BusConfig, bootstrap_servers: str, eventually: Callable[..., Any]
) -> None:
    follower = Follower(bootstrap_servers, config.name)

    def values() -> list[bytes | None]:
        return [record.value for records in follower.snapshot().kind("event") for record in records]

    follower.start()
    try:
        write(config, "event", [b"1", b"2"])
        eventually("two records read", lambda: values() == [b"1", b"2"])
        follower._consumer = lost = Lost(follower._consumer)
        assert lost.polled.wait(60)
        write(config, "event", [b"3"])
        eventually("three records read", lambda: values() == [b"1", b"2", b"3"])
    finally:
        follower.stop()


def test_the_load_goes_on_where_its_consumer_was_and_writes_again(
    config: BusConfig, bootstrap_servers: str
) -> None:
    load = Load(bootstrap_servers, config, PLAN, seed=1, partitions=1)
    topic = config.topic("action")
    write(config, "action", [b"1", b"2"])
    before = load._waiter([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in before.consume(2, 60)] == [b"1", b"2"]
    load._producer = Lost(load._producer)
    after = load._with_brokers(Lost(before))
    load._write("action", 0, b"k", b"3")
    load._flush()
    assert [message.value() for message in after.consume(1, 60)] == [b"3"]
    before.close()
    after.close()
