"""Buses to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import bus_record, create, write_bus_record
from interlock.spark.pipeline.source import BusTopics


@dataclass(frozen=True)
class Site:
    """A bus with its topics, and helpers to fill them."""

    servers: str
    config: BusConfig

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def bus(self) -> BusTopics:
        return BusTopics(self.name, {"kafka.bootstrap.servers": self.servers})

    def topic(self, kind: str = "event") -> str:
        return self.config.topic(kind)

    def producer(self, **properties: str) -> Producer:
        return Producer({"bootstrap.servers": self.servers, "linger.ms": "5", **properties})

    def list(self, topic: str, partitions: int = 1) -> None:
        """Creates a topic of another owner, and lists it. It has no retention: tests write old timestamps."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        kept = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(topic, partitions, config=kept)])[topic].result(15)
        record = bus_record(self.config)
        assert record is not None
        topics, cloudevents = (*record.topics, topic), (*record.cloudevents, topic)
        write_bus_record(self.config, msgspec.structs.replace(record, topics=topics, cloudevents=cloudevents))


def headers(id_: str, type_: str = "com.example.rates", **more: str) -> list[tuple[str, str | bytes | None]]:
    """The headers of an event in binary mode."""
    given = {"specversion": "1.0", "id": id_, "source": "/tests", "type": type_, **more}
    return [(f"ce_{name}", value.encode()) for name, value in given.items()]


@pytest.fixture
def site(bootstrap_servers: str, unique_name: Callable[[str], str]) -> Site:
    """This test's own bus, whose event topic has two partitions."""
    config = BusConfig(unique_name("bus"), client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=2)
    return Site(bootstrap_servers, config)
