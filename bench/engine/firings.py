"""A reader of all firings of a bus, committed ones only."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition
from interlock.engine.config import BusConfig


def firings_of(config: BusConfig, partitions: int, settings: dict[str, Any] | None = None) -> Consumer:
    """A consumer assigned to all partitions of the action topic, from their beginning. settings:
    additional."""
    consumer = Consumer({
        **config.client, "group.id": "bench", "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", **(settings or {}),
    })  # fmt: skip
    topic = config.topic("action")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    return consumer
